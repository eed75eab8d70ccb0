"""How long it will take: assumed at first, and from what was measured as soon as there is anything."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from kvantage.phases import ChainPlan, Load

BOOT_S = 60.0
STOP_S = 5.0
PREFILL_TOK_S = 1000.0
DECODE_TOK_S = 25.0
BATCH_GAIN = 0.6
"""Assumed until measured. Aggregate decode at concurrency c is taken as DECODE x c^BATCH_GAIN."""

ASSUMED = (
    f"assumed: a boot of {BOOT_S:.0f} s, {PREFILL_TOK_S:,.0f} prompt tok/s, {DECODE_TOK_S:.0f} output tok/s"
    " at one stream; from measurements once the first arm is done"
)
MEASURED = "from what this study measured so far"


@dataclass
class Clock:
    """Learns durations as chains and boots end, and estimates those to come.

    A chain that some arm has run already is expected to take as long again (the mean of its durations);
    one that none has run, its assumed time scaled by how the assumption has fared on the others.
    """

    chains: dict[str, list[float]] = field(default_factory=dict)
    boots: list[float] = field(default_factory=list)
    _assumed_s: float = 0.0
    _measured_s: float = 0.0

    def note_chain(self, plan: ChainPlan, seconds: float) -> None:
        """A chain took that long."""
        self.chains.setdefault(plan.name, []).append(seconds)
        self._assumed_s += sum(assumed_s(load) for load in plan.loads)
        self._measured_s += seconds

    def note_boot(self, seconds: float) -> None:
        """A boot took that long until it was ready."""
        self.boots.append(seconds)

    def boot_s(self) -> float:
        """Seconds from start to ready, and to stop."""
        return (sum(self.boots) / len(self.boots) if self.boots else BOOT_S) + STOP_S

    def chain_s(self, plan: ChainPlan) -> float:
        """Seconds that a chain is expected to take."""
        seen = self.chains.get(plan.name)
        if seen:
            return sum(seen) / len(seen)
        scale = self._measured_s / self._assumed_s if self._assumed_s else 1.0
        return scale * sum(assumed_s(load) for load in plan.loads)

    def arm_s(self, plans: Sequence[ChainPlan]) -> float:
        """Seconds of a boot with these chains; 0 when there are none."""
        return self.boot_s() + sum(self.chain_s(plan) for plan in plans) if plans else 0.0

    @property
    def basis(self) -> str:
        """What the estimate rests on, for the person."""
        return MEASURED if self.chains else ASSUMED


def assumed_s(load: Load) -> float:
    """Seconds of requests alike, by the assumed speeds."""
    prefill = 0.0 if load.prompt_is_cached else load.concurrency * load.prompt_tokens / PREFILL_TOK_S
    speed: float = DECODE_TOK_S * load.concurrency**BATCH_GAIN
    decode = load.concurrency * load.output_tokens / speed
    return load.waves * (prefill + decode)


def fitting(
    plans: Sequence[ChainPlan], clock: Clock, seconds: float
) -> tuple[list[ChainPlan], list[ChainPlan]]:
    """(what fits into `seconds` of one boot, what does not), in order; a later, shorter one may still fit."""
    left = seconds - clock.boot_s()
    kept: list[ChainPlan] = []
    dropped: list[ChainPlan] = []
    for plan in plans:
        needed = clock.chain_s(plan)
        if needed <= left:
            kept.append(plan)
            left -= needed
        else:
            dropped.append(plan)
    return kept, dropped


def total_s(arms: Iterable[Sequence[ChainPlan]], clock: Clock) -> float:
    """Seconds of several boots."""
    return sum(clock.arm_s(plans) for plans in arms)
