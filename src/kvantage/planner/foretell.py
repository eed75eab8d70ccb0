"""What a study should come to, told before its first boot, as plain data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from kvantage.core import ArmSettings, HostFacts, Reading, UsageError
from kvantage.planner.detect import recognise
from kvantage.planner.geometry import Geometry
from kvantage.planner.history import Known, PastSpeed
from kvantage.planner.plan import ArmPlan, Asked, make_plan
from kvantage.planner.studies import SIMULATED, asked_of
from kvantage.study import Study

SHORT_PROMPT = 128
"""Tokens that a short prompt is taken to have: its decoding hardly depends on it."""


def foretell(
    study: Study, hosts: Mapping[str, HostFacts], known: Known | None = None
) -> dict[str, dict[str, Any]]:
    """By arm: pool, bytes a token, sessions, decode rates, each with its range, or why there is none.

    `hosts` are the machines under the arms' servers. `known` is what earlier runs there measured: a plain
    speed of the same model on the same engine sets the plain step, a drafting arm's its cost.
    Never raises: a study is measured whether or not it can be predicted.
    """
    arms = study.every_arm()
    try:
        asked = asked_of(study, None)  # once for all: a model may have to be asked for over the network
    except UsageError as error:
        return {arm.name: {"missing": error.message} for arm in arms}
    except Exception as error:
        return {arm.name: {"missing": _fault(error)} for arm in arms}
    found: dict[str, dict[str, Any]] = {}
    for arm in arms:
        try:
            found[arm.name] = _arm(study, asked, arm, hosts.get(arm.name), known or Known())
        except UsageError as error:
            found[arm.name] = {"missing": error.message}
        except Exception as error:
            found[arm.name] = {"missing": _fault(error)}
    return found


def _fault(error: Exception) -> str:
    """A fault of the planner must not cost a night's measurement: it is written down in its place."""
    return f"the planner failed: {type(error).__name__}: {error}"


def _arm(
    study: Study, asked: Asked, arm: ArmSettings, host: HostFacts | None, known: Known
) -> dict[str, Any]:
    if asked.machine is not None:  # `engine: sim` names its own hardware
        words, machine = f"the study's own: {asked.machine.title}", asked.machine
    elif host is None:
        words, machine = "the machine under this server is not known", None
    else:
        seen = recognise(host, arm.settings.nodes or 1)
        words, machine = seen.words, seen.machine
    asked, basis = _calibrated(replace(asked, machine=machine), study, arm, known)
    plan = next(one for one in make_plan(asked).arms if one.name == arm.name)
    if plan.refused:
        return {"missing": plan.refused, "hardware": words}
    no_speed = words if machine is None else plan.no_speed
    hurry = float(study.engine.options.get("speed", 1)) if study.engine.name == SIMULATED else 1.0
    return {
        "hardware": words,
        "calibrated_by": basis,
        "pool": _pool(plan, asked.pools.get(arm.name), words if machine is None else None),
        "bytes_a_token": _bytes(plan, asked.target),
        "sessions": _sessions(plan, asked),
        "acceptance": _acceptance(plan),
        "break_even": plan.break_even.to_json() if plan.break_even else {"missing": no_speed},
        "cells": [
            {
                "phase": phase,
                "workload": workload,
                "concurrency": streams,
                "tok_s": _rate(plan, streams, length, no_speed, hurry),
            }
            for phase, workload, streams, length in _cells(study)
        ],
    }


def _calibrated(asked: Asked, study: Study, arm: ArmSettings, known: Known) -> tuple[Asked, str | None]:
    """The same with speeds of earlier runs, and in words which; both must be of the very model and engine."""
    if asked.measured:
        return asked, "speeds that the study gives"
    plain = known.speed(study.engine.name, study.model.path, "none")
    if plain is None:
        return asked, None
    control = next((one.name for one in asked.arms if not one.speculation.on), None)
    if control is None:
        return asked, None
    speeds, lengths = {control: plain.tok_s}, dict(asked.acceptance)
    said = f"the plain speed of {plain.at} here"
    spec = arm.speculation
    own: PastSpeed | None = None
    if spec.on:
        own = known.speed(
            study.engine.name, study.model.path, spec.method, spec.draft, spec.drafts, plain.quantity
        )
    if own and own.acceptance:
        speeds[arm.name] = own.tok_s
        lengths[arm.name] = own.acceptance
        said = f"the plain and this drafter's own speed of {own.at} here"
    fitted = replace(asked, measured=speeds, acceptance=lengths, measured_length=plain.length)
    return fitted, said


def _pool(plan: ArmPlan, given: int | None, no_machine: str | None) -> dict[str, Any]:
    if given:
        return Reading.of(given, "tokens", "config", note="given by the study").to_json()
    if plan.pool:
        return plan.pool.tokens().to_json()
    return {"missing": no_machine or plan.no_pool or "it was not planned"}


def _sessions(plan: ArmPlan, asked: Asked) -> list[dict[str, Any]]:
    """How many sessions of each length the pool holds."""
    if given := asked.pools.get(plan.name):
        found = {length: Reading.of(given / length, "sessions", "computed") for length in asked.lengths}
    else:
        found = dict(plan.sessions)
    return [{"tokens": length, "held": reading.to_json()} for length, reading in found.items()]


def _bytes(plan: ArmPlan, target: Geometry) -> dict[str, Any]:
    """What a token of the pool costs one rank, the drafter's part with it."""
    if (
        target.state_layers or target.window_bytes_per_token(plan.demand.kv, plan.demand.tp)
        if plan.demand
        else 0
    ):
        return {"missing": "sequences also cost fixed bytes here: a pool's bytes a token is no one figure"}
    size = plan.target_bytes + plan.draft_bytes  # as allocated; an engine may reckon with more
    return Reading.of(size, "bytes/token", "predicted").to_json()


def _acceptance(plan: ArmPlan) -> dict[str, Any] | None:
    found = plan.acceptance
    if found is None:
        return None
    reading = Reading.of(
        found.value, "tokens/step", "predicted", low=found.low, high=found.high, note=found.source
    )
    return reading.to_json()


def _rate(
    plan: ArmPlan, streams: int, length: int, no_speed: str | None, hurry: float = 1.0
) -> dict[str, Any]:
    """tok/s of one stream of so many; `hurry` is how much faster than its virtual time a simulation runs."""
    if plan.steps is None:
        return {"missing": no_speed or "its step times are not known"}
    all_streams = plan.steps.decode(plan.acceptance, streams, length)
    value, low, high = all_streams.value, all_streams.low, all_streams.high
    assert value is not None
    share = hurry / streams
    return Reading.of(
        value * share,
        "tok/s",
        "predicted",
        low=None if low is None else low * share,
        high=None if high is None else high * share,
    ).to_json()


def _cells(study: Study) -> Iterator[tuple[str, str, int, int]]:
    """(phase, workload, concurrency, mean context) of the cells whose decoding a step time describes.

    A cold wave of several is none of them: its decoding is broken by its neighbours' prefill.
    """
    phases = study.phases
    if phases.short:
        for workload in phases.short.prompts:
            yield "short", workload, 1, SHORT_PROMPT + phases.short.output_tokens // 2
    if phases.cold:
        document = phases.cold.document_tokens
        if 1 in phases.cold.concurrency:
            yield "cold", "documents", 1, document + phases.cold.output_tokens // 2
        if phases.repeat:
            for streams in phases.cold.concurrency:
                yield "repeat", "documents", streams, document + phases.repeat.output_tokens // 2
