"""One figure in two runs that were not started side by side: boots are independent, not in blocks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from kvantage.analysis.stats import CONFIDENCE
from kvantage.core.columns import Floats


@dataclass(frozen=True, slots=True)
class TwoRuns:
    """The later run over the earlier: `log` of the ratio, its standard error and degrees of freedom (infinite
    for a noise that was assumed), and `level`, on what the interval rests.
    """

    log: float
    error: float
    degrees: float
    level: str

    def interval(self, confidence: float = CONFIDENCE) -> tuple[float, float]:
        """Ends of the ratio."""
        half = _quantile(self.degrees, 0.5 + confidence / 2) * self.error
        return math.exp(self.log - half), math.exp(self.log + half)

    @property
    def p(self) -> float:
        """Two-sided p that nothing changed."""
        if self.error == 0:
            return 1.0 if self.log == 0 else 0.0
        statistic = -abs(self.log) / self.error
        if math.isinf(self.degrees):
            return float(2 * special.ndtr(statistic))
        return float(2 * special.stdtr(self.degrees, statistic))


def compare_boots(
    before: Sequence[float],
    after: Sequence[float],
    assumed_sd: float,
    assumed: str,
    inside: Floats | None = None,
) -> TwoRuns:
    """From the logarithms of each boot's figure in both runs.

    With two boots or more in both runs by Welch's t (Welch 1947); with one in one of them the other's noise
    is taken for both; with one in both, `assumed_sd` is taken for a boot's deviation (`assumed` says whose it
    is), and `inside`, the paired requests' log-ratios, adds what varied within. Raises ValueError without a
    boot on either side.
    """
    if not before or not after:
        raise ValueError("a comparison needs a boot on both sides")
    earlier, later = np.asarray(before), np.asarray(after)
    log = float(later.mean() - earlier.mean())
    counts = len(earlier), len(later)
    spans = [float(values.var(ddof=1)) for values in (earlier, later) if len(values) > 1]
    if len(spans) == 2:
        parts = [span / count for span, count in zip(spans, counts, strict=True)]
        below = sum(part**2 / (count - 1) for part, count in zip(parts, counts, strict=True))
        degrees = sum(parts) ** 2 / below if below > 0 else float(sum(counts) - 2)
        return TwoRuns(log, math.sqrt(sum(parts)), degrees, f"Welch's t over {_told(counts)} boots")
    if spans:
        error = math.sqrt(spans[0] * (1 / counts[0] + 1 / counts[1]))
        said = f"t over {_told(counts)} boots, the noise of the several taken for the one"
        return TwoRuns(log, error, max(counts) - 1.0, said)
    within = 0.0
    if inside is not None and inside.size > 1:
        within = float(inside.var(ddof=1)) / inside.size
    error = math.sqrt(2 * assumed_sd**2 + within)
    return TwoRuns(
        log, error, math.inf, f"one boot in each run; boots taken to vary as published ones did: {assumed}"
    )


def _told(counts: tuple[int, int]) -> str:
    return f"{counts[0]} and {counts[1]}"


def _quantile(degrees: float, share: float) -> float:
    return float(special.ndtri(share) if math.isinf(degrees) else special.stdtrit(degrees, share))
