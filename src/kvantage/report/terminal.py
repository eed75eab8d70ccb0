"""The short report in a terminal."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from kvantage.analysis.exactness.judge import Exactness
from kvantage.analysis.findings import Findings
from kvantage.report import answers, exactness, tables
from kvantage.report.decision import beside_verdict
from kvantage.report.escape import plain
from kvantage.report.figures import DASH
from kvantage.report.foretold import brief_foresight
from kvantage.report.ladder import brief_ladder, ladder_sentences
from kvantage.report.sweep import sweep_sentences, sweep_table
from kvantage.report.tables import Table


def show_terminal(findings: Findings, console: Console | None = None) -> None:
    """Print notice, verdict, trades, the main tables, what was void, and the limits."""
    out = console or Console()
    if findings.notice:
        out.print(Text(plain(findings.notice), style="bold yellow"))
        out.print()
    show_table(out, tables.results(findings))
    show_table(out, tables.sessions(findings, brief=True))
    show_table(out, brief_ladder(findings))
    _say(out, ladder_sentences(findings, brief=True))
    show_table(out, sweep_table(findings, brief=True))
    _say(out, sweep_sentences(findings))
    show_table(out, tables.acceptance(findings, brief=True))
    show_table(out, exactness.verdict_table(findings.exactness))
    _void(out, findings)
    show_table(out, answers.probes(findings, brief=True))
    show_table(out, answers.recall(findings))
    for arm in findings.arms:
        if arm.status in ("failed", "partial"):
            out.print(Text(f"{plain(arm.name)}: {arm.status}: {plain(arm.reason or '')}", style="red"))
            for line in arm.log_lines[:5]:
                out.print(Text(f"  {plain(line)}", style="dim"))
    if findings.trades:
        out.print(Text(f"Against {plain(findings.study.control)}", style="bold"))
        for trade in findings.trades:
            sentence = Text.assemble((plain(trade.arm), "bold"), f" {plain(trade.sentence)}.")
            out.print(Padding(sentence, (0, 0, 0, 2)))
        out.print()
    for sentence_text in brief_foresight(findings):
        out.print(Text(plain(sentence_text), style="dim"))
    out.print(Text("Verdict", style="bold"))
    for sentence_text in findings.verdict.sentences:
        out.print(Padding(Text(plain(sentence_text)), (0, 0, 0, 2)))
    for line in (*beside_verdict(findings), *findings.limits[:2]):
        out.print(Padding(Text(plain(line), style="dim"), (0, 0, 0, 2)))


def _say(out: Console, told: list[tuple[str, str]]) -> None:
    for arm, sentence in told:
        out.print(Padding(Text.assemble((plain(arm), "bold"), f" {plain(sentence)}."), (0, 0, 0, 2)))
    if told:
        out.print()


def _void(out: Console, findings: Findings) -> None:
    rows = tables.void(findings).rows
    if not rows:
        return
    out.print(Text("Void, and why", style="bold"))
    for arm, _, cell, at_once, reason, finding in rows:
        line = Text.assemble((plain(arm), "bold"), f" {plain(cell)}, {at_once} at once: {plain(reason)}")
        out.print(Padding(line, (0, 0, 0, 2)))
        if finding != DASH:
            out.print(Padding(Text(plain(finding), style="yellow"), (0, 0, 0, 4)))
    out.print()


def show_exactness(found: Exactness, console: Console | None = None) -> None:
    """Print everything of the exactness phase, the worst divergences included."""
    out = console or Console()
    show_table(out, exactness.verdict_table(found))
    _say(out, exactness.stream_lines(found))
    _say(out, exactness.survival_lines(found))
    for table in (
        exactness.matrix_table(found),
        exactness.gaps_table(found),
        exactness.worst_table(found),
        exactness.sampling_table(found),
        exactness.tasks_table(found),
    ):
        show_table(out, table)


def show_table(out: Console, table: Table) -> None:
    """Print a table with its notes; nothing where it has no row."""
    if not table.rows:
        return
    shown = RichTable(title=table.title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for place, column in enumerate(table.columns):
        shown.add_column(
            Text(plain(column)), justify="right" if place in table.numeric else "left", overflow="fold"
        )
    for row in table.rows:
        shown.add_row(*(Text(plain(cell)) for cell in row))
    out.print(shown)
    for note in table.notes:
        out.print(Padding(Text(plain(note), style="dim"), (0, 0, 0, 2)))
    out.print()
