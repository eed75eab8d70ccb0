"""The shape of what was averaged: two modes, a drift over the run, values far out. All of it is kept."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from kvantage.core.columns import Floats

LEAST = 8
"""Fewer values show no shape."""
FAR = 5.0
"""Robust standard deviations from the median beyond which a value is shown as an outlier."""
DRIFT_P = 0.01
DRIFT_SHARE = 0.02
SIDE = 0.2
"""The least share of the values that makes a mode."""


@dataclass(frozen=True)
class Shape:
    """What the logarithms of a boot's paired ratios look like beside their mean.

    modes     (lower, upper) ratios of two modes, with `upper_share` of the values in the upper one; None
              where one mode explains them
    drift     the ratio's change from the first request to the last, as a ratio, where it is more than chance
              and than 2 %; None else
    outliers  how many lie far out. They are in every figure
    median    the median ratio; `mean` the geometric mean: a gain of the one is not one of the other
    """

    number: int
    mean: float
    median: float
    modes: tuple[float, float] | None = None
    upper_share: float | None = None
    drift: float | None = None
    outliers: int = 0

    @property
    def words(self) -> tuple[str, ...]:
        """What a reader should know of it, a sentence each; empty where there is nothing."""
        told = []
        if self.modes is not None and self.upper_share is not None:
            lower, upper = self.modes
            told.append(
                f"two modes, {lower:.2f}x and {upper:.2f}x ({self.upper_share * 100:.0f} % in the upper): "
                f"the median says {(self.median - 1) * 100:+.1f} %, the mean {(self.mean - 1) * 100:+.1f} %"
            )
        if self.drift is not None:
            told.append(f"the ratio drifted by {(self.drift - 1) * 100:+.1f} % from first to last request")
        if self.outliers:
            told.append(f"{self.outliers} of {self.number} requests lie far out, and are in every figure")
        return tuple(told)


def look_at(logs: Floats, run: Floats | None = None) -> Shape:
    """The shape of paired log-ratios. Needs one value.

    `run` are the values of one boot in the order in which they were measured, or their means over boots;
    without it nothing is said of drift.
    """
    mean, median = math.exp(float(logs.mean())), math.exp(float(np.median(logs)))
    if logs.size < LEAST:
        return Shape(int(logs.size), mean, median)
    modes, share = two_modes(logs) or (None, None)
    return Shape(
        int(logs.size),
        mean,
        median,
        None if modes is None else (math.exp(modes[0]), math.exp(modes[1])),
        share,
        None if run is None or run.size < LEAST else _drift(run),
        0 if modes else _outliers(logs),
    )


def two_modes(values: Floats) -> tuple[tuple[float, float], float] | None:
    """((lower, upper) mean, share of the upper) where two groups explain the values, None where one does.

    The values are cut in two where the groups explain most of the variance. One normal group gives at most
    0.637 + 0.86 / sqrt(n) of it in 99 of 100 samples (simulated for n from 8 to 300), an even spread 0.75,
    two groups four standard deviations apart 0.80: so that, and 0.80, must be exceeded. A group holds at
    least 20 % of the values; fewer are outliers.
    """
    ordered = np.sort(values)
    number = ordered.size
    least = max(2, math.ceil(SIDE * number))
    if number < LEAST or number < 2 * least:
        return None
    whole = float(((ordered - ordered.mean()) ** 2).sum())
    if whole <= 0:
        return None
    cuts = np.arange(least, number - least + 1)
    sums = np.cumsum(ordered)
    left, right = sums[cuts - 1] / cuts, (sums[-1] - sums[cuts - 1]) / (number - cuts)
    explained = cuts * (number - cuts) / number * (right - left) ** 2 / whole
    best = int(explained.argmax())
    if explained[best] <= max(0.80, 0.637 + 0.86 / math.sqrt(number)):
        return None
    return (float(left[best]), float(right[best])), float(1 - cuts[best] / number)


def _drift(logs: Floats) -> float | None:
    """By Spearman's rank correlation with the order, its size by the median of the slopes (Theil-Sen)."""
    number = logs.size
    ranks = np.argsort(np.argsort(logs))
    order = np.arange(number)
    correlation = float(np.corrcoef(order, ranks)[0, 1]) if np.ptp(logs) > 0 else 0.0
    if abs(correlation) >= 1:
        p = 0.0
    else:
        t = correlation * math.sqrt((number - 2) / (1 - correlation**2))
        p = float(2 * special.stdtr(number - 2, -abs(t)))
    if p > DRIFT_P:
        return None
    half = number // 2
    # slopes between the first and the second half alone: as many as values, not their square
    slope = float(np.median((logs[number - half :] - logs[:half]) / (number - half)))
    change = math.exp(slope * (number - 1))
    return change if abs(change - 1) > DRIFT_SHARE else None


def _outliers(logs: Floats) -> int:
    distance = np.abs(logs - np.median(logs))
    scale = 1.4826 * float(np.median(distance))
    return int((distance > FAR * scale).sum()) if scale > 0 else 0
