"""What the servers say differs between two arms: the resolved settings, not only the declared change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kvantage.core.facts import Facts

UNTOLD = "not told"
READ_BACK = (
    "context_length",
    "effective_max_running",
    "requested_max_running",
    "kv_block_tokens",
    "kv_bytes_per_token",
)


@dataclass(frozen=True, slots=True)
class Differing:
    """One setting that two arms' servers resolved differently, as text."""

    setting: str
    arm: str
    baseline: str

    @property
    def one_sided(self) -> bool:
        """True when only one of the two servers tells it."""
        return UNTOLD in (self.arm, self.baseline)


def resolved_differences(arm: Facts | None, baseline: Facts | None) -> tuple[Differing, ...]:
    """Every resolved setting and read-back fact in which the two servers differ, by name."""
    if arm is None or baseline is None:
        return ()
    mine, theirs = settings_told(arm), settings_told(baseline)
    return tuple(
        Differing(name, mine.get(name, UNTOLD), theirs.get(name, UNTOLD))
        for name in sorted(mine.keys() | theirs.keys())
        if mine.get(name) != theirs.get(name)
    )


def settings_told(facts: Facts) -> dict[str, str]:
    """What a server resolved and what is read back of it, as text by dotted name."""
    told = flat(facts.resolved)
    for name in READ_BACK:
        value = facts.reading(name).value
        if value is not None:
            told[name] = f"{value:,.10g}"
    return told


def flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested settings as text by dotted name; what is None is left out."""
    told: dict[str, str] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            told |= flat(value, f"{prefix}{name}.")
        elif value is not None and str(value) != "None":
            told[f"{prefix}{name}"] = str(value)
    return told
