"""'Did you mean' for a word that is not known."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A sentence for the person: the closest known word, or all of them where none is close."""
    words = sorted(known)
    close = difflib.get_close_matches(word, words, n=1, cutoff=0.6)
    if close:
        return f"did you mean `{close[0]}`?"
    return f"known: {', '.join(words)}" if words else ""
