"""report.md: the write-up, to be pasted where others decide by it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from kvantage.analysis.findings import Findings
from kvantage.report import answers, clocks, compared, decision, exactness, tables
from kvantage.report.attribution import attribution_table
from kvantage.report.escape import fenced, markdown
from kvantage.report.foretold import foresight_sentences, pools_foretold, speeds_foretold
from kvantage.report.ladder import hits_table, ladder_sentences, ladder_table
from kvantage.report.sweep import sweep_sentences, sweep_table
from kvantage.report.tables import Table


def report_markdown(findings: Findings) -> str:
    """The text of report.md. Its first line is the study's notice, where there is one."""
    study = findings.study
    lines: list[str] = []
    if findings.notice:
        lines += [f"**{markdown(findings.notice)}**", ""]
    lines += [
        f"# {markdown(_last(study.model))}: {len(findings.arms)} arms on {markdown(study.engine)}",
        "",
        " ".join(f"**{markdown(sentence)}**" for sentence in findings.verdict.sentences),
        "",
        *_trades(findings),
        *_table(tables.arms(findings)),
        *_table(tables.results(findings)),
        *_table(tables.sessions(findings)),
        *_table(attribution_table(findings)),
        *_table(tables.first_tokens(findings)),
        *_table(ladder_table(findings)),
        *_sentences(ladder_sentences(findings)),
        *_table(hits_table(findings)),
        *_table(sweep_table(findings)),
        *_sentences(sweep_sentences(findings), "Where each arm stops paying in the closed loop:"),
        *_table(tables.acceptance(findings)),
        *_table(clocks.energy_table(findings)),
        *_table(exactness.verdict_table(findings.exactness)),
        *_sentences(exactness.stream_lines(findings.exactness), "Streamed answers against whole ones:"),
        *_table(exactness.matrix_table(findings.exactness)),
        *_sentences(exactness.survival_lines(findings.exactness)),
        *_table(exactness.gaps_table(findings.exactness)),
        *_table(exactness.worst_table(findings.exactness)),
        *_table(exactness.sampling_table(findings.exactness)),
        *_table(exactness.tasks_table(findings.exactness)),
        *_table(tables.void(findings), otherwise="Nothing: every cell passed its gates."),
        *_failures(findings),
        *_table(answers.probes(findings)),
        *_table(answers.recall(findings)),
        *_verdict(findings),
        *_table(decision.standings(findings)),
        *_pairs(findings),
        *_table(compared.ratios(findings)),
        *_table(compared.noise(findings)),
        *_sentences(compared.doubts(findings), "What an interval does not show:"),
        *_crossovers(findings),
        *_table(tables.cells(findings)),
        *_foresight(findings),
        *_excluded(findings),
        *_table(tables.differences(findings)),
        *_table(tables.skipped(findings)),
        *_method(findings),
        *_commands(findings),
        *_table(tables.boots(findings)),
        *_table(clocks.devices_table(findings)),
        *_sentences(clocks.unequal(findings), "Clocks that stood elsewhere than the control's:"),
        *_table(clocks.machines_table(findings)),
        *_sentences(clocks.absences(findings), "What of the machines is not told:"),
        *_limits(findings),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _trades(findings: Findings) -> list[str]:
    if not findings.trades:
        return []
    lines = [f"## What each arm costs and buys, against {markdown(findings.study.control)}", ""]
    lines += [f"- **{markdown(trade.arm)}** {markdown(trade.sentence)}." for trade in findings.trades]
    return [*lines, ""]


def _pairs(findings: Findings) -> list[str]:
    rivals = [
        each
        for each in findings.comparisons
        if not each.against_control
        and (each.pool_tokens.known or any(ratio.ratio.known for ratio in each.ratios))
    ]
    if not rivals:
        return []
    lines = ["## Each pair of drafters", ""]
    return [*lines, *(f"- {markdown(each.sentence)}." for each in rivals), ""]


def _crossovers(findings: Findings) -> list[str]:
    found = [
        f"- **{markdown(each.arm)}**, {markdown(each.crossover_phase or '')}: {each.crossover.words}."
        for each in findings.comparisons
        if each.against_control and each.crossover is not None
    ]
    if not found:
        return []
    said = "Concurrencies between which the ratio to the control falls below 1, of those that were measured."
    return ["## Where a drafter stops paying", "", said, "", *found, ""]


def _sentences(told: list[tuple[str, str]], opening: str | None = None) -> list[str]:
    if not told:
        return []
    lines = [f"- **{markdown(arm)}**: {markdown(sentence)}." for arm, sentence in told]
    return [*([opening, ""] if opening else []), *lines, ""]


def _verdict(findings: Findings) -> list[str]:
    verdict = findings.verdict
    if verdict.status == "no policy":
        return []
    lines = ["## How the verdict was reached", "", f"- Maximised: {markdown(verdict.objective)}."]
    if verdict.rivals:
        near = "; ".join(each.words for each in verdict.rivals)
        lines.append(f"- Nearest rivals: {markdown(near)}.")
    lines += [f"- Constraint: {markdown(each.words)}." for each in verdict.constraints]
    lines += [f"- Ruled out: {markdown(each.arm)}, {markdown(each.why)}." for each in verdict.ruled_out]
    lines += [f"- Would flip it: {markdown(flip)}." for flip in verdict.flips]
    return [*lines, ""]


def _failures(findings: Findings) -> list[str]:
    lines: list[str] = []
    for arm in findings.arms:
        if arm.status not in ("failed", "partial"):
            continue
        lines += [f"## {markdown(arm.name)}: {arm.status}", "", f"{markdown(arm.reason or '')}", ""]
        if arm.log_lines:
            lines += ["In its log's own words:", "", *fenced(list(arm.log_lines)), ""]
    return lines


def _foresight(findings: Findings) -> list[str]:
    """Predicted beside measured, where anything was predicted."""
    if not any(arm.rows or arm.hardware for arm in findings.foresight.arms):
        return []
    said = [f"- {markdown(sentence)}" for sentence in foresight_sentences(findings)]
    return [
        *_table(pools_foretold(findings)),
        *_table(speeds_foretold(findings)),
        "What the predictions rest on, and how far off they are:",
        "",
        *said,
        "",
    ]


def _excluded(findings: Findings) -> list[str]:
    lines = [
        f"- {markdown(arm.name)}, {markdown(cell.key.phase)} {markdown(cell.key.workload)} at "
        f"{cell.key.concurrency}: {markdown(gone.prompt_id)}, {markdown(gone.why)}."
        for arm in findings.arms
        for cell in arm.cells
        for gone in cell.speed.excluded
    ]
    return ["## Left out of the speeds by rule", "", *lines, ""] if lines else []


def _method(findings: Findings) -> list[str]:
    lines = ["## How it was measured", "", *(f"- {markdown(line)}" for line in findings.method)]
    versions = {arm.engine_version for arm in findings.arms if arm.engine_version}
    version = f"{findings.study.engine} {', '.join(sorted(versions))}".strip()
    notes = dict.fromkeys(
        f"{arm.name}, {cell.key.phase} {cell.key.workload} at {cell.key.concurrency}: {note}"
        for arm in findings.arms
        for cell in arm.cells
        for note in cell.notes
    )
    warnings = dict.fromkeys(
        f"{arm.name}: {warning}" for arm in findings.arms for boot in arm.boots for warning in boot.warnings
    )
    events = dict.fromkeys(
        f"{event.arm or 'study'}, {event.kind}: {event.text}"
        for event in findings.events
        if f"{event.arm}: {event.text}" not in warnings
    )
    lines += [f"- Measured by kvantage {markdown(findings.kvantage_version)} on {markdown(version)}."]
    lines += [f"- {markdown(note)}" for note in (*notes, *events, *warnings)]
    hardware = dict.fromkeys(
        ", ".join(f"{name} {value}" for name, value in boot.provenance["hardware"].items())
        for arm in findings.arms
        for boot in arm.boots
        if boot.provenance and isinstance(boot.provenance.get("hardware"), Mapping)
    )
    lines += [f"- Hardware: {markdown(text)}." for text in hardware]
    return [*lines, ""]


def _commands(findings: Findings) -> list[str]:
    """The exact command of each arm, as its first boot had it."""
    lines: list[str] = []
    for arm in findings.arms:
        for boot in arm.boots[:1]:
            command = (boot.provenance or {}).get("command")
            if isinstance(command, list | tuple) and command:
                env = (boot.provenance or {}).get("env")
                given = [f"{name}={value}" for name, value in env.items()] if isinstance(env, Mapping) else []
                words = shlex.join([*given, *map(str, command)])
                lines += [f"**{markdown(arm.name)}**", "", *fenced([words]), ""]
    return ["## The commands", "", *lines] if lines else []


def _limits(findings: Findings) -> list[str]:
    return ["## Limits", "", *(f"- {markdown(limit)}" for limit in findings.limits), ""]


def _table(table: Table, otherwise: str | None = None) -> list[str]:
    if not table.rows:
        return [] if otherwise is None else [f"## {markdown(table.title)}", "", otherwise, ""]
    rule = ["---:" if place in table.numeric else "---" for place in range(len(table.columns))]
    lines = [f"## {markdown(table.title)}", "", _row(table.columns), f"| {' | '.join(rule)} |"]
    lines += [_row(row) for row in table.rows]
    lines += ["", *(line for note in table.notes for line in (markdown(note), ""))]
    return lines


def _row(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(markdown(cell) for cell in cells)} |"


def _last(path: str) -> str:
    return path.rstrip("/").rsplit("/", 1)[-1] or path
