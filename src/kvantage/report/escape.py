"""Text from servers, prompts and files is not ours: it is shown, and does nothing."""

from __future__ import annotations

import html
import re
import unicodedata

_MARKDOWN = re.compile(r"([\\`*_\[\]#~!|{}$@])")


def plain(text: str, *, fold: bool = True) -> str:
    """One line without control characters: no escape sequence reaches a terminal. `fold` joins its blanks."""
    flat = " ".join(text.split()) if fold else text
    return "".join("\ufffd" if unicodedata.category(char) in ("Cc", "Cf", "Cs") else char for char in flat)


def spelled(text: str) -> str:
    """Text with its lines, without control characters and without turns of the reading direction."""
    return "".join(
        char if char in "\n\t" or unicodedata.category(char) not in ("Cc", "Cf", "Cs") else "\ufffd"
        for char in text
    )


def markdown(text: str) -> str:
    """Text that GitHub shows as it stands: markup, HTML, table bars and mentions lose their meaning."""
    return _MARKDOWN.sub(r"\\\1", html.escape(plain(text), quote=False))


def fenced(lines: list[str]) -> list[str]:
    """Lines of a log in a code block that they cannot end."""
    kept = [plain(line) for line in lines]
    longest = max((len(run) for line in kept for run in re.findall(r"`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}text", *kept, fence]
