"""The plan: for each arm its pool, its sessions, its break-even, its speed, and which one to serve with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kvantage.core import Reading, ServerSettings, Speculation, UsageError
from kvantage.planner import pools
from kvantage.planner.acceptance import Acceptance, prior, step_cost
from kvantage.planner.drafts import Drafter
from kvantage.planner.geometry import Geometry
from kvantage.planner.machine import Machine
from kvantage.planner.memory import Demand, Left, PoolPrediction
from kvantage.planner.speed import Calibration, Steps
from kvantage.planner.weights import Weights, drafter_parameters, head_parameters, weights_of


@dataclass(frozen=True)
class ArmAsked:
    """One arm to plan."""

    name: str
    speculation: Speculation = field(default_factory=Speculation)
    drafter: Drafter | None = None
    settings: ServerSettings = field(default_factory=ServerSettings)
    flags: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Asked:
    """What to plan: arms of one model on one engine and hardware.

    `lengths` are sessions in tokens, input and answer together. `available` is memory for caches that is
    known (bytes a rank); `acceptance` and `measured` give, by arm, an acceptance length and tok/s at one
    stream and a context of `measured_length`. `maximise_at` is the concurrency that the best arm is chosen
    at, `at_length` its context. `by_workload` (acceptance lengths by arm and workload), `pools` (tokens by
    arm) and `prefill_tok_s` are inputs of a simulation alone.
    """

    target: Geometry
    engine: str
    arms: Sequence[ArmAsked]
    machine: Machine | None = None
    available: int | None = None
    weights_bytes: int | None = None
    lengths: Sequence[int] = (8192, 32768, 131072)
    concurrency: Sequence[int] = (1, 2, 4)
    acceptance: Mapping[str, float] = field(default_factory=dict)
    measured: Mapping[str, float] = field(default_factory=dict)
    maximise_at: int = 1
    at_length: int | None = None
    measured_length: int = 1024
    by_workload: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    pools: Mapping[str, int] = field(default_factory=dict)
    prefill_tok_s: float | None = None
    min_sessions: tuple[int, int] | None = None


@dataclass(frozen=True)
class ArmPlan:
    """What should happen in one arm. `refused` says why nothing can be said of it."""

    name: str
    speculation: Speculation
    demand: Demand | None = None
    refused: str | None = None
    target_bytes: int = 0
    draft_bytes: int = 0
    pool: PoolPrediction | None = None
    no_pool: str | None = None
    sessions: Mapping[int, Reading] = field(default_factory=dict)
    acceptance: Acceptance | None = None
    break_even: Reading | None = None
    decode: Mapping[int, Reading] = field(default_factory=dict)
    prefill: Reading | None = None
    drivers: Mapping[str, float] = field(default_factory=dict)
    steps: Steps | None = None
    no_speed: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Best:
    """The recommended arm and what that hinges on; None with a reason where there is none."""

    arm: str | None
    reason: str
    hinges: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plan:
    """Everything that is predicted for what was asked."""

    asked: Asked
    arms: tuple[ArmPlan, ...]
    best: Best
    notes: tuple[str, ...] = ()


def make_plan(asked: Asked) -> Plan:
    """Predict every arm. An arm that cannot be planned is refused by itself; the others stand."""
    pools.find(asked.engine)
    notes: list[str] = list(asked.target.notes)
    weights: Weights | None = None
    no_weights = ""
    try:
        weights = weights_of(asked.target, asked.weights_bytes)
        if not weights.measured_bytes:
            notes.append(
                f"the weights' bytes are counted from the config: {weights.total / 1e9:,.1f} billion "
                f"parameters of {weights.size:.2f} bytes"
            )
    except UsageError as error:
        no_weights = error.message
    calibrations = _calibrate(asked, weights)
    arms = tuple(_plan_arm(asked, arm, weights, no_weights, calibrations[arm.name]) for arm in asked.arms)
    return Plan(asked, arms, _best(asked, arms), tuple(dict.fromkeys(notes)))


def _plan_arm(
    asked: Asked, arm: ArmAsked, weights: Weights | None, no_weights: str, calibration: Calibration
) -> ArmPlan:
    demand = _demand(asked, arm)
    try:
        target, draft = demand.target_bytes(), demand.draft_bytes()
        pool, no_pool = _pool(asked, demand, weights, no_weights)
    except UsageError as error:
        return ArmPlan(arm.name, arm.speculation, refused=error.message)
    notes = list(pool.at.notes) if pool else []
    if pool and not pool.high.tokens:
        notes.append("the weights leave no memory for a cache: it would not start")
    if arm.drafter:
        notes += arm.drafter.notes
    if arm.speculation.method == "mtp" and asked.target.mtp.in_index is False:
        notes.append(f"MTP: {asked.target.mtp.verdict} (declared, and not in the index of weights)")
    sessions = {}
    if pool:
        for length in asked.lengths:
            low, high = sorted(end.sessions(length) for end in (pool.low, pool.high))
            sessions[length] = Reading.of(
                pool.at.sessions(length), "sessions", "predicted", low=low, high=high
            )
    acceptance = _acceptance(asked, arm)
    if weights is None or asked.machine is None:
        reason = no_weights or "no hardware was given"
        return ArmPlan(
            arm.name, arm.speculation, demand, None, target, draft, pool, no_pool, sessions, acceptance,
            no_speed=reason, notes=tuple(notes),
        )  # fmt: skip
    steps = Steps(demand, asked.machine, weights, calibration)
    length = _length(asked)
    rho = steps.rho(asked.maximise_at, length)
    chunk = arm.settings.chunked_prefill or 8192
    once = steps.prefill(chunk)
    return ArmPlan(
        name=arm.name,
        speculation=arm.speculation,
        demand=demand,
        target_bytes=target,
        draft_bytes=draft,
        pool=pool,
        no_pool=no_pool,
        sessions=sessions,
        acceptance=acceptance,
        break_even=Reading.of(rho.value, "tokens/step", "predicted", low=rho.low, high=rho.high),
        decode={count: steps.decode(acceptance, count, length) for count in asked.concurrency},
        prefill=Reading.of(
            chunk / once.value, "tok/s", "predicted", low=chunk / once.high, high=chunk / once.low
        ),
        drivers=steps.parts(asked.maximise_at, length),
        steps=steps,
        notes=tuple(notes),
    )


def _demand(asked: Asked, arm: ArmAsked) -> Demand:
    processor = asked.machine.processor if asked.machine else False
    return Demand(asked.target, arm.settings, arm.speculation, arm.drafter, arm.flags, processor)


def _pool(
    asked: Asked, demand: Demand, weights: Weights | None, no_weights: str
) -> tuple[PoolPrediction | None, str | None]:
    if asked.available is not None:
        return pools.predict(asked.engine, demand, Left.exactly(asked.available)), None
    if demand.settings.pool_bytes:
        return pools.predict(
            asked.engine, demand, Left.exactly(demand.settings.pool_bytes, "pinned in bytes")
        ), None
    if asked.machine is None:
        return None, "no hardware was given, nor the memory that is left for the cache"
    if weights is None:
        return None, no_weights
    own, spare = _draft_weights(demand, weights)
    rank = asked.machine.rank(weights.bytes // demand.tp, own // demand.tp)
    if spare:
        rank = replace(rank, free_high=(rank.free_high or rank.free) + spare // demand.tp)
    return pools.predict(asked.engine, demand, [rank]), None


def _draft_weights(demand: Demand, weights: Weights) -> tuple[int, int]:
    """(bytes that drafting adds to the weights, bytes by which that may be too much), all ranks together.

    A head is taken in 16 bits: quantised checkpoints usually leave it so, and where they do not it is less.
    """
    method, drafter = demand.speculation.method, demand.drafter
    if method == "mtp":
        parameters = head_parameters(demand.target, weights)
        return parameters * 2, max(0, int(parameters * (2 - weights.bytes_per_parameter)))
    if drafter is None or not demand.speculation.on:
        return 0, 0
    return drafter.weights_bytes or (drafter_parameters(drafter) or 0) * 2, 0


def _acceptance(asked: Asked, arm: ArmAsked) -> Acceptance | None:
    drafts = arm.speculation.drafts
    if not drafts:
        return None
    if arm.name in asked.acceptance:
        return Acceptance.measured(asked.acceptance[arm.name], drafts)
    return prior(arm.speculation.method, drafts)


def _length(asked: Asked) -> int:
    return asked.at_length or min(asked.lengths, default=1024)


def _calibrate(asked: Asked, weights: Weights | None) -> dict[str, Calibration]:
    """By arm: a plain arm's measured speed sets the plain step, a drafting arm's (and its AL) rho.

    An arm that was not measured takes the rho of another with the same method, if there is one.
    """
    plain = next(
        (
            asked.measured[arm.name]
            for arm in asked.arms
            if not arm.speculation.on and arm.name in asked.measured
        ),
        None,
    )
    for name in asked.measured:
        if all(arm.name != name for arm in asked.arms):
            raise UsageError(f"a speed is given for `{name}`, which is not among the arms")
    if plain is None or weights is None:
        if asked.measured and weights is not None:
            raise UsageError("a calibration needs the speed of the arm without speculation")
        return {arm.name: Calibration() for arm in asked.arms}
    rho: dict[tuple[str, int], float] = {}
    own: dict[str, tuple[tuple[str, int], float]] = {}
    for arm in asked.arms:
        if arm.speculation.on and arm.name in asked.measured:
            if arm.name not in asked.acceptance:
                raise UsageError(
                    f"the speed of `{arm.name}` calibrates only with its acceptance length (--al)"
                )
            drafts = arm.speculation.drafts or 1
            key = (arm.speculation.method, drafts)
            own[arm.name] = (key, step_cost(asked.acceptance[arm.name], asked.measured[arm.name], plain))
            rho.setdefault(*own[arm.name])
    return {
        arm.name: Calibration(
            1 / plain, asked.measured_length, {**rho, **dict([own[arm.name]] if arm.name in own else [])}
        )
        for arm in asked.arms
    }


def _best(asked: Asked, arms: Sequence[ArmPlan]) -> Best:
    """The fastest arm at the policy's concurrency among those that hold enough sessions."""
    at = asked.maximise_at
    timed = [arm for arm in arms if arm.decode]
    if not timed:
        return Best(None, "no arm's speed could be predicted")
    able = [arm for arm in timed if arm.pool is None or arm.pool.high.tokens > 0]
    if not able:
        return Best(None, "the weights leave no memory for a cache")
    hinges = []
    if asked.min_sessions:
        count, tokens = asked.min_sessions
        enough = []
        for arm in able:
            held = arm.pool.at.sessions(tokens) if arm.pool else None
            if held is None:
                hinges.append(f"whether {arm.name} holds {count} sessions is not known")
                enough.append(arm)
            elif held >= count:
                enough.append(arm)
                if arm.pool and arm.pool.low.sessions(tokens) < count:
                    hinges.append(f"{arm.name} holds {count} sessions only if the memory is as expected")
            else:
                near = arm.pool is not None and arm.pool.high.sessions(tokens) >= count
                within = ", though the pool's range reaches it" if near else ""
                hinges.append(f"{arm.name} is ruled out: it holds {held:.1f} of {count} sessions{within}")
        able = enough
        if not able:
            return Best(None, f"no arm holds {count} sessions of {tokens:,} tokens", tuple(hinges))
    ranked = sorted(able, key=lambda arm: -_rate(arm, at))
    first = ranked[0]
    reason = f"{first.name}: {_rate(first, at):.1f} tok/s predicted at {at} at once"
    if len(ranked) > 1:
        second = ranked[1]
        lead = _rate(first, at) / _rate(second, at)
        reason += f", {lead:.2f}x {second.name}"
        low, high = first.decode[at].low, second.decode[at].high
        if low is not None and high is not None and low < high:
            hinges.append(f"the ranges of {first.name} and {second.name} overlap: measure both")
        if first.acceptance:
            needed = first.acceptance.value / lead
            hinges.append(
                f"{first.name} stays ahead of {second.name} above an acceptance length of {needed:.2f} "
                f"({first.acceptance.value:.2f} assumed: {first.acceptance.source})"
            )
        elif second.acceptance:
            hinges.append(
                f"{second.name} would lead above an acceptance length of {second.acceptance.value * lead:.2f}"
            )
    return Best(first.name, reason, tuple(hinges))


def _rate(arm: ArmPlan, at: int) -> float:
    reading = arm.decode.get(at) or next(iter(arm.decode.values()))
    return reading.value or 0.0
