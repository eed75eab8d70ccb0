"""Arithmetic of exactness: how large a gap is, and whether answers differ by more than the control's own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from scipy import special

Divergence = Literal["exact tie", "near tie", "structural"]

NEAR_ULPS = 2.0


def bf16_ulp(magnitude: float) -> float:
    """The distance between neighbouring bfloat16 numbers at |x|: 2^(floor(log2 |x|) - 7)."""
    return 2.0 ** (math.floor(math.log2(abs(magnitude))) - 7)


def classify_gap(gap: float, noise: float, near: float = NEAR_ULPS) -> Divergence:
    """A divergence by its gap in units of the noise: one ULP of the compute dtype, or the measured floor.

    0 is an exact tie, up to `near` units a near tie, more is structural.
    """
    if gap == 0:
        return "exact tie"
    return "near tie" if gap / noise <= near else "structural"


def placeholder_logprobs(logprobs: Sequence[float]) -> str | None:
    """Chosen-token logprobs of exactly 0.0 throughout are placeholders: a check on them cannot fail."""
    if logprobs and all(value == 0.0 for value in logprobs):
        return "all chosen-token logprobs are exactly 0.0 (p = 1): re-score on a server without speculation"
    return None


def fisher_p(same_a: int, total_a: int, same_b: int, total_b: int) -> float:
    """Two-sided p of Fisher's exact test that two rates of identical answers are the same.

    12 of 15 against 10 of 15 gives 0.682: no evidence of a difference.
    """
    total, drawn = total_a + total_b, same_a + same_b
    least, most = max(0, drawn - total_b), min(drawn, total_a)
    logs = [_log_hypergeometric(number, total_a, total_b, drawn, total) for number in range(least, most + 1)]
    seen = _log_hypergeometric(same_a, total_a, total_b, drawn, total)
    return min(1.0, math.fsum(math.exp(log) for log in logs if log <= seen + 1e-7))


def equivalence_interval(
    right_a: int, total_a: int, right_b: int, total_b: int, confidence: float = 0.90
) -> tuple[float, float]:
    """Unpaired normal interval of the difference of two rates, for TOST: equivalent within a margin when
    the 90 % interval lies inside it (two one-sided tests at 5 %).

    188 of 200 twice gives +-3.91 points. Equal totals can hide discordant pairs: paired is better.
    """
    a, b = right_a / total_a, right_b / total_b
    error = math.sqrt(a * (1 - a) / total_a + b * (1 - b) / total_b)
    half = float(special.ndtri(0.5 + confidence / 2)) * error
    return a - b - half, a - b + half


def _log_hypergeometric(number: int, total_a: int, total_b: int, drawn: int, total: int) -> float:
    return _log_choose(total_a, number) + _log_choose(total_b, drawn - number) - _log_choose(total, drawn)


def _log_choose(of: int, number: int) -> float:
    return math.lgamma(of + 1) - math.lgamma(number + 1) - math.lgamma(of - number + 1)
