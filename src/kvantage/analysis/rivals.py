"""On each axis the arm that comes nearest to the best one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from kvantage.analysis import wording
from kvantage.analysis.capacity import Pool
from kvantage.core.reading import Reading


@dataclass(frozen=True)
class Rival:
    """The nearest arm on one axis, ruled out or not: its figure over the best arm's."""

    axis: str
    arm: str
    ratio: Reading

    @property
    def words(self) -> str:
        """'`mtp` on the KV pool, 1.89x'."""
        assert self.ratio.value is not None
        return f"{wording.named(self.arm)} on {self.axis}, {wording.times(self.ratio.value)}"


def find_rivals(best: str, arms: Sequence[tuple[str, Reading, Pool]], objective: str) -> tuple[Rival, ...]:
    """The nearest rival of `best` by what is maximised and by the pool in tokens; by ratio, either way."""
    axes = {
        objective: {arm: figure.value for arm, figure, _ in arms},
        "the KV pool in tokens": {arm: pool.tokens.value for arm, _, pool in arms},
    }
    found = []
    for axis, values in axes.items():
        own = values.get(best)
        others = {arm: value for arm, value in values.items() if arm != best and value}
        if not own or not others:
            continue
        near = min(others, key=lambda arm: abs(math.log((others[arm] or 1.0) / own)))
        ratio = Reading.of((others[near] or 0.0) / own, "ratio", "computed", note="unpaired: no interval")
        found.append(Rival(axis, near, ratio))
    return tuple(found)
