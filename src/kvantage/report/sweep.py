"""The sweep over concurrency, shown: as JSON and as tables."""

from __future__ import annotations

from typing import Any

from kvantage.analysis.findings import Findings
from kvantage.analysis.sweep import Row, Sweep
from kvantage.core.reading import Reading
from kvantage.report.figures import DASH, Notes, figure, number, times
from kvantage.report.tables import Table

Json = dict[str, Any]


def sweep_json(sweep: Sweep) -> Json:
    """One arm's sweep of one workload as plain data."""
    stops = sweep.stops
    return {
        "arm": sweep.arm,
        "workload": sweep.workload,
        "rows": [_row(row) for row in sweep.rows],
        "stops_paying": None
        if stops is None
        else {"words": stops.words, "after_concurrency": stops.low, "by_concurrency": stops.high},
        "cause": sweep.cause,
        "left_out_as_queues": [{"concurrency": each} for each in sweep.queued],
        "without_ratio": [{"concurrency": each} for each in sweep.untold],
    }


def _row(row: Row) -> Json:
    return {
        "concurrency": row.concurrency,
        "block": row.block,
        "kind": row.kind,
        "why": row.why,
        "steady_tok_s": number(row.aggregate),
        "decode_tok_s": number(row.per_user),
        "ttft_s": number(row.ttft),
        "acceptance_length": number(row.acceptance_length),
        "step_s": number(row.step),
        "steady_ratio": number(row.ratio),
        "decode_ratio": number(row.user_ratio),
        "rho": number(row.rho),
        "break_even_acceptance_length": number(row.rho),
        "running_requests": number(row.running),
        "waiting_requests": number(row.waiting),
        "queue_s": number(row.queue_s),
        "goodput_requests_s": number(row.goodput),
        "goodput_share": number(row.kept),
    }


def sweep_table(findings: Findings, brief: bool = False) -> Table:
    """A row an arm, workload and concurrency; a queue is called one."""
    notes = Notes()
    limits = any(row.goodput.known for sweep in findings.sweeps for row in sweep.rows)
    columns = ["Arm", "workload", "in flight", "measured", "aggregate tok/s"]
    columns += [] if brief else ["to control"]
    columns += ["tok/s a user", "AL", "rho" if brief else "rho = break-even AL"]
    columns += [] if brief else ["step ms", "TTFT s", "most running", "most waiting", "queue s"]
    columns += ["goodput req/s", "within limits"] if limits else []
    rows = []
    for sweep in findings.sweeps:
        control = findings.arm(sweep.arm).control
        for row in sweep.rows:
            cells = [sweep.arm, sweep.workload, str(row.concurrency), _kind(row, notes)]
            if brief:
                ratio = f" ({times(row.ratio)})" if row.ratio.known else ""
                cells.append(notes.mark(figure(row.aggregate) + ratio, row.aggregate))
            else:
                cells.append(notes.mark(figure(row.aggregate), row.aggregate))
                cells.append("control" if control else _refused(row.ratio, times(row.ratio), notes))
            cells.append(notes.mark(figure(row.per_user), row.per_user))
            if control:
                cells += [DASH, DASH]
            else:
                cells.append(notes.mark(figure(row.acceptance_length), row.acceptance_length))
                cells.append(_refused(row.rho, figure(row.rho), notes))
            if not brief:
                cells += [
                    notes.mark(_milliseconds(row.step), row.step),
                    notes.mark(figure(row.ttft, 3), row.ttft),
                    notes.mark(figure(row.running), row.running),
                    notes.mark(figure(row.waiting), row.waiting),
                    notes.mark(figure(row.queue_s, 3), row.queue_s),
                ]
            if limits:
                cells.append(notes.mark(figure(row.goodput), row.goodput))
                cells.append(_share(row.kept, notes))
            rows.append(tuple(cells))
    said = [
        "A closed loop, its ramps cut. A queue: the server did not run all that were in flight; its figures "
        "are those of the queue, and it is in no ratio."
    ]
    said += [f"In brackets the ratio to the control {findings.study.control}."] if brief else []
    within = next(
        (row.goodput.note for sweep in findings.sweeps for row in sweep.rows if row.goodput.note), None
    )
    said += [f"Goodput: requests that kept to {within}."] if within else []
    numeric = (2, *range(4, len(columns)))
    return Table("Sweep over concurrency", tuple(columns), tuple(rows), numeric, (*said, *notes.lines()))


def sweep_sentences(findings: Findings) -> list[tuple[str, str]]:
    """(arm, sentence): where each arm stops paying, and what got worse on the way."""
    told = []
    for sweep in findings.sweeps:
        if findings.arm(sweep.arm).control:
            continue
        words = sweep.stops.words if sweep.stops else "not known: no concurrency is sound in both arms"
        out = f"; {', '.join(map(str, sweep.queued))} left out: a queue" if sweep.queued else ""
        out += f"; {', '.join(map(str, sweep.untold))} not known: no ratio" if sweep.untold else ""
        cause = f"; what changed: {sweep.cause}" if sweep.cause else ""
        told.append((sweep.arm, f"{sweep.workload}: {words}{out}{cause}"))
    return told


def _kind(row: Row, notes: Notes) -> str:
    return row.kind if row.why is None else f"{row.kind} [{notes.number(row.why)}]"


def _refused(reading: Reading, text: str, notes: Notes) -> str:
    """A refused ratio by its word alone: the row says why."""
    if reading.missing is not None and "refused" in reading.missing:
        return "refused"
    return notes.mark(text, reading)


def _milliseconds(reading: Reading) -> str:
    return DASH if reading.value is None else f"{reading.value * 1000:.1f}"


def _share(reading: Reading, notes: Notes) -> str:
    return notes.mark(DASH if reading.value is None else f"{reading.value:.0%}", reading)
