"""The tables of a report, as text: the same rows for the terminal and for Markdown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kvantage.analysis.compare import Comparison, Metric
from kvantage.analysis.findings import ArmFindings, Findings
from kvantage.analysis.measure import CellFindings
from kvantage.core.reading import Reading
from kvantage.report.figures import DASH, Notes, figure, interval, size, times

PHASE_WORDS = {"short": "short", "cold": "cold", "repeat": "repeat", "probes": "probes"}


@dataclass(frozen=True)
class Table:
    """A titled table. `numeric` are the columns to align right; `notes` stand under it."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()


def results(findings: Findings) -> Table:
    """An arm a row: its pool, and its speed on each workload with the ratio to the control."""
    notes = Notes()
    places = _places(findings)
    columns = ["Arm", "KV pool (tokens)", "against control"]
    columns += [_column(place) for place in places]
    against = {each.arm: each for each in findings.comparisons if each.against_control}
    rows = []
    for arm in findings.arms:
        lost = arm.pool.lost_tokens
        pool = notes.mark(figure(arm.pool.tokens), arm.pool.tokens)
        row = [arm.name, pool, "control" if arm.control else _lost(lost, notes)]
        row += [_speed(arm, place, against.get(arm.name), notes) for place in places]
        rows.append(tuple(row))
    said = "tok/s, steady; at one stream of one user, at more in aggregate with every slot decoding. "
    return Table(
        "Results",
        tuple(columns),
        tuple(rows),
        tuple(range(1, len(columns))),
        (f"{said}In brackets the ratio to the control {findings.study.control}.", *notes.lines()),
    )


def sessions(findings: Findings) -> Table:
    """What each pool holds."""
    notes = Notes()
    lengths = findings.arms[0].sessions if findings.arms else ()
    columns = ["Arm", "KV pool", "tokens", "bytes lost", "tokens lost"]
    columns += [f"{each.name}: {figure(each.session_tokens)} tokens" for each in lengths]
    rows = []
    for arm in findings.arms:
        row = [
            arm.name,
            notes.mark(size(arm.pool.bytes), arm.pool.bytes),
            notes.mark(figure(arm.pool.tokens), arm.pool.tokens),
            "control" if arm.control else _lost(arm.pool.lost_bytes, notes),
            "control" if arm.control else _lost(arm.pool.lost_tokens, notes),
        ]
        for held in arm.sessions:
            text = f"{figure(held.sessions, 1)} ({figure(held.whole, 0)} whole, {figure(held.headroom)} left)"
            text = notes.mark(text, held.sessions)
            row.append(f"{text} [{notes.number(held.note)}]" if held.note else text)
        rows.append(tuple(row))
    said = (
        "A session is its input and its answer. Whole sessions, and the tokens that they leave, in brackets."
    )
    return Table(
        "What the pool holds", tuple(columns), tuple(rows), _after(1, columns), (said, *notes.lines())
    )


def cells(findings: Findings) -> Table:
    """Every cell, void ones too."""
    notes = Notes()
    columns = (
        "Arm",
        "boot",
        "phase",
        "workload",
        "at once",
        "status",
        "tok/s a user",
        "aggregate",
        "end to end",
        "TTFT s",
        "ITL ms a chunk",
        "AL",
        "cached tokens",
        "expected",
    )
    rows = []
    for arm in findings.arms:
        for cell in arm.cells:
            if cell.key.phase == "probes":
                continue
            speed = cell.speed
            expected = cell.expected_cached_tokens
            rows.append(
                (
                    arm.name,
                    str(cell.key.block),
                    cell.key.phase,
                    cell.key.workload,
                    str(cell.key.concurrency),
                    cell.status.status,
                    notes.mark(figure(speed.decode), speed.decode),
                    notes.mark(figure(speed.steady), speed.steady),
                    notes.mark(figure(speed.end_to_end), speed.end_to_end),
                    notes.mark(figure(speed.ttft, 3), speed.ttft),
                    notes.mark(_milliseconds(speed.itl_chunk), speed.itl_chunk),
                    notes.mark(figure(cell.acceptance.length), cell.acceptance.length),
                    notes.mark(figure(cell.cached_tokens), cell.cached_tokens),
                    notes.mark(_range(expected), expected),
                )
            )
    return Table("Every cell", columns, tuple(rows), _after(6, columns), tuple(notes.lines()))


def first_tokens(findings: Findings) -> Table:
    """Time to the first token, cold and from the cache."""
    notes = Notes()
    places = [place for place in _all_places(findings) if place[0] in ("cold", "repeat")]
    places.sort(key=lambda place: (place[2], place[0]))
    words = {"cold": "cold", "repeat": "warm"}
    columns = ("Arm", *(f"{words[phase]}, {number} at once" for phase, _, number in places))
    rows = [
        (arm.name, *(_joined(arm, place, lambda cell: cell.speed.ttft, notes, 2) for place in places))
        for arm in findings.arms
    ]
    return Table(
        "Time to first token",
        columns,
        tuple(rows) if places else (),
        _after(1, columns),
        ("Seconds, median. Warm: the document was sent before.", *notes.lines()),
    )


def ratios(findings: Findings, control_only: bool = False) -> Table:
    """Every ratio with both figures and its interval."""
    notes = Notes()
    columns = (
        "Arm",
        "against",
        "what",
        "at once",
        "ratio",
        "interval",
        "arm",
        "baseline",
        "AL",
        "rho = break-even AL",
    )
    rows = []
    for comparison in findings.comparisons:
        if control_only and not comparison.against_control:
            continue
        for ratio in comparison.ratios:
            if ratio.metric not in ("decode_tok_s", "steady_tok_s", "ttft_s"):
                continue
            rows.append(
                (
                    comparison.arm,
                    comparison.baseline,
                    f"{ratio.phase} {ratio.workload}, {METRIC_WORDS[ratio.metric]}",
                    str(ratio.concurrency),
                    notes.mark(times(ratio.ratio), ratio.ratio),
                    _spanned(ratio.ratio, ratio.replication, notes),
                    f"{figure(ratio.value)} {ratio.value.unit}".strip(),
                    f"{figure(ratio.baseline)} {ratio.baseline.unit}".strip(),
                    figure(ratio.acceptance_length),
                    figure(ratio.rho),
                )
            )
    return Table(
        "Each arm against the others", columns, tuple(rows), _after(4, columns), tuple(notes.lines())
    )


def acceptance(findings: Findings) -> Table:
    """Acceptance by workload and phase, each with its source."""
    notes = Notes()
    columns = (
        "Arm",
        "workload",
        "at once",
        "AL a step",
        "AL a drafting step",
        "rate",
        "by position",
        "highest AL",
        "highest rate",
        "source",
    )
    rows = []
    for arm in findings.arms:
        for cell in arm.cells:
            found = cell.acceptance
            if cell.key.phase == "probes" or (not arm.speculation.on and not found.length.known):
                continue
            sources = dict.fromkeys(
                each.source for each in (found.per_decode_step, found.per_drafting_step) if each.source
            )
            rows.append(
                (
                    arm.name,
                    f"{cell.key.phase} {cell.key.workload}",
                    str(cell.key.concurrency),
                    notes.mark(figure(found.per_decode_step), found.per_decode_step),
                    notes.mark(figure(found.per_drafting_step), found.per_drafting_step),
                    notes.mark(figure(found.rate), found.rate),
                    ", ".join(figure(share, 2) for share in found.per_position) or DASH,
                    notes.mark(figure(found.highest_length), found.highest_length),
                    notes.mark(figure(found.highest_rate), found.highest_rate),
                    ", ".join(sources) or DASH,
                )
            )
    said = "AL: tokens a step, bonus included. Positions: accepted there / drafting steps."
    return Table("Acceptance", columns, tuple(rows), _after(2, columns), (said, *notes.lines()))


def void(findings: Findings) -> Table:
    """What was void, and why."""
    rows = [
        (
            arm.name,
            str(cell.key.block),
            f"{cell.key.phase} {cell.key.workload}",
            str(cell.key.concurrency),
            "; ".join(cell.status.reasons),
            cell.status.finding or DASH,
        )
        for arm in findings.arms
        for cell in arm.cells
        if not cell.ok
    ]
    return Table(
        "What was void, and why",
        ("Arm", "boot", "cell", "at once", "gate and reason", "what it shows all the same"),
        tuple(rows),
    )


def probes(findings: Findings) -> Table:
    """Right answers by kind, alone and in a crowd, and agreement with the control."""
    columns = ("Arm", "probe", "at once", "passed", "failed", "void", "as the control", "what failed")
    notes = Notes()
    rows = [
        (
            arm.name,
            probe.kind,
            str(probe.concurrency),
            figure(probe.passed),
            figure(probe.failed),
            figure(probe.void),
            _agreement(probe.agree, notes),
            "; ".join(probe.failures) or DASH,
        )
        for arm in findings.arms
        for probe in arm.probes
    ]
    return Table("Probes", columns, tuple(rows), (2, 3, 4, 5, 6), tuple(notes.lines()))


def recall(findings: Findings) -> Table:
    """Secrets given back from the documents."""
    rows = [
        (
            arm.name,
            each.phase,
            str(each.concurrency),
            f"{figure(each.recalled)} of {figure(each.asked)}",
        )
        for arm in findings.arms
        for each in arm.recall
    ]
    return Table("Secrets recalled", ("Arm", "phase", "at once", "recalled"), tuple(rows), (2, 3))


def differences(findings: Findings) -> Table:
    """What the servers resolved differently, the declared change included."""
    rows = [
        (comparison.arm, each.setting, each.arm, each.baseline)
        for comparison in findings.comparisons
        if comparison.against_control
        for each in comparison.differs
    ]
    return Table(
        f"What the servers resolved otherwise than {findings.study.control}",
        ("Arm", "setting", "here", f"in {findings.study.control}"),
        tuple(rows),
    )


def boots(findings: Findings) -> Table:
    """What was measured when."""
    notes = Notes()
    rows = [
        (
            arm.name,
            str(boot.block),
            boot.status,
            boot.started_at,
            notes.mark(figure(boot.ready_s), boot.ready_s),
            boot.reason or DASH,
        )
        for arm in findings.arms
        for boot in arm.boots
    ]
    return Table(
        "Measured when",
        ("Arm", "boot", "status", "started", "ready after s", "reason"),
        tuple(rows),
        (4,),
        tuple(notes.lines()),
    )


def skipped(findings: Findings) -> Table:
    """What was not run, and why."""
    rows = [
        (arm.name, str(skip.block), f"{skip.phase} {skip.workload}".strip(), skip.reason)
        for arm in findings.arms
        for skip in arm.skipped
    ]
    return Table("Not run", ("Arm", "boot", "what", "why"), tuple(rows))


METRIC_WORDS: dict[Metric, str] = {
    "decode_tok_s": "a user",
    "steady_tok_s": "aggregate",
    "e2e_tok_s": "end to end",
    "ttft_s": "TTFT (less is better)",
}

_Place = tuple[str, str, int]


def _all_places(findings: Findings) -> list[_Place]:
    return list(
        dict.fromkeys(
            (cell.key.phase, cell.key.workload, cell.key.concurrency)
            for arm in findings.arms
            for cell in arm.cells
        )
    )


def _places(findings: Findings) -> list[_Place]:
    return [place for place in _all_places(findings) if place[0] in ("short", "repeat")]


def _column(place: _Place) -> str:
    phase, workload, concurrency = place
    if phase == "short":
        return f"short {workload}"
    return f"{phase}, {concurrency} at once"


def _speed(arm: ArmFindings, place: _Place, comparison: Comparison | None, notes: Notes) -> str:
    metric: Metric = "decode_tok_s" if place[2] == 1 else "steady_tok_s"

    def read(cell: CellFindings) -> Reading:
        return cell.speed.decode if metric == "decode_tok_s" else cell.speed.steady

    text = _joined(arm, place, read, notes)
    ratio = comparison.ratio(metric, *place) if comparison else None
    if ratio is None or not ratio.ratio.known:
        return text
    return f"{text} ({times(ratio.ratio)})"


def _joined(
    arm: ArmFindings,
    place: _Place,
    read: Callable[[CellFindings], Reading],
    notes: Notes,
    digits: int | None = None,
) -> str:
    """A figure of each boot's cell, a bar between boots."""
    found = [read(cell) for cell in arm.cell(*place)]
    if not found:
        return f"{DASH} [{notes.number('not measured')}]"
    return " / ".join(notes.mark(figure(reading, digits), reading) for reading in found)


def _lost(reading: Reading, notes: Notes) -> str:
    if reading.value is None:
        return notes.mark("", reading)
    return f"{-reading.value:+.1f} %" if reading.value else "0 %"


def _milliseconds(reading: Reading) -> str:
    return DASH if reading.value is None else f"{reading.value * 1000:.1f}"


def _range(reading: Reading) -> str:
    if reading.low is None or reading.high is None:
        return figure(reading)
    return f"{reading.low:,.0f} to {reading.high:,.0f}"


def _spanned(reading: Reading, replication: str, notes: Notes) -> str:
    if reading.value is None:
        return DASH
    return f"{interval(reading)} [{notes.number(replication)}]"


def _agreement(reading: Reading, notes: Notes) -> str:
    if reading.value is None:
        return notes.mark("", reading)
    return f"{figure(reading)} {reading.note or ''}".split(" the same")[0]


def _after(first: int, columns: Sequence[str]) -> tuple[int, ...]:
    return tuple(range(first, len(columns)))
