"""What is maximised, of one arm and of one arm over another: a figure, or a weighted mean over workloads."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from kvantage.analysis.asked import Objective, Term
from kvantage.analysis.compare import by_place, effects_of
from kvantage.analysis.effect import BootEffect
from kvantage.analysis.measure import MeasuredCell
from kvantage.core.columns import Floats, RequestColumns
from kvantage.core.reading import Reading

UNITS = {"ttft_s": "s", "tok_per_joule": "tok/J"}


def figure(objective: Objective, cells: Sequence[MeasuredCell]) -> Reading:
    """The objective of one arm: the geometric mean over requests (of one user's metrics) or boots, then over
    workloads by their weights. Missing where any of them is void or was not measured.
    """
    values, notes = [], []
    for term in objective.terms:
        found = _of_term(objective.metric, term, cells)
        if found.value is None:
            told = found.missing or "not measured"
            return Reading.absent(f"{term.workload}: {told}" if len(objective.terms) > 1 else told)
        values.append(math.log(found.value) * term.weight)
        notes.append(found.note)
    total = sum(term.weight for term in objective.terms)
    note = notes[0] if len(notes) == 1 else "geometric mean over workloads by their weights"
    unit = UNITS.get(objective.metric, "tok/s")
    return Reading.of(math.exp(sum(values) / total), unit, "client", note=note)


def _of_term(metric: str, term: Term, cells: Sequence[MeasuredCell]) -> Reading:
    chosen = [each for each in cells if term.takes(each.cell.key)]
    if not chosen:
        return Reading.absent("its cell was not measured")
    sound = [each for each in chosen if each.findings.sound]
    if not sound:
        reasons = "; ".join(
            dict.fromkeys(
                reason
                for each in chosen
                for reason in (each.findings.status.reasons or (each.findings.queue or "",))
            )
        )
        return Reading.absent(f"its cell is void ({reasons})")
    known = _values(metric, sound)
    if not known.size:
        return Reading.absent(_untold(metric, sound))
    value = math.exp(float(np.log(known).mean()))
    return Reading.of(value, UNITS.get(metric, "tok/s"), "client", note=f"geometric mean of {known.size}")


def _values(metric: str, cells: Sequence[MeasuredCell]) -> Floats:
    if metric == "decode_tok_s":
        rates = np.concatenate([each.timing.rate[each.kept] for each in cells])
        known: Floats = rates[np.isfinite(rates)]
        return known
    told = [each.findings.figure(metric).value for each in cells]
    return np.array([value for value in told if value is not None], dtype=np.float64)


def _untold(metric: str, cells: Sequence[MeasuredCell]) -> str:
    if metric == "decode_tok_s":
        return "its cell told no rate"
    return cells[0].findings.figure(metric).missing or "its cell told no rate"


def effects(
    requests: RequestColumns,
    objective: Objective,
    mine: Sequence[MeasuredCell],
    theirs: Sequence[MeasuredCell],
) -> tuple[BootEffect, ...]:
    """The objective of one arm over another, a block each; blocks that lack a workload are left out."""
    arm, baseline = by_place(mine), by_place(theirs)
    parts: list[Mapping[int, BootEffect]] = []
    for term in objective.terms:
        places = [
            place
            for place in arm
            if place in baseline
            and place[0] == term.phase
            and term.workload in (None, place[1])
            and place[2] == term.concurrency
        ]
        if not places:
            return ()
        found = effects_of(requests, objective.metric, arm[places[0]], baseline[places[0]])
        parts.append({effect.block: effect for effect in found})
    if len(parts) == 1:
        return tuple(parts[0].values())
    total = sum(term.weight for term in objective.terms)
    weights = [term.weight / total for term in objective.terms]
    return tuple(
        _weighted([part[block] for part in parts], weights)
        for block in parts[0]
        if all(block in part for part in parts)
    )


def _weighted(effects: Sequence[BootEffect], weights: Sequence[float]) -> BootEffect:
    """Several workloads as one, their requests put side by side: the spread of the mean is that of the
    weighted means.
    """
    number = min(effect.requests.size for effect in effects)
    log = sum(weight * effect.log for weight, effect in zip(weights, effects, strict=True))
    beside = np.full(number, log)
    for weight, effect in zip(weights, effects, strict=True):
        own = effect.requests[:number]
        if number:
            beside += weight * (own - own.mean()) * math.sqrt(number / effect.requests.size)
    return BootEffect(
        effects[0].block,
        log,
        sum(weight * effect.above for weight, effect in zip(weights, effects, strict=True)),
        sum(weight * effect.below for weight, effect in zip(weights, effects, strict=True)),
        beside,
        np.array([f"set {place}" for place in range(number)], dtype=np.str_),
        all(effect.per_request for effect in effects),
    )
