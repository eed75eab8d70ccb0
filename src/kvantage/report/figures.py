"""How a reading is printed. Missing is never zero: it is a dash with its reason in a note."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from kvantage.core.reading import Reading

DASH = "–"
WIDE = 10
"""An interval whose ends lie further apart than this factor says nothing; it is told in words."""


COUNTED = ("tokens", "bytes", "requests", "probes", "answers", "secrets", "blocks")


def number(reading: Reading) -> dict[str, Any]:
    """A reading as JSON; counts as whole numbers."""
    plain = reading.to_json()
    for key in ("value", "low", "high"):
        value = plain.get(key)
        if isinstance(value, float) and reading.unit in COUNTED and value.is_integer():
            plain[key] = int(value)
    return plain


def figure(reading: Reading, digits: int | None = None) -> str:
    """The value alone: whole with separators, or `digits` after the point (by size when not given)."""
    if reading.value is None:
        return DASH
    value = reading.value
    if digits is None:
        if reading.unit in ("tokens", "bytes", "requests", "probes", "answers", "secrets"):
            digits = 0
        else:
            digits = 0 if abs(value) >= 1000 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f}"


def size(reading: Reading) -> str:
    """Bytes in the binary unit that fits."""
    if reading.value is None:
        return DASH
    value, units = reading.value, ["B", "KiB", "MiB", "GiB", "TiB"]
    while abs(value) >= 1024 and len(units) > 1:
        value, units = value / 1024, units[1:]
    return f"{value:,.0f} B" if units[0] == "B" else f"{value:,.1f} {units[0]}"


def interval(reading: Reading) -> str:
    """The ends of the interval, or a dash."""
    if reading.low is None or reading.high is None:
        return DASH
    if reading.high > WIDE * reading.low:
        return f"over {WIDE}-fold wide"
    return f"{reading.low:.2f} to {reading.high:.2f}"


def times(reading: Reading) -> str:
    """A ratio as `1.60x`."""
    return DASH if reading.value is None else f"{reading.value:.2f}x"


@dataclass
class Notes:
    """Reasons under a table, numbered in the order in which they are first needed."""

    reasons: list[str] = field(default_factory=list)

    def mark(self, text: str, reading: Reading) -> str:
        """`text`, or for a missing reading `void`, `refused`, or a dash with the number of its reason."""
        if reading.missing is None:
            return text
        for word in ("void", "refused"):
            if reading.missing.startswith(f"{word}:"):
                return word
        return f"{DASH} [{self.number(reading.missing)}]"

    def number(self, reason: str) -> int:
        """The number of a reason, a new one where it was not needed before."""
        if reason not in self.reasons:
            self.reasons.append(reason)
        return self.reasons.index(reason) + 1

    def lines(self) -> Iterable[str]:
        """The notes as lines."""
        return (f"[{place}] {reason}" for place, reason in enumerate(self.reasons, 1))
