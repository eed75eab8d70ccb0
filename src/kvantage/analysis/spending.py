"""How the error of a study is spent over its looks: one after each block of boots.

The study may stop at any look, so the looks share the error by a rule that is fixed before the data (alpha
spending; Lan and DeMets 1983): after k of at most K boots, (k / K) squared of it may be spent. The t of boots
that are equal has a distribution without parameters at every look, so the levels that spend exactly that much
are computed once, by simulation, and hold whatever the noise is.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
from scipy import special

FIRST = 3
"""Boots an arm before anything is decided: with two, one degree of freedom tells no noise from another."""
MOST = 6
"""Boots an arm at most, where the study does not say."""
POWER = 2.0
"""The share spent after k of K boots is (k / K) to this power."""
DRAWS = 400_000


@dataclass(frozen=True, slots=True)
class Level:
    """The confidence of an interval, and what is said of it after the level of replication."""

    confidence: float
    words: str = ""


@dataclass(frozen=True, slots=True)
class Spending:
    """The looks of a study: after boots `first` ... `last` of each arm, at `confidence` over all of them."""

    last: int
    confidence: float
    first: int = FIRST

    @property
    def looks(self) -> int:
        """How many looks there are at most."""
        return max(1, self.last - self.first + 1)

    def spent(self, boots: int) -> float:
        """The error that may be spent up to the look after that many boots; all of it at the last."""
        if boots < self.first:
            return 0.0
        return float((1 - self.confidence) * min(1.0, boots / self.last) ** POWER)

    def alpha(self, boots: int) -> float:
        """The level of the look after that many boots, two-sided; 0 before the first.

        At 95 % with at most six boots: 0.012, 0.013, 0.018 and 0.026 after 3, 4, 5 and 6.
        """
        if boots < self.first:
            return 0.0
        return _levels(self.first, self.last, round(1 - self.confidence, 12))[
            min(boots, self.last) - self.first
        ]

    def level(self, boots: int) -> Level:
        """The confidence of the intervals of that look, and what is said of it. Before the first look that of
        the first.
        """
        look = min(max(boots, self.first), self.last)
        share = f"{self.confidence * 100:.4g} %"
        said = f"; look {look - self.first + 1} of {self.looks}, which together keep {share}"
        return Level(1 - self.alpha(look), said if self.looks > 1 else "")


@functools.lru_cache(maxsize=64)
def _levels(first: int, last: int, error: float) -> tuple[float, ...]:
    """The level of each look, so that what is spent up to it is what may be.

    By simulation with a fixed seed, less two of its standard errors, so that it errs to the safe side.
    """
    draws = np.random.default_rng(20_11).standard_normal((DRAWS, last))
    still = np.ones(DRAWS, dtype=np.bool_)
    sums, squares = np.cumsum(draws, axis=1), np.cumsum(draws**2, axis=1)
    levels, before = [], 0.0
    for boots in range(first, last + 1):
        total = sums[:, boots - 1]
        spread = np.sqrt((squares[:, boots - 1] - total**2 / boots) / (boots - 1))
        statistic = np.abs(total) / (math.sqrt(boots) * spread)
        spent = error * (boots / last) ** POWER
        wanted = (spent - before) * DRAWS
        before = spent
        number = max(1, math.floor(wanted - 2 * math.sqrt(wanted)))
        left = statistic[still]
        bound = float(np.partition(left, len(left) - number)[len(left) - number])
        levels.append(float(2 * special.stdtr(boots - 1, -bound)))
        still[still] = left < bound
    return tuple(levels)
