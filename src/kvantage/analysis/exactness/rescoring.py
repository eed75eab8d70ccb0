"""Gaps by teacher forcing: how far below the likeliest token an answer's token lies, in nats, and the floor
that the control's own tokens set.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvantage.core import Answer, Scores

RESOLUTION = 1e-4
"""Nats below which a gap is rounding of a served logprob and not noise of a server: float32 logits of a size
of 20 have a spacing of 2e-6, and sums of their exponentials lose some bits more.
"""
EDGE = 2.0
"""A near tie is a gap up to so many floors: the floor is one path's noise against the scorer's, and here
two other paths meet.
"""
LEVEL = 0.01
"""The level at which more structural tokens than the control's own are called a difference."""


@dataclass(frozen=True, slots=True)
class Floor:
    """The noise floor: a quantile of the gaps of the control's own tokens, with its 95 % interval.

    `high` is None where there are too few tokens to bound it from above; then the largest gap stands in.
    """

    quantile: float
    gap: float
    low: float
    high: float | None
    tokens: int
    largest: float

    @property
    def limit(self) -> float:
        """The floor as it is used, in nats: the upper end of the interval, and at least rounding."""
        return max(RESOLUTION, self.largest if self.high is None else self.high)

    @property
    def edge(self) -> float:
        """The largest gap that is called a near tie, in nats."""
        return EDGE * self.limit


@dataclass(frozen=True, slots=True)
class Gaps:
    """The distribution of an arm's gaps: each distinct token after its prefix once.

    `structural` counts those over the floor's edge, `expected` what the control's own rate would give.
    """

    arm: str
    tokens: int
    zero: int
    quantiles: Mapping[float, float]
    largest: float
    structural: int
    control_tokens: int
    control_structural: int
    p: float

    @property
    def expected(self) -> float:
        """Structural tokens that the control's own rate gives in as many tokens."""
        return self.control_structural / max(1, self.control_tokens) * self.tokens


def noise_floor(gaps: NDArray[np.float64], quantile: float, confidence: float = 0.95) -> Floor | None:
    """The quantile with its distribution-free interval by order statistics (Conover 1999, section 3.2).

    None without a gap. With q = 0.999 about 3,700 tokens bound it from above at 95 %.
    """
    if not gaps.size:
        return None
    from scipy import stats

    ordered = np.sort(gaps)
    number = len(ordered)
    outside = (1 - confidence) / 2
    low = int(stats.binom.ppf(outside, number, quantile))
    high = int(stats.binom.ppf(1 - outside, number, quantile))
    return Floor(
        quantile,
        float(np.quantile(ordered, quantile, method="higher")),
        float(ordered[max(0, low - 1)]),
        float(ordered[high]) if high < number else None,
        number,
        float(ordered[-1]),
    )


def distinct_gaps(answers: Iterable[Answer], scores: Mapping[str, Scores]) -> NDArray[np.float64]:
    """The gap of every distinct (prompt, prefix, token) of these answers: repeats and shared beginnings count
    once, so that a number of tokens is a number of observations.
    """
    found: dict[bytes, float] = {}
    seen: set[str] = set()
    for answer in answers:
        digest = answer.digest
        if digest is None or digest in seen or digest not in scores or answer.token_ids is None:
            continue
        seen.add(digest)
        running = hashlib.blake2b(answer.prompt_id.encode(), digest_size=12)
        for token, gap in zip(answer.token_ids, scores[digest].gaps, strict=True):
            running.update(token.to_bytes(8, "little", signed=True))
            found.setdefault(running.digest(), gap)
    return np.fromiter(found.values(), dtype=np.float64, count=len(found))


def describe_gaps(
    arm: str, gaps: NDArray[np.float64], control: NDArray[np.float64], floor: Floor
) -> Gaps | None:
    """An arm's gaps against the control's own. None without a gap.

    `p` is Fisher's exact test, one-sided, that the arm has no more structural tokens than the control.
    """
    if not gaps.size:
        return None
    over, own = int((gaps > floor.edge).sum()), int((control > floor.edge).sum())
    return Gaps(
        arm,
        len(gaps),
        int((gaps == 0).sum()),
        {q: float(np.quantile(gaps, q, method="higher")) for q in (0.5, 0.9, 0.99, 0.999)},
        float(gaps.max()),
        over,
        len(control),
        own,
        more_p(over, len(gaps), own, len(control)),
    )


def more_p(over: int, number: int, own: int, of: int) -> float:
    """One-sided p of Fisher's exact test that `over` of `number` is no higher a rate than `own` of `of`."""
    from scipy import stats

    return float(stats.hypergeom.sf(over - 1, number + of, over + own, number))


def structural_power(gaps: Gaps, rates: Sequence[float]) -> Mapping[float, float]:
    """How often a drafter with so many wrong tokens for each token would have been called different, by the
    count of structural tokens alone: wrong tokens whose gap is over the edge, Poisson in number.
    """
    from scipy import stats

    least = next(
        (
            count
            for count in range(1, gaps.tokens + 1)
            if more_p(count, gaps.tokens, gaps.control_structural, gaps.control_tokens) < LEVEL
        ),
        None,
    )
    if least is None:
        return dict.fromkeys(rates, 0.0)
    base = gaps.expected
    return {rate: float(stats.poisson.sf(least - 1, base + rate * gaps.tokens)) for rate in rates}


def all_zero(scores: Iterable[Scores]) -> bool:
    """True when every chosen logprob is exactly 0.0: placeholders, on which no check can fail."""
    values = [value for each in scores for value in each.chosen]
    return bool(values) and all(value == 0.0 for value in values)
