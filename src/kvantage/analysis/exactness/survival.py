"""How long pairs of answers stay the same, and whether an arm parts from the control sooner than the control
from itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvantage.analysis.exactness.divergence import Pair, Unit, first_divergence
from kvantage.core import Answer

PERMUTATIONS = 2000
SEED = 20


@dataclass(frozen=True, slots=True)
class Curve:
    """A Kaplan-Meier curve with its pointwise 95 % interval: the share of pairs still the same after so many
    places. Pairs that ended the same are censored at their end.
    """

    kind: str
    concurrency: int
    pairs: int
    places: tuple[int, ...]
    share: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Compared:
    """Whether on-off pairs part sooner than off-off pairs.

    `rate_*` are divergences for a thousand places compared; `p` is of the permutation test (one-sided:
    sooner), `log_rank_p` of the log-rank test on one pair a prompt, None where nothing parted.
    """

    rate_on_off: float
    rate_off_off: float
    p: float
    log_rank_p: float | None
    permutations: int


def survival_curve(pairs: Sequence[Pair], kind: str, concurrency: int) -> Curve | None:
    """The curve of these pairs (Kaplan & Meier 1958; the interval by log-log), None without a pair."""
    if not pairs:
        return None
    from scipy import stats

    times = np.array([each.survived + (not each.identical) for each in pairs], dtype=float)
    censored = np.array([each.identical for each in pairs])
    if censored.all():
        end = int(times.max())
        return Curve(kind, concurrency, len(pairs), (0, end), (1.0, 1.0), (1.0, 1.0), (1.0, 1.0))
    sample = stats.CensoredData(uncensored=times[~censored], right=times[censored])
    function = stats.ecdf(sample).sf
    with np.errstate(all="ignore"):
        ends = _interval(function)
    share = function.probabilities
    low, high = (np.where(np.isfinite(end), end, share) for end in ends)
    return Curve(
        kind,
        concurrency,
        len(pairs),
        (0, *(int(t) for t in function.quantiles)),
        (1.0, *(float(s) for s in share)),
        (1.0, *(float(s) for s in low)),
        (1.0, *(float(s) for s in high)),
    )


def _interval(function: object) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns where the curve is 0 or 1 and no interval exists
        told = function.confidence_interval(method="log-log")  # type: ignore[attr-defined]
    return told.low.probabilities, told.high.probabilities


@dataclass(frozen=True)
class Square:
    """All answers to one prompt, the control's first: whether each two part, and after how many places."""

    off: int
    apart: NDArray[np.bool_]
    places: NDArray[np.float64]


def square(off: Sequence[Answer], on: Sequence[Answer], unit: Unit) -> Square:
    """Compare every two of them."""
    words: list[Sequence[object]] = [
        (each.token_ids or ()) if unit == "tokens" else each.text for each in (*off, *on)
    ]
    number = len(words)
    apart = np.zeros((number, number), dtype=bool)
    places = np.zeros((number, number))
    for a in range(number):
        for b in range(a + 1, number):
            position = first_divergence(words[a], words[b])
            apart[a, b] = apart[b, a] = position is not None
            length = min(len(words[a]), len(words[b])) if position is None else position + 1
            places[a, b] = places[b, a] = max(1, length)
    return Square(len(off), apart, places)


def compare_survival(
    squares: Sequence[Square],
    pairs_off: Sequence[Pair] = (),
    pairs_on: Sequence[Pair] = (),
    permutations: int = PERMUTATIONS,
) -> Compared:
    """Test whether the arm parts from the control more often, place for place, than the control from itself.

    The statistic is the difference of the two rates of divergence; under 'no difference' the labels on and
    off of a prompt's answers can be exchanged, so that they are shuffled within each prompt.
    """
    seen, p = _test(_stacks(squares), permutations, np.random.default_rng(SEED))
    return Compared(1000 * seen[0], 1000 * seen[1], p, log_rank(pairs_on, pairs_off), permutations)


def _test(
    stacks: Sequence[_Stack], permutations: int, rng: np.random.Generator
) -> tuple[tuple[float, float], float]:
    """The two rates as they are, and the one-sided p of their difference."""
    seen = _rates(stacks, [_labels(stack, None, rng) for stack in stacks])
    shuffled = _rates(stacks, [_labels(stack, permutations, rng) for stack in stacks])
    beyond = (shuffled[0] - shuffled[1]) >= (seen[0] - seen[1])[0] - 1e-15
    return (float(seen[0][0]), float(seen[1][0])), (1 + int(beyond.sum())) / (permutations + 1)


@dataclass(frozen=True)
class _Stack:
    """Squares of one shape, stacked: (prompts, answers, answers)."""

    off: int
    apart: NDArray[np.float64]
    places: NDArray[np.float64]


def _stacks(squares: Sequence[Square]) -> list[_Stack]:
    shapes: dict[tuple[int, int], list[Square]] = {}
    for each in squares:
        shapes.setdefault((each.off, len(each.apart)), []).append(each)
    return [
        _Stack(off, np.stack([e.apart.astype(float) for e in group]), np.stack([e.places for e in group]))
        for (off, _), group in shapes.items()
    ]


def _labels(stack: _Stack, shuffles: int | None, rng: np.random.Generator) -> NDArray[np.float64]:
    """1 for the arm's answers, 0 for the control's, shuffled by prompt: (shuffles, prompts, answers)."""
    prompts, number = stack.apart.shape[:2]
    labels = np.zeros(number)
    labels[stack.off :] = 1
    if shuffles is None:
        return np.broadcast_to(labels, (1, prompts, number))
    return rng.permuted(np.broadcast_to(labels, (shuffles, prompts, number)), axis=2)


def _rates(
    stacks: Sequence[_Stack], labels: Sequence[NDArray[np.float64]]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Divergences for each place, of on-off pairs and of off-off pairs, for every row of labels."""
    sums = np.zeros((4, len(labels[0]) if labels else 1))
    for stack, on in zip(stacks, labels, strict=True):
        off = 1 - on
        for place, matrix in enumerate((stack.apart, stack.places)):
            with_off = np.matmul(off[:, :, None, :], matrix[None])[:, :, 0, :]
            sums[place] += (on * with_off).sum(axis=(1, 2))
            sums[place + 2] += (off * with_off).sum(axis=(1, 2)) / 2
    return sums[0] / np.maximum(sums[1], 1), sums[2] / np.maximum(sums[3], 1)


def log_rank(pairs_on: Sequence[Pair], pairs_off: Sequence[Pair]) -> float | None:
    """Two-sided p of the log-rank test (Mantel 1966), on the first pair of each prompt: more would share
    their answers.
    """
    on, off = (_one_a_prompt(pairs) for pairs in (pairs_on, pairs_off))
    if not on or not off or all(each.identical for each in (*on, *off)):
        return None
    from scipy import stats

    with np.errstate(all="ignore"):
        p = float(stats.logrank(_sample(on), _sample(off)).pvalue)
    return p if np.isfinite(p) else None


def _one_a_prompt(pairs: Sequence[Pair]) -> list[Pair]:
    first: dict[str, Pair] = {}
    for each in pairs:
        first.setdefault(each.prompt_id, each)
    return list(first.values())


def _sample(pairs: Sequence[Pair]) -> object:
    from scipy import stats

    times = np.array([each.survived + (not each.identical) for each in pairs], dtype=float)
    censored = np.array([each.identical for each in pairs])
    return stats.CensoredData(uncensored=times[~censored], right=times[censored])


def survival_power(
    squares: Sequence[Square],
    rates: Sequence[float],
    *,
    level: float = 0.05,
    studies: int = 60,
    permutations: int = 99,
) -> Mapping[float, float]:
    """How often `compare_survival` would have rejected at `level`, had the arm changed so many tokens.

    By simulation on this study's own answers: an arm's answer is one of the control's, which besides parts
    from all others at a place drawn with the rate for each token. Rates are wrong tokens for each token.
    """
    rng = np.random.default_rng(SEED + 1)
    stacks = _stacks(squares)
    found = {}
    for rate in rates:
        tests = (
            _test([_changed(stack, rate, rng) for stack in stacks], permutations, rng) for _ in range(studies)
        )
        found[rate] = sum(p <= level for _, p in tests) / studies
    return found


def _changed(stack: _Stack, rate: float, rng: np.random.Generator) -> _Stack:
    """Squares of the same sizes, in which the arm is the control with wrong tokens at a rate."""
    prompts, number = stack.apart.shape[:2]
    source = np.broadcast_to(np.arange(number), (prompts, number)).copy()
    source[:, stack.off :] = rng.integers(0, stack.off, (prompts, number - stack.off))
    wrong = np.full((prompts, number), np.inf)
    wrong[:, stack.off :] = rng.geometric(rate, (prompts, number - stack.off))
    at = (np.arange(prompts)[:, None, None], source[:, :, None], source[:, None, :])
    apart, places = stack.apart[at] > 0, stack.places[at]
    longest = np.take_along_axis(stack.places.max(axis=2), source, axis=1)
    same = source[:, :, None] == source[:, None, :]
    places = np.where(same, np.minimum(longest[:, :, None], longest[:, None, :]), places)
    earliest = np.minimum(wrong[:, :, None], wrong[:, None, :])
    now = earliest <= places
    places = np.where(now, earliest, places)
    apart = (apart & ~same) | now
    itself = np.arange(number)
    apart[:, itself, itself] = False
    return _Stack(stack.off, apart.astype(float), places)
