"""Predicted beside measured: what the planner told of each arm before its first boot, and what came of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any, Literal

from kvantage.analysis.capacity import Pool
from kvantage.analysis.measure import MeasuredCell
from kvantage.core.columns import StudyData
from kvantage.core.reading import Reading

Kind = Literal["pool", "bytes", "sessions", "speed", "acceptance"]
NOT_TOLD = "no prediction was kept: the study began with a version of kvantage that made none"


@dataclass(frozen=True)
class Held:
    """One quantity, predicted and measured. `error` is (predicted - measured) / measured in percent.

    `within` says whether the measured value lies in the range that was predicted; None where no range or no
    value is known. `phase`, `workload` and `concurrency` are those of a speed or an acceptance length.
    """

    kind: Kind
    name: str
    predicted: Reading
    measured: Reading
    error: Reading
    within: bool | None
    phase: str | None = None
    workload: str | None = None
    concurrency: int | None = None


@dataclass(frozen=True)
class Foretold:
    """One arm. `missing` says why nothing could be predicted of it; `machine` is the planner's key of it."""

    arm: str
    rows: tuple[Held, ...] = ()
    missing: str | None = None
    hardware: str | None = None
    calibrated_by: str | None = None
    machine: str | None = None

    def find(self, kind: Kind) -> tuple[Held, ...]:
        """The rows of that kind."""
        return tuple(row for row in self.rows if row.kind == kind)


@dataclass(frozen=True)
class PlannerError:
    """The planner's own error of one kind in percent: median and largest over so many predictions."""

    kind: str
    predictions: int
    median: Reading
    largest: Reading


@dataclass(frozen=True)
class Foresight:
    """Everything that was foretold of a study, and how far off the planner is: in this study and before it.

    `before` are the errors over the last runs on the same machine and engine, as known when this one began.
    """

    arms: tuple[Foretold, ...] = ()
    here: tuple[PlannerError, ...] = ()
    before: tuple[PlannerError, ...] = ()


def hold(
    data: StudyData, pools: Mapping[str, Pool], measured: Mapping[str, Sequence[MeasuredCell]]
) -> Foresight:
    """Hold what was foretold first of each arm, as it is now, against its pool and its clean cells."""
    events = [event for event in data.events if event.get("kind") == "prediction"]
    arms = []
    for arm in data.arms:
        print_ = arm.fingerprint()
        told = next((event for event in events if event.get("fingerprint") == print_), None)
        if told is None:
            arms.append(Foretold(arm.name, missing=NOT_TOLD))
            continue
        machine = told.get("machine")
        body = told.get("prediction")
        body = body if isinstance(body, Mapping) else {}
        rows = tuple(_rows(body, _bytes(data, arm.name), pools[arm.name], measured.get(arm.name, ())))
        arms.append(
            Foretold(
                arm.name,
                rows,
                _text(body.get("missing")),
                _text(body.get("hardware")),
                _text(body.get("calibrated_by")),
                _text(machine),
            )
        )
    before = events[0].get("before") if events else None
    return Foresight(tuple(arms), _errors(arms), _recorded(before))


def _rows(
    body: Mapping[str, Any], size: Reading, pool: Pool, cells: Sequence[MeasuredCell]
) -> Iterator[Held]:
    if "pool" not in body:
        return
    yield held("pool", "KV pool", _reading(body.get("pool")), pool.tokens)
    token = _reading(body.get("bytes_a_token"))
    yield held("bytes", "bytes a token", token, _a_token(size, pool.tokens))
    for one in body.get("sessions") or ():
        tokens = int(one["tokens"])
        found = pool.tokens
        if found.value is not None:
            found = Reading.of(found.value / tokens, "sessions", "computed")
        yield held("sessions", f"sessions of {tokens:,} tokens", _reading(one.get("held")), found)
    for one in body.get("cells") or ():
        phase, workload, streams = str(one["phase"]), str(one["workload"]), int(one["concurrency"])
        name = f"{phase} {workload} at {streams}" if phase == "short" else f"{phase} at {streams}"
        found = _speed(cells, phase, workload, streams)
        place = (phase, workload, streams)
        yield held("speed", name, _reading(one.get("tok_s")), found, place)
        if body.get("acceptance"):
            length = _mean(
                [c.findings.acceptance.length for c in _clean(cells, phase, workload, streams)],
                "not measured, or void",
            )
            yield held("acceptance", name, _reading(body["acceptance"]), length, place)


def held(
    kind: Kind,
    name: str,
    predicted: Reading,
    measured: Reading,
    cell: tuple[str | None, str | None, int | None] = (None, None, None),
) -> Held:
    """The two beside each other, with the error where both are known; `cell` is where it was measured."""
    within = None
    if predicted.value is None or not measured.value:
        why = predicted.missing or measured.missing or "nothing was measured"
        error = Reading.absent(why)
    else:
        error = Reading.of(100 * (predicted.value / measured.value - 1), "%", "computed")
        if predicted.low is not None and predicted.high is not None:
            within = predicted.low <= measured.value <= predicted.high
    return Held(kind, name, predicted, measured, error, within, *cell)


def _clean(cells: Sequence[MeasuredCell], phase: str, workload: str, streams: int) -> list[MeasuredCell]:
    """The arm's cells of that description that may be compared, a block each."""
    return [
        cell
        for cell in cells
        if cell.findings.sound
        and (cell.findings.key.phase, cell.findings.key.workload) == (phase, workload)
        and cell.findings.key.concurrency == streams
    ]


def _speed(cells: Sequence[MeasuredCell], phase: str, workload: str, streams: int) -> Reading:
    """tok/s of one stream, over the boots."""
    found = [cell.findings.speed.decode for cell in _clean(cells, phase, workload, streams)]
    return _mean(found, "not measured, or void")


def _mean(readings: Sequence[Reading], otherwise: str) -> Reading:
    known = [reading for reading in readings if reading.value is not None]
    if not known:
        return Reading.absent(next((one.missing for one in readings if one.missing), None) or otherwise)
    if len(known) == 1:
        return Reading.of(known[0].value or 0.0, known[0].unit, known[0].source or "computed")
    return Reading.of(fmean(one.value or 0.0 for one in known), known[0].unit, "computed")


def _bytes(data: StudyData, arm: str) -> Reading:
    """The pool's bytes, the drafter's with them where the engine counts those apart."""
    for boot in data.boots:
        if boot.arm == arm and boot.facts is not None:
            whole, draft = boot.facts.reading("kv_pool_bytes"), boot.facts.reading("draft_kv_pool_bytes")
            shared = boot.facts.reading(
                "target_kv_pool_bytes"
            ).known  # one pool for both: it holds them already
            if whole.value is None or draft.value is None or shared:
                return whole
            return Reading.of(whole.value + draft.value, "bytes", "computed")
    return Reading.absent("no server of this arm was ready")


def _a_token(size: Reading, tokens: Reading) -> Reading:
    if size.value is None or not tokens.value:
        return Reading.absent(size.missing or tokens.missing or "the pool has no tokens")
    return Reading.of(size.value / tokens.value, "bytes/token", "computed")


def _errors(arms: Sequence[Foretold]) -> tuple[PlannerError, ...]:
    found = []
    for kind in ("pool", "speed"):
        errors = [
            abs(row.error.value)
            for arm in arms
            for row in arm.rows
            if row.kind == kind and row.error.value is not None
        ]
        if errors:
            found.append(PlannerError(kind, len(errors), _percent(median(errors)), _percent(max(errors))))
    return tuple(found)


def _recorded(before: Any) -> tuple[PlannerError, ...]:
    """The errors of earlier runs, as they were known when this one began."""
    if not isinstance(before, Mapping):
        return ()
    return tuple(
        PlannerError(
            kind, int(one["predictions"]), _percent(100 * one["median"]), _percent(100 * one["largest"])
        )
        for kind, one in before.items()
    )


def _percent(value: float) -> Reading:
    return Reading.of(value, "%", "computed")


def _reading(told: Any) -> Reading:
    try:
        return Reading.from_json(told)
    except (ValueError, TypeError, KeyError, AttributeError):
        return Reading.absent("nothing was predicted")


def _text(told: Any) -> str | None:
    return str(told) if told else None
