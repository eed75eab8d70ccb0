"""What a simulated server says: words without meaning, each one token, so that an answer is found again when
it comes back inside a longer prompt."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

Encode = Callable[[str], list[int]]

WORDS = (
    *("light", "water", "stone", "under", "seven", "river", "glass", "north", "time", "way", "day", "man"),
    *("the", "of", "and", "to", "in", "is", "it", "you", "that", "was", "for", "on", "are", "as", "with"),
)
BEFORE = "simulated"


@dataclass(frozen=True)
class Answer:
    """An answer token by token: its texts and ids. `known` where those are the encoder's own ids."""

    texts: tuple[str, ...]
    ids: tuple[int, ...]
    known: bool


class Answers:
    """Answers in the tokens of one encoder; to the same prompt the same one, as in greedy decoding."""

    def __init__(self, encode: Encode) -> None:
        self._words = _single(encode)

    def give(self, prompt: Sequence[int], tokens: int) -> Answer:
        """So many tokens to say to that prompt."""
        draw = random.Random(hash(tuple(prompt)))
        if not self._words:
            chosen = draw.choices(WORDS, k=tokens)
            return Answer(tuple(f" {word}" for word in chosen), tuple(range(tokens)), known=False)
        picked = draw.choices(self._words, k=tokens)
        return Answer(tuple(text for text, _ in picked), tuple(id_ for _, id_ in picked), known=True)


def _single(encode: Encode) -> list[tuple[str, int]]:
    """Words that are one token behind any text and before any other, with their ids."""
    head = encode(BEFORE)
    found = []
    for word in WORDS:
        ids = encode(f"{BEFORE} {word}")
        if ids[: len(head)] == head and len(ids) == len(head) + 1:
            found.append((f" {word}", ids[-1]))
    together = encode(BEFORE + "".join(text for text, _ in found))
    return found if together == head + [id_ for _, id_ in found] else []
