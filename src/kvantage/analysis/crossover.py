"""The concurrency at which a drafter stops paying: an interval between two that were measured."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from kvantage.analysis.stats import judge
from kvantage.core.reading import Reading


@dataclass(frozen=True, slots=True)
class Crossover:
    """The first pair of concurrencies between which the ratio falls below 1.

    `low` and `high` are measured; `between` interpolates in the logarithms and is no more than a guide.
    All are None where the ratio stays above 1 up to `last`; only `high` is set where it never was above.
    `unclear` are concurrencies outside of [low, high] at which it was not told apart from 1.
    """

    low: int | None
    high: int | None
    between: float | None
    last: int
    unclear: tuple[int, ...] = ()

    @property
    def words(self) -> str:
        """The crossover in a few words."""
        unclear = f", not told apart from 1 at {', '.join(map(str, self.unclear))}" if self.unclear else ""
        if self.high is None:
            return f"none up to {self.last}{unclear}"
        if self.low is None:
            return f"below 1 from concurrency {self.high} on{unclear}"
        return f"between {self.low} and {self.high}"


def find_crossover(concurrency: Sequence[int], ratios: Sequence[float]) -> Crossover | None:
    """Where the ratio to the control first falls below 1; None without a point.

    1.91 at 1 and 0.788 at 2 cross between 1 and 2, at about 1.66 by logarithms.
    """
    points = sorted(zip(concurrency, ratios, strict=True))
    if not points:
        return None
    last = points[-1][0]
    if points[0][1] < 1:
        return Crossover(None, points[0][0], None, last)
    for (left, above), (right, below) in pairwise(points):
        if below < 1:
            share = math.log(above) / (math.log(above) - math.log(below))
            between = math.exp(math.log(left) + share * math.log(right / left))
            return Crossover(left, right, between, last)
    return Crossover(None, None, None, last)


def queueing(offered: Sequence[int], effective: float) -> tuple[int, ...]:
    """The offered concurrencies that the server cannot run at once: those rows measured a queue."""
    return tuple(value for value in offered if value > effective)


def stop_paying(ratios: Mapping[int, Reading]) -> Crossover | None:
    """Where an arm's ratio to the control falls below 1, each ratio taken with its interval.

    `low` is the last concurrency before at which it is above 1 for certain, `high` the first at which it is
    below 1 for certain; a ratio without an interval counts by its value. One that is not told apart from
    1 widens the interval, so that it never ends at a point that was not decided.
    """
    points = sorted(ratios.items())
    if not points:
        return None
    last = points[-1][0]
    sides = [(concurrency, _side(ratio)) for concurrency, ratio in points]
    high = next((concurrency for concurrency, side in sides if side == "below"), None)
    if high is None:
        unclear = tuple(concurrency for concurrency, side in sides if side == "unclear")
        return Crossover(None, None, None, last, unclear)
    low = max((value for value, side in sides if side == "above" and value < high), default=None)
    unclear = tuple(value for value, side in sides if side == "unclear" and value < (low or high))
    return Crossover(low, high, None, last, unclear)


def _side(ratio: Reading) -> str:
    assert ratio.value is not None
    if ratio.low is None or ratio.high is None:
        return "above" if ratio.value >= 1 else "below"
    decided = judge(ratio.low, ratio.high)
    return "unclear" if decided == "inconclusive" else decided
