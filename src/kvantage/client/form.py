"""A short cut through a stream: chunks that differ from one already read in their text alone.

Servers send the same JSON object again and again, with another word in it. Once one such chunk has been
read, another whose bytes are the same but for the text between two quotes holds the same object with that
text, and need not be parsed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_MARKS = (b'"content":"', b'"content": "')


@dataclass(frozen=True, slots=True)
class Form:
    """The bytes before and after the text."""

    before: bytes
    after: bytes

    def text(self, data: bytes) -> str | None:
        """The text of an event of this form, or None when it is not of it (or cannot be told so cheaply)."""
        if not (data.startswith(self.before) and data.endswith(self.after)):
            return None
        inner = data[len(self.before) : len(data) - len(self.after)]
        if not inner or b'"' in inner or b"\\" in inner or min(inner) < 0x20:
            return None
        if len(data) < len(self.before) + len(self.after):
            return None
        try:
            return inner.decode()
        except UnicodeDecodeError:
            return None


def find_form(data: bytes, chunk: Mapping[str, Any]) -> Form | None:
    """The form of an event that carries content and nothing else, or None when it is not so simple.

    `chunk` is what `data` holds, parsed.
    """
    choices = chunk.get("choices")
    if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], dict):
        return None
    choice = choices[0]
    delta = choice.get("delta")
    if not isinstance(delta, dict) or any(
        value is not None for name, value in delta.items() if name != "content"
    ):
        return None
    told = {name for name, value in choice.items() if value is not None} - {"index", "delta"}
    if told or choice.get("index") not in (None, 0) or chunk.get("usage") is not None:
        return None
    for mark in _MARKS:
        before, found, rest = data.partition(mark)
        inner, closed, after = rest.partition(b'"')
        if not found or not closed or b"\\" in inner or mark in rest:
            continue
        if inner and inner.decode("utf-8", "replace") == delta.get("content"):
            return Form(before + found, closed + after)
    return None
