"""What must never be written down: keys, tokens and authorization headers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

MASK = "***"

_NAMED = re.compile(
    r"(^|[_-])((api[_-]?key|key|secret|passw(or)?d|credential|authorization)s?|token)$", re.IGNORECASE
)
_NOT_SECRET = re.compile(r"(tokenizer|num|max|min|image|pad|eos|bos|mask|spec)", re.IGNORECASE)
_SHAPED = re.compile(
    r"\b(hf_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{16,}|(?<=Bearer )[^\s\"',}]+"
    r"|(?<=://)[^/\s:@]+:[^/\s@]+(?=@))"
)


def secret_name(name: str) -> bool:
    """True for a name whose value is a secret: HF_TOKEN, OPENAI_API_KEY, api-key, Authorization."""
    return bool(_NAMED.search(name)) and not _NOT_SECRET.search(name)


def masked_text(text: str) -> str:
    """`text` with everything that has the shape of a secret replaced by ***."""
    return _SHAPED.sub(MASK, text)


def masked_env(env: Mapping[str, str]) -> dict[str, str]:
    """An environment that may be shown and kept."""
    return {name: MASK if secret_name(name) and value else masked_text(value) for name, value in env.items()}


def masked_argv(argv: Sequence[str]) -> tuple[str, ...]:
    """A command that may be shown and kept: `--api-key X` and `--api-key=X` lose their X."""
    shown: list[str] = []
    hide_next = False
    for word in argv:
        name, equals, _ = word.partition("=")
        named = word.startswith("-") and secret_name(name.lstrip("-"))
        if hide_next and not word.startswith("--"):
            shown.append(MASK)
        elif named and equals:
            shown.append(f"{name}={MASK}")
        else:
            shown.append(masked_text(word))
            hide_next = named
            continue
        hide_next = hide_next and not word.startswith("--")  # several keys may follow one flag
    return tuple(shown)
