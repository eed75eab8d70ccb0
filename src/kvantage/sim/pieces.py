"""Token sequences without tokens: runs of named text, so that 128,000 tokens are one tuple.

A piece (name, offset, length) is `length` tokens of the text `name` from `offset`: two sequences are equal
where their pieces are.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator

Piece = tuple[Hashable, int, int]
Pieces = tuple[Piece, ...]


def text(name: Hashable, length: int) -> Pieces:
    """A whole text of that many tokens."""
    return ((name, 0, length),) if length else ()


def total(pieces: Iterable[Piece]) -> int:
    """Tokens in all of them."""
    return sum(piece[2] for piece in pieces)


def cut(pieces: Pieces, start: int, end: int) -> Pieces:
    """The tokens from `start` to before `end`."""
    found: list[Piece] = []
    at = 0
    for name, offset, length in pieces:
        low, high = max(start, at), min(end, at + length)
        if low < high:
            found.append((name, offset + low - at, high - low))
        at += length
        if at >= end:
            break
    return tuple(found)


def parts(pieces: Pieces, size: int, first: int, last: int) -> Iterator[Pieces]:
    """The tokens in runs of `size`, from the run numbered `first` to before `last`, in one walk."""
    rest = iter(cut(pieces, first * size, last * size))
    have: list[Piece] = []
    held = 0
    for name, offset, length in rest:
        at, end = offset, offset + length
        while at < end:
            taken = min(end - at, size - held)
            have.append((name, at, taken))
            at, held = at + taken, held + taken
            if held == size:
                yield tuple(have)
                have, held = [], 0


def join(first: Pieces, second: Pieces) -> Pieces:
    """One after the other; runs of the same text that follow on each other become one piece."""
    if not first or not second:
        return first or second
    (name, offset, length), (other, start, more) = first[-1], second[0]
    if name == other and offset + length == start:
        return (*first[:-1], (name, offset, length + more), *second[1:])
    return first + second


def common(first: Pieces, second: Pieces) -> int:
    """How many tokens the two have in common from the start."""
    i = j = used_i = used_j = found = 0
    while i < len(first) and j < len(second):
        (name, offset, length), (other, start, more) = first[i], second[j]
        if name != other or offset + used_i != start + used_j:
            break
        step = min(length - used_i, more - used_j)
        found, used_i, used_j = found + step, used_i + step, used_j + step
        if used_i == length:
            i, used_i = i + 1, 0
        if used_j == more:
            j, used_j = j + 1, 0
    return found
