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
"""A near tie is a gap up to so many times the largest that the control's own tokens show (and the floor at
least): that is one path's noise against the scorer's, and here two other paths meet. The floor alone would
not do: a thousandth of the tokens lies over it by its own definition.
"""
LEVEL = 0.01
"""The level at which more tokens over the floor than the control's own rate gives are a difference."""


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
        return EDGE * max(self.limit, self.largest)


@dataclass(frozen=True, slots=True)
class Gaps:
    """The distribution of an arm's gaps: each distinct token after its prefix once.

    `over` counts those over the floor, `expected` what the control's own rate gives in as many tokens, `p`
    tells the two apart (Fisher's exact test, one-sided). `structural` counts those over the edge of a near
    tie: one is enough. `worst` is the largest, as (prompt, place).
    """

    arm: str
    tokens: int
    zero: int
    quantiles: Mapping[float, float]
    largest: float
    worst: tuple[str, int]
    structural: int
    over: int
    control_tokens: int
    control_over: int
    p: float

    @property
    def expected(self) -> float:
        """Tokens over the floor that the control's own rate gives in as many tokens."""
        return self.control_over / max(1, self.control_tokens) * self.tokens


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
    arm: str,
    answers: Sequence[Answer],
    scores: Mapping[str, Scores],
    control: NDArray[np.float64],
    floor: Floor,
) -> Gaps | None:
    """An arm's gaps against the control's own. None where none of its answers was scored."""
    gaps = distinct_gaps(answers, scores)
    if not gaps.size:
        return None
    over, own = int((gaps > floor.limit).sum()), int((control > floor.limit).sum())
    return Gaps(
        arm,
        len(gaps),
        int((gaps == 0).sum()),
        {q: float(np.quantile(gaps, q, method="higher")) for q in (0.5, 0.9, 0.99, 0.999)},
        float(gaps.max()),
        _worst(answers, scores),
        int((gaps > floor.edge).sum()),
        over,
        len(control),
        own,
        more_p(over, len(gaps), own, len(control)),
    )


def _worst(answers: Sequence[Answer], scores: Mapping[str, Scores]) -> tuple[str, int]:
    """The prompt and the place of the largest gap."""
    found = ("", 0)
    largest = -1.0
    for answer in answers:
        told = scores.get(answer.digest or "")
        if told is not None and told.gaps and max(told.gaps) > largest:
            largest = max(told.gaps)
            found = (answer.prompt_id, told.gaps.index(largest))
    return found


def more_p(over: int, number: int, own: int, of: int) -> float:
    """One-sided p of Fisher's exact test that `over` of `number` is no higher a rate than `own` of `of`."""
    from scipy import stats

    return float(stats.hypergeom.sf(over - 1, number + of, over + own, number))


@dataclass(frozen=True, slots=True)
class Power:
    """How often a drafter with so many wrong tokens for each token would have been called different.

    `structural` where each wrong token lies over the edge of a near tie, so that one is enough; `counted`
    where each lies only just over the floor, so that their number has to tell.
    """

    rate: float
    structural: float
    counted: float


def power_at(gaps: Gaps, rates: Sequence[float]) -> tuple[Power, ...]:
    """The power of this study's tokens at each rate; wrong tokens come as a Poisson number."""
    from scipy import stats

    least = next(
        (
            count
            for count in range(1, gaps.tokens + 1)
            if more_p(count, gaps.tokens, gaps.control_over, gaps.control_tokens) < LEVEL
        ),
        None,
    )
    return tuple(
        Power(
            rate,
            float(-np.expm1(-rate * gaps.tokens)),
            0.0 if least is None else float(stats.poisson.sf(least - 1, gaps.expected + rate * gaps.tokens)),
        )
        for rate in rates
    )


def all_zero(scores: Iterable[Scores]) -> bool:
    """True when every chosen logprob is exactly 0.0: placeholders, on which no check can fail."""
    values = [value for each in scores for value in each.chosen]
    return bool(values) and all(value == 0.0 for value in values)
