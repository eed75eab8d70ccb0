"""Names for token ids: sequences that begin alike are runs of the same named text, exact to the token."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kvantage.sim.pieces import Piece, Pieces, total

Ids = NDArray[np.int64]


class _Run:
    """Tokens of one text from `offset`, and what has been seen to follow them, by its first token."""

    __slots__ = ("after", "ids", "name", "offset", "used")

    def __init__(self, ids: Ids, name: int, offset: int, used: int) -> None:
        self.ids = ids
        self.name = name
        self.offset = offset
        self.after: dict[int, _Run] = {}
        self.used = used

    def split(self, at: int) -> None:
        """End this run after `at` tokens; the rest follows it, of the same text."""
        rest = _Run(self.ids[at:], self.name, self.offset + at, self.used)
        rest.after = self.after
        self.ids, self.after = self.ids[:at], {int(rest.ids[0]): rest}

    def size(self) -> int:
        """Tokens here and in all that follows."""
        return len(self.ids) + sum(run.size() for run in self.after.values())


class Texts:
    """Every sequence that was seen, as a tree of runs; at most about `most` tokens, the oldest forgotten.

    texts = Texts(1_000_000)
    first = texts.name([5, 6, 7, 8])       # ((0, 0, 4),)
    second = texts.name([5, 6, 9])         # ((0, 0, 2), (1, 0, 1)): the first two tokens are the same
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._first: dict[int, _Run] = {}
        self._held = 0
        self._names = 0
        self._tick = 0

    def name(self, ids: Sequence[int]) -> Pieces:
        """The sequence as pieces: what an earlier one began with, too, has that one's names."""
        self._tick += 1
        rest: Ids = np.asarray(ids, dtype=np.int64)
        found: list[Piece] = []
        place = self._first
        while rest.size:
            run = place.get(int(rest[0]))
            if run is None:
                run = _Run(rest.copy(), self._names, 0, self._tick)
                place[int(rest[0])] = run
                self._names += 1
                self._held += rest.size
            size = min(run.ids.size, rest.size)
            differs = np.flatnonzero(run.ids[:size] != rest[:size])
            same = int(differs[0]) if differs.size else size
            if same < run.ids.size:
                run.split(same)
            run.used = self._tick
            found.append((run.name, run.offset, same))
            place, rest = run.after, rest[same:]
        self._forget()
        return _joined(found)

    def _forget(self) -> None:
        while self._held > self._most and len(self._first) > 1:
            token, oldest = min(self._first.items(), key=lambda item: item[1].used)
            self._held -= oldest.size()
            del self._first[token]


def _joined(pieces: Sequence[Piece]) -> Pieces:
    """Runs of the same text that follow on each other, as one."""
    found: list[Piece] = []
    for name, offset, length in pieces:
        if found and found[-1][0] == name and found[-1][1] + found[-1][2] == offset:
            found[-1] = (name, found[-1][1], found[-1][2] + length)
        else:
            found.append((name, offset, length))
    assert total(found) == total(pieces)
    return tuple(found)
