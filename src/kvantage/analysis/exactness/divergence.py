"""Where two answers to one prompt part, and how far each pair got: the matrix of a study."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from kvantage.core import Answer

PairKind = Literal["off-off", "off-off across boots", "on-on", "on-off"]
PAIR_KINDS: tuple[PairKind, ...] = ("off-off", "off-off across boots", "on-on", "on-off")
Unit = Literal["tokens", "characters"]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two answers to one prompt. `position` is the first place, from 0, where they differ; None: nowhere.

    `length` is how many places both have: where `position` is None the pair is censored there.
    """

    prompt_id: str
    concurrency: int
    kind: PairKind
    first: Answer
    second: Answer
    position: int | None
    length: int

    @property
    def identical(self) -> bool:
        """True when the two answers are the same to their end."""
        return self.position is None

    @property
    def survived(self) -> int:
        """Places that the pair agreed on before it parted or ended."""
        return self.length if self.position is None else self.position


@dataclass(frozen=True, slots=True)
class PairCount:
    """One field of the matrix. `earliest` is the first place at which any of its pairs parted."""

    kind: PairKind
    concurrency: int
    pairs: int
    identical: int
    prompts: int
    prompts_apart: int
    compared: int
    earliest: int | None


def first_divergence(first: Sequence[object], second: Sequence[object]) -> int | None:
    """The first place where two sequences differ, None when they are equal.

    Where one is the beginning of the other, they part where the shorter one ends: one stopped, the other
    went on.
    """
    if first == second:
        return None
    same, apart = 0, min(len(first), len(second))  # by halves: slices are compared faster than items are
    while same < apart:
        middle = (same + apart + 1) // 2
        if first[same:middle] == second[same:middle]:
            same = middle
        else:
            apart = middle - 1
    return same


def usable(answer: Answer) -> bool:
    """An answer that can be compared: it came whole and says something."""
    return answer.ok and bool(answer.text.strip() or answer.token_ids)


def pair(kind: PairKind, first: Answer, second: Answer, unit: Unit) -> Pair:
    """Compare two answers by token ids, or by the characters of all that they say."""
    a: Sequence[object] = first.token_ids or () if unit == "tokens" else first.text
    b: Sequence[object] = second.token_ids or () if unit == "tokens" else second.text
    position = first_divergence(a, b)
    return Pair(
        first.prompt_id, first.concurrency, kind, first, second, position, max(1, min(len(a), len(b)))
    )


def unit_of(answers: Iterable[Answer]) -> Unit:
    """Token ids where every answer tells them, else characters."""
    return "tokens" if all(answer.token_ids is not None for answer in answers) else "characters"


def pairs_within(answers: Sequence[Answer], kind: Literal["off-off", "on-on"], unit: Unit) -> list[Pair]:
    """Every two answers of one arm to one prompt; of the control those of two boots apart are named so."""
    made = []
    for first, second in combinations(answers, 2):
        named: PairKind = kind
        if kind == "off-off" and first.boot != second.boot:
            named = "off-off across boots"
        made.append(pair(named, first, second, unit))
    return made


def pairs_between(on: Sequence[Answer], off: Sequence[Answer], unit: Unit) -> list[Pair]:
    """Every answer of the arm with every one of the control, to one prompt."""
    return [pair("on-off", first, second, unit) for first in on for second in off]


def count_pairs(pairs: Sequence[Pair]) -> tuple[PairCount, ...]:
    """The matrix: a count for each kind and concurrency that there is."""
    found = []
    for concurrency in sorted({each.concurrency for each in pairs}):
        for kind in PAIR_KINDS:
            mine = [each for each in pairs if each.kind == kind and each.concurrency == concurrency]
            if not mine:
                continue
            apart = [each for each in mine if each.position is not None]
            found.append(
                PairCount(
                    kind,
                    concurrency,
                    len(mine),
                    len(mine) - len(apart),
                    len({each.prompt_id for each in mine}),
                    len({each.prompt_id for each in apart}),
                    sum(each.length for each in mine),
                    min((each.survived for each in apart), default=None),
                )
            )
    return tuple(found)
