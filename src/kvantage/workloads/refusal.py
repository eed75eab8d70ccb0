"""Whether a server refuses a kind of question as such: one that it cannot do, and no fault of an answer."""

from __future__ import annotations

import re

_WORDS = {
    "image": re.compile(r"\b(image|vision|multi-?modal|mmproj)", re.IGNORECASE),
    "tool": re.compile(r"\b(tool|function.call|jinja)", re.IGNORECASE),
}


def unsupported(kind: str, status: int | None, said: str) -> bool:
    """True for a 4xx, and for a 5xx whose words name what is asked for.

    A server was seen to answer an image with 500: 'image input is not supported'.
    """
    if status is None or not 400 <= status < 600:
        return False
    words = _WORDS.get(kind)
    return status < 500 or (words is not None and words.search(said) is not None)
