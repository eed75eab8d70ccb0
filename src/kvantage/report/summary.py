"""The part of report.md that is posted: the verdict, the trades, one table."""

from __future__ import annotations

from kvantage.analysis.findings import Findings
from kvantage.report import tables
from kvantage.report.escape import markdown


def summary_markdown(findings: Findings) -> str:
    """Markdown that pastes into GitHub, a forum or a model card: what was found, with what it rests on."""
    study, table = findings.study, tables.results(findings)
    rule = ["---:" if place in table.numeric else "---" for place in range(len(table.columns))]
    versions = sorted({arm.engine_version for arm in findings.arms if arm.engine_version})
    boots = max((len({boot.block for boot in arm.boots}) for arm in findings.arms), default=0)
    void = sum(not cell.ok for arm in findings.arms for cell in arm.cells)
    lines = [f"**{markdown(findings.notice)}**", ""] if findings.notice else []
    lines += [" ".join(f"**{markdown(sentence)}**" for sentence in findings.verdict.sentences), ""]
    lines += [_row(table.columns), f"| {' | '.join(rule)} |", *(_row(row) for row in table.rows), ""]
    lines += [markdown(note) for note in table.notes]
    lines += [
        "",
        markdown(
            f"{study.model} on {study.engine} {', '.join(versions)}; {boots} boot{'s' if boots != 1 else ''} "
            f"an arm; {void} cells void; kvantage {findings.kvantage_version}."
        ),
    ]
    return "\n".join(lines) + "\n"


def _row(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(markdown(cell) for cell in cells)} |"
