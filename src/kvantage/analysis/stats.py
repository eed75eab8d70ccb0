"""Intervals and their arithmetic. Every interval is told with its level of replication by its caller."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

CONFIDENCE = 0.95
POWER = 0.8


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


def t_quantile(degrees: int, confidence: float = CONFIDENCE) -> float:
    """Student's two-sided quantile: 4.303 for 2 degrees of freedom at 95 %."""
    return float(special.stdtrit(degrees, 0.5 + confidence / 2))


def p_value(values: Sequence[float] | NDArray[np.float64]) -> float | None:
    """Two-sided p of Student's one-sample test that the mean is 0; None with fewer than two values."""
    data = np.asarray(values, dtype=np.float64)
    if data.size < 2:
        return None
    error = float(data.std(ddof=1)) / math.sqrt(data.size)
    if error == 0:
        return 1.0 if data.mean() == 0 else 0.0
    return float(2 * special.stdtr(data.size - 1, -abs(float(data.mean())) / error))


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Holm's adjusted p-values, in the order given (Holm 1979): the family's error stays at its level.

    0.01, 0.04 and 0.03 become 0.03, 0.06 and 0.06.
    """
    order = sorted(range(len(p_values)), key=lambda place: p_values[place])
    adjusted, highest = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = highest
    return tuple(adjusted)


def detectable(error_sd: float, number: int, confidence: float = CONFIDENCE, power: float = POWER) -> float:
    """The smallest true difference that a two-sided t test over `number` values finds with that power.

    `error_sd` is the standard deviation of one value, in the unit of the answer. The power is that of the
    noncentral t distribution. Infinite with fewer than two values.
    """
    if number < 2:
        return math.inf
    degrees = number - 1
    critical = t_quantile(degrees, confidence)
    low, high = 0.0, critical + 10.0
    while _power(high, degrees, critical) < power:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _power(middle, degrees, critical) < power else (low, middle)
    return high * error_sd / math.sqrt(number)


def _power(shift: float, degrees: int, critical: float) -> float:
    above = 1 - float(special.nctdtr(degrees, shift, critical))
    below = float(special.nctdtr(degrees, shift, -critical))
    return above + (below if math.isfinite(below) else 0.0)


def minimum_detectable_ratio(
    boots: int,
    sd_boot: float,
    sd_request: float = 0.0,
    requests: int = 1,
    confidence: float = CONFIDENCE,
    power: float = POWER,
) -> float:
    """The smallest ratio of two arms above 1 that a study of `boots` boots an arm would tell from 1.

    `sd_boot` and `sd_request` are one arm's standard deviations of the logarithm of its speed, between boots
    and between requests of one boot; `requests` are those of one boot. The difference of two arms has both
    twice in its variance. Infinite with one boot: nothing is known of boots then.
    """
    error_sd = math.sqrt(2 * (sd_boot**2 + sd_request**2 / max(1, requests)))
    found = detectable(error_sd, boots, confidence, power)
    return math.exp(found) if found < 700 else math.inf
