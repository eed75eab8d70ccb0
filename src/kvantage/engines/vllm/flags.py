"""An arm's own flags beside those that the vocabulary and kvantage set: one list, nothing twice."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kvantage.core import UsageError

OURS = frozenset({"host", "port", "model", "served-model-name", "api-key"})
"""Flags that kvantage must choose itself. It listens on loopback alone, and asks without a key."""

_SAME = {
    "tp": "tensor-parallel-size",
    "q": "quantization",
    "sc": "speculative-config",
    "kv-cache-memory": "kv-cache-memory-bytes",
    "gpu-memory-util": "gpu-memory-utilization",
    "model-tag": "model",
}
"""Other spellings of one flag."""

_PARTS = {
    "spec-method": "speculative-config",
    "spec-model": "speculative-config",
    "spec-tokens": "speculative-config",
}
"""Flags that write a part of another's value: they may stand together, but not beside the whole."""


def plain(name: str) -> str:
    """A flag's name without dashes in front, words joined by dashes, `no-` removed."""
    return name.lstrip("-").replace("_", "-").removeprefix("no-")


def meaning(name: str) -> str:
    """What two spellings of one flag share."""
    return _SAME.get(plain(name), plain(name))


@dataclass
class Flags:
    """Flags in the order in which they were given, each with the word of the study that gave it."""

    words: list[str] = field(default_factory=list)
    given: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, value: Any, *, by: str) -> None:
        """Add one flag: true gives `--name`, false `--no-name`, a mapping JSON, a list several words.

        Raises UsageError when the same flag was given before, naming both.
        """
        key = meaning(name)
        whole = _PARTS.get(key)
        against = [key, whole] if whole else [key, *(part for part, of in _PARTS.items() if of == key)]
        for other in against:
            if other in self.given:
                raise UsageError(
                    f"{by} and {self.given[other]} both set --{whole or key}",
                    hint="give it once, in either of the two ways",
                )
        self.given[key] = by
        self.words += written(name, value)

    def add_unless_given(self, name: str, value: Any) -> None:
        """Add what kvantage sets when the arm has not."""
        if meaning(name) not in self.given:
            self.given[meaning(name)] = "kvantage"
            self.words += written(name, value)


def written(name: str, value: Any) -> list[str]:
    """One flag as words of a command. Raises UsageError for a value that is none."""
    flag = f"--{name.lstrip('-').replace('_', '-')}"
    if value is None:
        raise UsageError(f"flags: `{name}` has no value", hint="write `true` for a flag that takes none")
    if value is True:
        return [flag]
    if value is False:
        return [f"--no-{flag[2:]}" if not flag.startswith("--no-") else f"--{flag[5:]}"]
    if isinstance(value, Mapping):
        return [flag, json.dumps(value, separators=(",", ":"))]
    if isinstance(value, (list, tuple)):
        return [flag, *(json.dumps(v) if isinstance(v, Mapping) else str(v) for v in value)]
    text = str(value)
    return [f"{flag}={text}"] if text.startswith("-") else [flag, text]
