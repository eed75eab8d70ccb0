"""A whole study in virtual time: short prompts, cold waves of documents, and each wave repeated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from kvantage.core import Reading
from kvantage.planner.work import Work
from kvantage.sim.clock import Clock
from kvantage.sim.drafting import Drafting
from kvantage.sim.engine import Engine
from kvantage.sim.pieces import text
from kvantage.sim.request import Request
from kvantage.sim.rules import Rules

DOCUMENTS = "documents"
WAITED_S = 1.0
"""A request that was first worked on later than this after its arrival has waited."""


@dataclass(frozen=True)
class SimArm:
    """One arm: its pool in tokens, rules, step times, and conditional acceptance rates by workload."""

    name: str
    pool_tokens: int
    rules: Rules
    clock: Clock
    rates: Mapping[str, Sequence[float]] = field(default_factory=dict)


@dataclass(frozen=True)
class SimCell:
    """One wave (or the short requests of one workload), simulated.

    `hits` counts requests whose whole resident prefix was served, as far as pages allow; `misses` those that
    computed again what had been computed before.
    """

    arm: str
    phase: str
    workload: str
    concurrency: int
    requests: int
    wall_s: float
    output_tokens: int
    ttft_s: float
    queued_s: float
    cached_tokens: int
    expected_tokens: int
    misses: int
    queued: int
    retractions: int
    refused: int
    steps: int
    accepted: int

    @property
    def e2e_tok_s(self) -> Reading:
        """Output tokens by wall time of the wave."""
        return Reading.of(self.output_tokens / self.wall_s, "tok/s", "simulated")

    @property
    def acceptance_length(self) -> Reading:
        """Tokens a decode step and request, bonus included."""
        if not self.steps:
            return Reading.absent("no decode step was taken")
        return Reading.of(1 + self.accepted / self.steps, "tokens/step", "simulated")


def simulate(arm: SimArm, work: Work, seed: int = 0) -> list[SimCell]:
    """Ask one arm for all the work, on one boot, in the order of a study."""
    engine = boot(arm, seed)
    cells: list[SimCell] = []
    numbers = count()
    for workload, short in work.short.items():
        for kind, times in (("warm-up", short.warmups), ("short", short.repeats)):
            before, started = len(engine.finished), engine.now
            for _ in range(times):
                prompt = text((workload, next(numbers)), work.short_prompt_tokens)
                engine.submit(Request(f"short-{next(numbers)}", prompt, short.output_tokens, workload))
                engine.run()
            if kind == "short":
                cells.append(_cell(arm, kind, workload, 1, engine.finished[before:], engine.now - started, 0))
    for streams in work.concurrency:
        for wave in range(work.waves):
            names = [(DOCUMENTS, streams, wave, stream) for stream in range(streams)]
            cells.append(_wave(arm, engine, work, "cold", names, work.cold_output, numbers))
            if work.repeat_output:
                cells.append(_wave(arm, engine, work, "repeat", names, work.repeat_output, numbers))
    return cells


def boot(arm: SimArm, seed: int = 0) -> Engine:
    """A fresh engine for an arm; the same seed draws the same acceptances."""
    drafting = {name: Drafting(rates, seed + i) for i, (name, rates) in enumerate(arm.rates.items())}
    return Engine(arm.pool_tokens, arm.rules, arm.clock, drafting)


def _wave(
    arm: SimArm,
    engine: Engine,
    work: Work,
    phase: str,
    names: Sequence[tuple[str, int, int, int]],
    output: int,
    numbers: count[int],
) -> SimCell:
    started, refused = engine.now, len(engine.refused)
    requests = []
    order = list(reversed(names)) if phase == "repeat" and work.reverse_repeats else names
    for i, name in enumerate(order):
        request = Request(f"{phase}-{next(numbers)}", text(name, work.document_tokens), output, DOCUMENTS)
        requests.append(engine.submit(request, started + i * work.apart_s))
    engine.run()
    page = arm.rules.page
    expected = (work.document_tokens - 1) // page * page if phase == "repeat" else 0
    if arm.rules.drop_block and expected:
        expected -= page
    cell = _cell(arm, phase, DOCUMENTS, len(names), requests, engine.now - started, expected)
    return replace(cell, refused=len(engine.refused) - refused)


def _cell(
    arm: SimArm,
    phase: str,
    workload: str,
    concurrency: int,
    requests: Sequence[Request],
    wall: float,
    expected: int,
) -> SimCell:
    number = max(1, len(requests))
    return SimCell(
        arm=arm.name,
        phase=phase,
        workload=workload,
        concurrency=concurrency,
        requests=len(requests),
        wall_s=max(wall, 1e-9),
        output_tokens=sum(request.produced for request in requests),
        ttft_s=sum(request.ttft for request in requests) / number,
        queued_s=sum(request.queued for request in requests) / number,
        cached_tokens=sum(request.first_cached or 0 for request in requests),
        expected_tokens=expected * len(requests),
        misses=sum((request.first_cached or 0) < expected or request.retractions > 0 for request in requests)
        if expected
        else 0,
        queued=sum(request.queued > WAITED_S for request in requests) if expected else 0,
        retractions=sum(request.retractions for request in requests),
        refused=0,
        steps=sum(request.steps for request in requests),
        accepted=sum(request.accepted for request in requests),
    )
