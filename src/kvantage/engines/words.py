"""A command's flags, put together from several places: nothing twice, and each with who gave it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kvantage.core import UsageError


@dataclass
class Words:
    """Flags in their order. `same` maps other spellings of a flag to the one that counts."""

    same: Mapping[str, str] = field(default_factory=dict)
    argv: list[str] = field(default_factory=list)
    given: dict[str, str] = field(default_factory=dict)

    def meaning(self, name: str) -> str:
        """What all spellings of a flag share."""
        plain = name.lstrip("-").replace("_", "-")
        return self.same.get(plain, plain)

    def has(self, name: str) -> bool:
        """True when that flag was given, in any spelling."""
        return self.meaning(name) in self.given

    def add(self, name: str, value: Any, *, by: str) -> None:
        """Add one flag: true gives the bare flag, false nothing, a mapping JSON, a list several words.

        Raises UsageError when it was given before, naming both, and for a value that is none.
        """
        key = self.meaning(name)
        if key in self.given:
            raise UsageError(
                f"{by} and {self.given[key]} both set --{key}", hint="give it once, in either of the two ways"
            )
        if value is None:
            raise UsageError(f"{by}: no value", hint="write `true` for a flag that takes none")
        self.given[key] = by
        self.argv += written(name, value)

    def add_unless_given(self, name: str, value: Any, *, by: str = "kvantage") -> bool:
        """Add what the arm left open; True when it was added."""
        if self.has(name):
            return False
        self.add(name, value, by=by)
        return True


def written(name: str, value: Any) -> list[str]:
    """One flag as words of a command line: `--name` (or `-x`, as typed) and its value."""
    flag = name if name.startswith("-") else f"--{name.replace('_', '-')}"
    if value is True:
        return [flag]
    if value is False:
        return []
    if isinstance(value, Mapping):
        return [flag, json.dumps(value, separators=(",", ":"))]
    if isinstance(value, list | tuple):
        return [flag, *map(str, value)]
    text = str(value)
    return [f"{flag}={text}"] if flag.startswith("--") and text.startswith("-") else [flag, text]
