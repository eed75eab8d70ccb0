"""Where each arm's pool went, as a table and as JSON."""

from __future__ import annotations

from typing import Any

from kvantage.analysis.attribution import Attribution, Part
from kvantage.analysis.findings import Findings
from kvantage.core.reading import Reading
from kvantage.report.figures import Notes, number, size
from kvantage.report.tables import Table


def attribution_table(findings: Findings) -> Table:
    """An arm and a taker a row: what the control's pool lost to it, on the rank that binds."""
    rows, notes = [], Notes()
    for each in findings.attributions:
        for part in (each.lost, *each.parts, each.unexplained):
            tokens = "" if part.tokens.value is None else f"{part.tokens.value:,.0f}"
            name = "lost in all" if part is each.lost else part.name
            rows.append((each.arm, name, notes.mark(_bytes(part.bytes), part.bytes), tokens))
    said = (
        "Bytes on the rank that binds, and the target's tokens that they would have held; negative: a gain."
    )
    columns = ("Arm", "Taken by", "Bytes", "As tokens")
    return Table("Where the pool went", columns, tuple(rows), (2, 3), (said, *notes.lines()))


def attribution_json(each: Attribution) -> dict[str, Any]:
    """One arm's attribution for report.json."""
    return {
        "arm": each.arm,
        "baseline": each.baseline,
        "lost": _part(each.lost),
        "parts": {part.name.replace(" ", "_").lower(): _part(part) for part in each.parts},
        "unexplained": _part(each.unexplained),
    }


def _part(part: Part) -> dict[str, Any]:
    return {"bytes": number(part.bytes), "tokens": number(part.tokens)}


def _bytes(reading: Reading) -> str:
    """With half the width of its interval, where the engine rounded what it told."""
    if reading.value is None or reading.low is None or reading.high is None:
        return size(reading)
    slack = Reading.of((reading.high - reading.low) / 2, "bytes", "computed")
    return f"{size(reading)} ± {size(slack)}"
