"""How the error of a study is spent over its looks: one after each block of boots.

The study may stop at any look, so the looks share the error. Each has a share of its own, fixed before the
data, and the shares sum to the whole (alpha spending with the union bound): the chance that any interval at
any look misses is at most the whole error, whatever the looks have to do with each other.
"""

from __future__ import annotations

from dataclasses import dataclass

FIRST = 3
"""Boots an arm before anything is decided: with two, one degree of freedom tells no noise from another."""
MOST = 6
"""Boots an arm at most, where the study does not say."""


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

    def alpha(self, boots: int) -> float:
        """The error of the look after that many boots, equal shares; 0 where there is no look.

        At 95 % with at most six boots, the looks after 3, 4, 5 and 6 have 0.0125 each.
        """
        return (1 - self.confidence) / self.looks if self.first <= boots <= self.last else 0.0

    def level(self) -> Level:
        """The confidence of each look's intervals, and what is said of it."""
        said = f"; one of {self.looks} looks that together keep {self.confidence * 100:.4g} %"
        return Level(1 - (1 - self.confidence) / self.looks, said)
