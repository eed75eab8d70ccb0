"""Numbers out of other programs' text and JSON: whole and plain, or not at all."""

from __future__ import annotations

import math
import re
from typing import Any

GIB = 1 << 30
MIB = 1 << 20

_NUMBER = re.compile(r"[+-]?\d{1,18}(?:\.\d{1,18})?(?:[eE][+-]?\d{1,3})?", re.ASCII)
_WHOLE = re.compile(r"\d{1,18}", re.ASCII)


def number(text: str) -> float | None:
    """The finite number that the text is, and nothing else; None for `0,96`, `1.234.567`, `12abc`, `nan`."""
    if not _NUMBER.fullmatch(text):
        return None
    value = float(text)
    return value if math.isfinite(value) else None


def whole(text: str) -> int | None:
    """The count that the text is: ASCII digits without separators."""
    return int(text) if _WHOLE.fullmatch(text) else None


def count(value: Any) -> int | None:
    """A count from JSON: a whole number of at least 0. None for null, booleans, strings and fractions."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, float) and not value.is_integer():
        return None
    return int(value) if 0 <= value < 2**63 else None


def quantity(value: Any) -> float | None:
    """A finite number of at least 0 from JSON. None for null, booleans and strings."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        plain = float(value)
    except OverflowError:
        return None
    return plain if math.isfinite(plain) and plain >= 0 else None


def counts(value: Any) -> tuple[int, ...] | None:
    """A list of counts from JSON; None where any member is none."""
    if not isinstance(value, list | tuple) or not value:
        return None
    members = [count(member) for member in value]
    return None if None in members else tuple(member for member in members if member is not None)
