"""Next-token counts of two arms at a temperature: is it the same distribution?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kvantage.core import Answer

PERMUTATIONS = 4000
SMALLEST_EXPECTED = 5.0
LEVEL = 0.01
SEED = 30


@dataclass(frozen=True, slots=True)
class PrefixTest:
    """One prompt: the tokens at each place of the sampled answers, the arm's against the control's.

    `distance` is the largest total variation over the places, `place` where (from 0), with `expected`, what
    chance alone gives there on average; `token` has the largest difference there. `p_holm` is corrected for
    the number of prompts. `detectable` is the effect w (Cohen) found with 80 % power.
    """

    prompt_id: str
    samples: tuple[int, int]
    places: int
    statistic: float
    p: float
    p_holm: float
    distance: float
    expected: float
    place: int
    token: int
    effect: float
    detectable: float


def compare_prefixes(
    on: Sequence[Answer], off: Sequence[Answer], permutations: int = PERMUTATIONS
) -> tuple[PrefixTest, ...]:
    """A test for each prompt that both were sampled from, Holm over them (Holm 1979).

    The statistic of a prompt is the sum over places of the chi-square of the token counts, tokens with few
    expected pooled; its p comes from shuffling whole answers between the arms, so that the dependence of one
    token on the one before it needs no model.
    """
    found = []
    prompts = [name for name in _by_prompt(on) if name in _by_prompt(off)]
    for name in prompts:
        mine, theirs = _by_prompt(on)[name], _by_prompt(off)[name]
        made = _test(name, mine, theirs, permutations)
        if made is not None:
            found.append(made)
    corrected = holm([each.p for each in found])
    return tuple(_with_p(each, p) for each, p in zip(found, corrected, strict=True))


def holm(values: Sequence[float]) -> list[float]:
    """Holm's step-down correction of p values."""
    order = np.argsort(values, kind="stable")
    corrected = [0.0] * len(values)
    highest = 0.0
    for rank, index in enumerate(order.tolist()):
        highest = max(highest, min(1.0, (len(values) - rank) * values[index]))
        corrected[index] = highest
    return corrected


def _with_p(test: PrefixTest, p: float) -> PrefixTest:
    return replace(test, p_holm=p)


def _by_prompt(answers: Sequence[Answer]) -> Mapping[str, list[tuple[int, ...]]]:
    found: dict[str, list[tuple[int, ...]]] = {}
    for answer in answers:
        if answer.ok and answer.token_ids:
            found.setdefault(answer.prompt_id, []).append(answer.token_ids)
    return found


def _test(
    name: str, on: Sequence[tuple[int, ...]], off: Sequence[tuple[int, ...]], permutations: int
) -> PrefixTest | None:
    if len(on) < 2 or len(off) < 2:
        return None
    samples = [*on, *off]
    places = max(map(len, samples))
    columns = [
        _codes([each[place] if place < len(each) else -1 for each in samples]) for place in range(places)
    ]
    share = len(on) / len(samples)
    pooled = [_pool(codes, share) for codes, _ in columns]
    label = np.zeros(len(samples), dtype=bool)
    label[: len(on)] = True
    seen = _statistic(pooled, label[None, :])
    rng = np.random.default_rng(SEED)
    shuffled = rng.permuted(np.tile(label, (permutations, 1)), axis=1)
    null = _statistic(pooled, shuffled)
    p = (1 + int((null >= seen[0] - 1e-9).sum())) / (permutations + 1)
    distances = [_distance(codes, label) for codes, _ in columns]
    place = int(np.argmax([each[0] for each in distances]))
    codes, tokens = columns[place]
    expected = float(np.mean([_distance(codes, row)[0] for row in shuffled[:200]]))
    chi, freedom = _chi(pooled[place], label[None, :])[0], max(1, int(pooled[place].max()))
    return PrefixTest(
        name,
        (len(on), len(off)),
        places,
        float(seen[0]),
        p,
        p,
        distances[place][0],
        expected,
        place,
        tokens[distances[place][1]],
        float(np.sqrt(chi / len(samples))),
        detectable_effect(len(samples), freedom),
    )


def _codes(tokens: Sequence[int]) -> tuple[NDArray[np.int64], list[int]]:
    kinds = [token for token, _ in Counter(tokens).most_common()]
    place = {token: number for number, token in enumerate(kinds)}
    return np.array([place[token] for token in tokens], dtype=np.int64), kinds


def _pool(codes: NDArray[np.int64], share: float) -> NDArray[np.int64]:
    """Codes are by falling count: all whose expected count in the smaller arm is too small become one."""
    counts = np.bincount(codes)
    kept = int((counts * min(share, 1 - share) >= SMALLEST_EXPECTED).sum())
    return np.minimum(codes, kept)


def _statistic(pooled: Sequence[NDArray[np.int64]], labels: NDArray[np.bool_]) -> NDArray[np.float64]:
    total: NDArray[np.float64] = np.sum([_chi(codes, labels) for codes in pooled], axis=0)
    return total


def _chi(codes: NDArray[np.int64], labels: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Chi-square of the counts of the codes under each row of labels against the rest."""
    one_hot = np.eye(int(codes.max()) + 1)[codes]
    counts = labels.astype(np.float64) @ one_hot
    totals = one_hot.sum(axis=0)
    share = labels.mean(axis=1, keepdims=True)
    expected = totals[None, :] * share
    terms = (counts - expected) ** 2 / np.maximum(expected * (1 - share), 1e-12)
    chi: NDArray[np.float64] = terms.sum(axis=1)
    return chi


def _distance(codes: NDArray[np.int64], label: NDArray[np.bool_]) -> tuple[float, int]:
    """Total variation of the two counts, and the code with the largest difference."""
    size = int(codes.max()) + 1
    on = np.bincount(codes[label], minlength=size) / max(1, int(label.sum()))
    off = np.bincount(codes[~label], minlength=size) / max(1, int((~label).sum()))
    return float(np.abs(on - off).sum() / 2), int(np.argmax(np.abs(on - off)))


def detectable_effect(samples: int, freedom: int, power: float = 0.8, level: float = LEVEL) -> float:
    """The effect w = sqrt(chi-square / samples) (Cohen 1988, chapter 7) found with that power at `level`."""
    from scipy import optimize, stats

    critical = float(stats.chi2.isf(level, freedom))

    def short_of(noncentral: float) -> float:
        return float(stats.ncx2.sf(critical, freedom, noncentral)) - power

    return float(np.sqrt(optimize.brentq(short_of, 1e-6, 1e5) / samples))
