"""A mark before a prompt: it makes it another text from its first token on, and leaves the rest as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def behind(messages: Sequence[Mapping[str, Any]], mark: str) -> list[dict[str, Any]]:
    """The messages, the first of them behind `[mark]`."""
    first, *rest = messages
    text, content = f"[{mark}] ", first.get("content") or ""
    made = [{"type": "text", "text": text}, *content] if isinstance(content, list) else f"{text}{content}"
    return [{**first, "content": made}, *map(dict, rest)]
