"""The tables of a report, as text: the same rows for the terminal and for Markdown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kvantage.analysis.capacity import Sessions
from kvantage.analysis.compare import Comparison, Metric
from kvantage.analysis.differences import UNTOLD
from kvantage.analysis.findings import ArmFindings, Findings
from kvantage.analysis.measure import CellFindings
from kvantage.core.reading import Reading
from kvantage.report.figures import DASH, Notes, figure, size, times


@dataclass(frozen=True)
class Table:
    """A titled table. `numeric` are the columns to align right; `notes` stand under it."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()


def arms(findings: Findings) -> Table:
    """What the arms are, as declared."""
    rows = []
    for arm in findings.arms:
        declared = arm.speculation
        rows.append(
            (
                arm.name,
                declared.method,
                DASH if declared.drafts is None else str(declared.drafts),
                (declared.draft or DASH).rstrip("/").rsplit("/", 1)[-1],
                declared.draft_kv_dtype or DASH,
                f"{arm.status}, control" if arm.control else arm.status,
            )
        )
    said = "Drafts: proposed in one step, the bonus token not counted. A dash: not declared."
    columns = ("Arm", "speculation", "drafts", "drafter", "draft KV", "status")
    return Table("The arms", columns, tuple(rows), (2,), (said,))


def results(findings: Findings) -> Table:
    """An arm a row: its pool, and its speed on each workload with the ratio to the control."""
    notes = Notes()
    places = _places(findings)
    columns = ["Arm", "KV pool (tokens)", "to control"]
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


def sessions(findings: Findings, brief: bool = False) -> Table:
    """What each pool holds."""
    notes = Notes()
    lengths = findings.arms[0].sessions if findings.arms else ()
    columns = ["Arm", "KV pool", "tokens"]
    columns += [] if brief else ["bytes, to control", "tokens, to control"]
    columns += [f"{each.name}: {figure(each.session_tokens)} tokens" for each in lengths]
    rows = []
    for arm in findings.arms:
        row = [
            arm.name,
            notes.mark(size(arm.pool.bytes), arm.pool.bytes),
            notes.mark(figure(arm.pool.tokens), arm.pool.tokens),
        ]
        if not brief:
            row += [
                "control" if arm.control else _lost(lost, notes)
                for lost in (arm.pool.lost_bytes, arm.pool.lost_tokens)
            ]
        row += [_held(held, notes, brief) for held in arm.sessions]
        rows.append(tuple(row))
    said = "A session is its input and its answer. In brackets: whole sessions"
    said += "." if brief else ", and the tokens that they leave."
    return Table(
        "What the pool holds", tuple(columns), tuple(rows), after(1, columns), (said, *notes.lines())
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
                    "queue" if cell.queue else cell.status.status,
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
    return Table("Every cell", columns, tuple(rows), after(6, columns), tuple(notes.lines()))


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
        after(1, columns),
        ("Seconds, median. Warm: the document was sent before.", *notes.lines()),
    )


def acceptance(findings: Findings, brief: bool = False) -> Table:
    """Acceptance by workload and phase, each with its source."""
    notes = Notes()
    columns = ["Arm", "workload", "at once", "AL a step", "AL a drafting step", "rate"]
    columns += [] if brief else ["by position"]
    columns += ["highest AL", "highest rate"]
    columns += [] if brief else ["source"]
    rows = []
    for arm in findings.arms:
        for cell in arm.cells:
            found = cell.acceptance
            if cell.key.phase in ("probes", "ttft") or (not arm.speculation.on and not found.length.known):
                continue
            row = [arm.name, _work(cell), str(cell.key.concurrency)]
            for reading in (found.per_decode_step, found.per_drafting_step, found.rate):
                row.append(notes.mark(figure(reading), reading))
            if not brief:
                row.append(", ".join(figure(share, 2) for share in found.per_position) or DASH)
            for reading in (found.highest_length, found.highest_rate):
                row.append(notes.mark(figure(reading), reading))
            if not brief:
                told = (found.per_decode_step.source, found.per_drafting_step.source)
                row.append(", ".join(dict.fromkeys(source for source in told if source)) or DASH)
            rows.append(tuple(row))
    said = "AL: tokens a step, bonus included. Highest: of the log's windows, else of single requests."
    if not brief:
        said += " Positions: accepted there / drafting steps. A void cell's acceptance stands where its gate "
        said += "leaves it sound."
    numeric = tuple(range(2, 6 if brief else 7)) + ((6, 7) if brief else (7, 8))
    return Table("Acceptance", tuple(columns), tuple(rows), numeric, (said, *notes.lines()))


def void(findings: Findings) -> Table:
    """What was void, and why."""
    rows = [
        (
            arm.name,
            str(cell.key.block),
            _work(cell),
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


def differences(findings: Findings) -> Table:
    """What the servers resolved differently, the declared change included."""
    control = findings.study.control
    rows, notes = [], []
    for comparison in findings.comparisons:
        if not comparison.against_control:
            continue
        rows += [
            (comparison.arm, each.setting, each.arm, each.baseline)
            for each in comparison.differs
            if not each.one_sided
        ]
        alone = [f"{each.setting} {each.arm}" for each in comparison.differs if each.baseline == UNTOLD]
        if alone:
            notes.append(f"Only {comparison.arm} tells: {', '.join(alone)}.")
        gone = [f"{each.setting} {each.baseline}" for each in comparison.differs if each.arm == UNTOLD]
        if gone:
            notes.append(f"Only {control} tells, beside {comparison.arm}: {', '.join(gone)}.")
    return Table(
        f"What the servers resolved otherwise than {control}",
        ("Arm", "setting", "here", f"in {control}"),
        tuple(rows),
        notes=tuple(notes),
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


def _held(held: Sessions, notes: Notes, brief: bool) -> str:
    if held.sessions.value is None:
        return notes.mark("", held.sessions)
    left = "" if brief else f" whole, {figure(held.headroom)} left"
    text = f"{figure(held.sessions, 1)} ({figure(held.whole, 0)}{left})"
    return f"{text} [{notes.number(held.note)}]" if held.note else text


def _work(cell: CellFindings) -> str:
    return named(cell.key.phase, cell.key.workload)


def named(phase: str, workload: str) -> str:
    """A cell's work: `short code`, or the phase alone where it has one workload."""
    return phase if workload == "documents" else f"{phase} {workload}"


def after(first: int, columns: Sequence[str]) -> tuple[int, ...]:
    """The places of the columns from `first` on."""
    return tuple(range(first, len(columns)))
