"""A short cut through a stream: chunks that differ from the one before in their text alone.

Servers send the same JSON object again and again, with another word in it. Once one such chunk has been
read, each that follows it with the same bytes but for the text between two quotes holds the same object
with that text, and need not be parsed.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_NAMES: tuple[str, ...] = ("content", "reasoning", "reasoning_content")
_CONTROLS = bytes(range(0x20))


@dataclass(frozen=True, slots=True)
class Form:
    """The bytes of an event before and after the text, and what the text is: content or reasoning."""

    before: bytes
    after: bytes
    reasoning: bool

    def follow(
        self, body: bytes, position: int, read_ns: Sequence[int], read_ends: Sequence[int], at: int
    ) -> tuple[str, array[int], int, int]:
        """The events of this form that follow one another from `position` on.

        Gives their text, the stamp of each (that of the first read, from `at` on, which reaches its end),
        the offset past the last, and the place of its read.
        """
        before, after, skip = self.before, self.after, len(self.before)
        more, last_read = len(after), len(read_ends) - 1
        starts_with, find = body.startswith, body.find
        texts: list[bytes] = []
        times: array[int] = array("q")
        while starts_with(before, position):
            start = position + skip
            stop = find(b'"', start)
            if stop <= start or not starts_with(after, stop):
                break
            text = body[start:stop]
            if not (text.isalnum() or _plain(text)):
                break
            texts.append(text)
            position = stop + more
            while at < last_read and read_ends[at] < position:
                at += 1
            times.append(read_ns[at])
        return b"".join(texts).decode(), times, position, at


def _plain(text: bytes) -> bool:
    """True for bytes that a JSON string holds as they are."""
    if b"\\" in text or text.translate(None, _CONTROLS) != text:
        return False
    if text.isascii():
        return True
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def find_form(event: bytes, chunk: Mapping[str, Any]) -> Form | None:
    """The form of an event that carries one piece of text and nothing else; None when it is not so simple.

    `event` are its bytes, with everything behind the event before it and its own blank line; `chunk` is
    what it holds, parsed.
    """
    if not event.startswith(b"data:") or not event.endswith(b"}\n\n") or b"\\" in event or b"\r" in event:
        return None
    if event.find(b"\n") != len(event) - 2 or chunk.get("usage") is not None:
        return None
    choices = chunk.get("choices")
    if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], dict):
        return None
    choice = choices[0]
    delta = choice.get("delta")
    names = _NAMES
    if not isinstance(delta, dict):
        delta, names = {"text": choice.get("text")}, ("text",)
    told = {name for name, value in choice.items() if value is not None} - {"index", "delta", *names}
    # what is empty is not read, and neither is the role
    said = [(name, value) for name, value in delta.items() if value and name != "role"]
    if told or choice.get("index") not in (None, 0) or len(said) != 1 or said[0][0] not in names:
        return None
    name, value = said[0]
    key = b'"%b"' % name.encode()
    head, _, rest = event.partition(key)
    mark = next((each for each in (b':"', b': "') if rest.startswith(each)), None)
    if mark is None or key in rest:
        return None
    inner, _, after = rest[len(mark) :].partition(b'"')
    if not inner or not _plain(inner) or inner.decode() != value:
        return None
    return Form(head + key + mark, b'"' + after, name not in {"content", "text"})
