"""What was predicted before the first boot beside what was measured, as tables, sentences and JSON."""

from __future__ import annotations

from typing import Any

from kvantage.analysis.findings import Findings
from kvantage.analysis.foretold import Foretold, Held, PlannerError
from kvantage.core.reading import Reading
from kvantage.report.figures import DASH, Notes, figure, number
from kvantage.report.tables import Table


def pools_foretold(findings: Findings) -> Table:
    """An arm a row: its pool, a token's bytes and sessions; predicted, measured, and the error."""
    notes = Notes()
    rows = tuple(
        (arm.arm, row.name, _span(row.predicted, notes), _value(row.measured, notes), *_judged(row))
        for arm in findings.foresight.arms
        for kind in ("pool", "bytes", "sessions")
        for row in arm.rows
        if row.kind == kind
    )
    columns = ("Arm", "Quantity", "Predicted (range)", "Measured", "Error", "In range")
    return Table("Pools: predicted before the first boot", columns, rows, (2, 3, 4), tuple(notes.lines()))


def speeds_foretold(findings: Findings) -> Table:
    """A cell a row: tok/s of one stream and the acceptance length that it rests on."""
    notes = Notes()
    rows = []
    for arm in findings.foresight.arms:
        lengths = {row.name: row for row in arm.find("acceptance")}
        for row in arm.find("speed"):
            if not (row.predicted.known or row.measured.known):
                continue
            length = lengths.get(row.name)
            assumed = f"{_span(length.predicted, notes)} / {_value(length.measured, notes)}" if length else ""
            rows.append(
                (
                    arm.arm,
                    row.name,
                    _span(row.predicted, notes),
                    _value(row.measured, notes),
                    *_judged(row),
                    assumed,
                )
            )
    columns = (
        "Arm",
        "Cell",
        "Predicted (range)",
        "Measured",
        "Error",
        "In range",
        "Acceptance length, assumed / measured",
    )
    said = "tok/s of one stream, steady."
    return Table(
        "Speeds: predicted before the first boot",
        columns,
        tuple(rows),
        (2, 3, 4),
        (said, *notes.lines()) if rows else (),
    )


def foresight_sentences(findings: Findings) -> list[str]:
    """On which hardware it was planned, what could not be, and the planner's own error."""
    foresight = findings.foresight
    said = [f"Planned for {words}." for words in _each(arm.hardware for arm in foresight.arms)]
    said += [f"Calibrated by {words}." for words in _each(arm.calibrated_by for arm in foresight.arms)]
    said += [f"{arm.arm}: nothing was predicted: {arm.missing}." for arm in foresight.arms if arm.missing]
    if foresight.here:
        said.append(f"The planner's error in this study: {'; '.join(map(_error, foresight.here))}.")
    if foresight.before:
        said.append(f"Over the last runs here before it: {'; '.join(map(_error, foresight.before))}.")
    elif foresight.here:
        said.append("No earlier run on this machine and engine was kept to compare with.")
    return said


def brief_foresight(findings: Findings) -> list[str]:
    """The planner's own error, for a terminal."""
    foresight = findings.foresight
    said = []
    if foresight.here:
        said.append(f"predicted before it ran: off by {'; '.join(map(_error, foresight.here))}")
    if foresight.before:
        said.append(f"over the last runs here: {'; '.join(map(_error, foresight.before))}")
    return said


def foresight_json(findings: Findings) -> dict[str, Any]:
    """The block `predicted` of report.json."""
    foresight = findings.foresight
    return {
        "arms": {arm.arm: _arm(arm) for arm in foresight.arms},
        "error": {one.kind: _error_json(one) for one in foresight.here},
        "error_before": {one.kind: _error_json(one) for one in foresight.before},
    }


def _arm(arm: Foretold) -> dict[str, Any]:
    return {
        "missing": arm.missing,
        "hardware": arm.hardware,
        "calibrated_by": arm.calibrated_by,
        "rows": [
            {
                "kind": row.kind,
                "name": row.name,
                "phase": row.phase,
                "workload": row.workload,
                "concurrency": row.concurrency,
                "predicted": number(row.predicted),
                "measured": number(row.measured),
                "error_percent": number(row.error),
                "within": row.within,
            }
            for row in arm.rows
        ],
    }


def _error_json(one: PlannerError) -> dict[str, Any]:
    return {
        "predictions": one.predictions,
        "median_percent": number(one.median),
        "largest_percent": number(one.largest),
    }


def _error(one: PlannerError) -> str:
    times = "prediction" if one.predictions == 1 else "predictions"
    return (
        f"{one.kind} {one.median.value:.1f} % in the median, {one.largest.value:.1f} % at most, "
        f"over {one.predictions} {times}"
    )


def _span(reading: Reading, notes: Notes) -> str:
    text = figure(reading)
    if reading.low is not None and reading.high is not None and reading.low < reading.high:
        low, high = (Reading.of(end, reading.unit, "predicted") for end in (reading.low, reading.high))
        text = f"{text} ({figure(low)} to {figure(high)})"
    return notes.mark(text, reading)


def _value(reading: Reading, notes: Notes) -> str:
    return notes.mark(figure(reading), reading)


def _judged(row: Held) -> tuple[str, str]:
    error = DASH if row.error.value is None else f"{row.error.value:+.1f} %"
    return error, DASH if row.within is None else "yes" if row.within else "no"


def _each(words: Any) -> list[str]:
    return list(dict.fromkeys(word for word in words if word))
