"""How long a step takes: the planner's step times, kept so that a long study is quick."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from kvantage.planner.speed import Steps

GRAIN = 1024
"""Lengths are rounded up to this many tokens when a step time is looked up."""


class Clock(Protocol):
    """Seconds of a decode step of `batch` sequences that hold `tokens` in all, and of a prefill step."""

    def decode(self, batch: int, tokens: int) -> float: ...

    def prefill(self, tokens: int) -> float: ...


@dataclass
class PlannerClock:
    """The planner's middle values. `prefill_tok_s`, where measured, takes the place of its estimate."""

    steps: Steps
    prefill_tok_s: float | None = None
    _decode: dict[tuple[int, int], float] = field(default_factory=dict)
    _prefill: dict[int, float] = field(default_factory=dict)

    def decode(self, batch: int, tokens: int) -> float:
        key = (batch, -(-tokens // (batch * GRAIN)))
        found = self._decode.get(key)
        if found is None:
            found = self._decode[key] = self.steps.speculative(batch, key[1] * GRAIN).value
        return found

    def prefill(self, tokens: int) -> float:
        found = self._prefill.get(tokens)
        if found is None:
            plain = self.steps.prefill(tokens).value
            if self.prefill_tok_s:
                plain = max(self.steps.plain(1, 1).value, tokens / self.prefill_tok_s)
            found = self._prefill[tokens] = plain
        return found


@dataclass(frozen=True)
class FixedClock:
    """Times that are given: `step` a decode step, `each` more a further sequence, `token` a prompt token."""

    step: float = 0.05
    each: float = 0.0
    token: float = 0.0005

    def decode(self, batch: int, tokens: int) -> float:
        return self.step + self.each * (batch - 1)

    def prefill(self, tokens: int) -> float:
        return max(self.step, self.token * tokens)
