"""Intervals and their arithmetic. Every interval is told with its level of replication by its caller."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with a two-sided interval over `n` values; `low` and `high` are None with fewer than two."""

    mean: float
    low: float | None
    high: float | None
    sd: float | None
    n: int

    @property
    def half(self) -> float | None:
        """Half of the interval's width."""
        return None if self.low is None or self.high is None else (self.high - self.low) / 2


def t_interval(values: Sequence[float] | NDArray[np.float64], confidence: float = CONFIDENCE) -> Interval:
    """Mean and Student's t interval: mean +- t(n - 1) s / sqrt(n).

    Three runs of 71.3, 65.5 and 77.8 tok/s give 71.53 +- 15.29. Raises ValueError without a value.
    """
    data = np.asarray(values, dtype=np.float64)
    if data.size == 0:
        raise ValueError("an interval needs at least one value")
    mean = float(data.mean())
    if data.size < 2:
        return Interval(mean, None, None, None, 1)
    sd = float(data.std(ddof=1))
    quantile = float(special.stdtrit(data.size - 1, 0.5 + confidence / 2))
    half = quantile * sd / math.sqrt(data.size)
    return Interval(mean, mean - half, mean + half, sd, int(data.size))


def ratio_interval(log_ratios: NDArray[np.float64], confidence: float = CONFIDENCE) -> Interval:
    """Geometric mean of paired ratios with the t interval of their logarithms, as ratios.

    Ratios are compared on the log scale, where twice as fast and half as fast lie equally far from 1
    (Kalibera & Jones 2013, section 9). `sd` is that of the logarithms.
    """
    log = t_interval(log_ratios, confidence)
    return Interval(
        math.exp(log.mean),
        None if log.low is None else math.exp(log.low),
        None if log.high is None else math.exp(log.high),
        log.sd,
        log.n,
    )


def spread(values: Sequence[float]) -> float:
    """(largest - smallest) / smallest: how far boots of one arm lie apart. 92 to 111 tok/s is 0.2065."""
    return (max(values) - min(values)) / min(values)


def judge(low: float | None, high: float | None, neutral: float = 1.0) -> str:
    """What an interval decides against `neutral`: 'above', 'below' or 'inconclusive'.

    Without an interval nothing is decided.
    """
    if low is None or high is None:
        return "inconclusive"
    if low > neutral:
        return "above"
    return "below" if high < neutral else "inconclusive"


def overlap(first: Sequence[float], second: Sequence[float]) -> bool:
    """True when the ranges of two sets of values have a point in common."""
    return min(first) <= max(second) and min(second) <= max(first)


def tied(best: float, other: float, floor: float) -> bool:
    """True when two speeds differ by no more than the relative noise `floor` of the larger to the smaller."""
    return max(best, other) / min(best, other) - 1 <= floor
