"""How long it will take: assumed at first, and from what was measured as soon as there is anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kvantage.phases import ChainPlan, Load

STOP_S = 5.0
BATCH_GAIN = 0.6
"""Assumed until measured. Aggregate decode at concurrency c is taken as that of one stream x c^BATCH_GAIN."""

MEASURED = "from what this study measured so far"


@dataclass(frozen=True)
class Assumption:
    """Speeds that are assumed until something was measured: of a large model, unless told otherwise."""

    boot_s: float = 60.0
    prefill_tok_s: float = 1000.0
    decode_tok_s: float = 25.0

    def __str__(self) -> str:
        return (
            f"assumed: a boot of {self.boot_s:.0f} s, {self.prefill_tok_s:,.0f} prompt tok/s,"
            f" {self.decode_tok_s:.0f} output tok/s at one stream; from measurements as soon as there are any"
        )

    def seconds(self, load: Load) -> float:
        """Seconds of requests alike."""
        prefill = 0.0 if load.prompt_is_cached else load.concurrency * load.prompt_tokens / self.prefill_tok_s
        speed: float = self.decode_tok_s * load.concurrency**BATCH_GAIN
        return load.waves * (prefill + load.concurrency * load.output_tokens / speed)


LARGE = Assumption()
SMALL = Assumption(boot_s=45.0, prefill_tok_s=4000.0, decode_tok_s=100.0)
SMALL_BYTES = 2 * 2**30


def assume(model: str) -> Assumption:
    """By the weights of a local folder or file: under 2 GiB, any machine that can serve it does so fast."""
    place = Path(model)
    files = [place] if place.is_file() else [*place.glob("*.safetensors"), *place.glob("*.gguf")]
    weights = [file.stat().st_size for file in files]
    return SMALL if weights and sum(weights) < SMALL_BYTES else LARGE


@dataclass
class Clock:
    """Learns durations as chains and boots end, and estimates those to come.

    A chain that some arm has run already is expected to take as long again (the mean of its durations);
    one that none has run, its assumed time scaled by how the assumption has fared on the others.
    """

    assumed: Assumption = LARGE
    chains: dict[str, list[float]] = field(default_factory=dict)
    boots: list[float] = field(default_factory=list)
    _assumed_s: float = 0.0
    _measured_s: float = 0.0

    def note_chain(self, plan: ChainPlan, seconds: float) -> None:
        """A chain took that long. The first request after boot, for which an engine may compile a minute,
        tells nothing of the others.
        """
        self.chains.setdefault(plan.name, []).append(seconds)
        if plan.after_boot:
            return
        self._assumed_s += sum(map(self.assumed.seconds, plan.loads))
        self._measured_s += seconds

    def note_boot(self, seconds: float) -> None:
        """A boot took that long until it was ready."""
        self.boots.append(seconds)

    def boot_s(self) -> float:
        """Seconds from start to ready, and to stop."""
        return (sum(self.boots) / len(self.boots) if self.boots else self.assumed.boot_s) + STOP_S

    def chain_s(self, plan: ChainPlan) -> float:
        """Seconds that a chain is expected to take."""
        seen = self.chains.get(plan.name)
        if seen:
            return sum(seen) / len(seen)
        scale = self._measured_s / self._assumed_s if self._assumed_s else 1.0
        return scale * sum(map(self.assumed.seconds, plan.loads))

    def arm_s(self, plans: Sequence[ChainPlan]) -> float:
        """Seconds of a boot with these chains; 0 when there are none."""
        return self.boot_s() + sum(self.chain_s(plan) for plan in plans) if plans else 0.0

    @property
    def basis(self) -> str:
        """What the estimate rests on, for the person."""
        return MEASURED if self.chains else str(self.assumed)


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
