"""What a llama-server can do, from its own `--help`: flags come and go between builds."""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_FLAG = re.compile(r"--?[a-zA-Z][a-zA-Z0-9-]*")
_ENTRY = re.compile(r"^((?:--?[a-zA-Z][a-zA-Z0-9-]*(?:, *)?)+)(.*)$")
_TYPES = re.compile(r"^--spec-type ([a-z0-9,-]+)", re.MULTILINE)
_REMOVED = "the argument has been removed"
_BUILD = re.compile(r"version: (?:\S+ \(build )?(\d+)(?: \(|, commit )(\w+)\)")


@dataclass(frozen=True, slots=True)
class Abilities:
    """Flags and speculation types of one build. `known` is False where its help could not be read."""

    flags: frozenset[str] = frozenset()
    types: frozenset[str] = frozenset()
    version: str | None = None

    @property
    def known(self) -> bool:
        """True where there is a help text to go by."""
        return bool(self.flags)

    def has(self, flag: str) -> bool:
        """True where the build has that flag, or its flags are not known."""
        return not self.known or flag in self.flags


def read_help(text: str) -> Abilities:
    """Abilities from a help text. Flags that it says were removed are not among them."""
    flags: set[str] = set()
    pending: list[str] = []
    for line in text.split("\n"):
        if (entry := _ENTRY.match(line)) is not None:
            flags.update(pending)
            pending = _FLAG.findall(entry[1])
        if _REMOVED in line:
            pending = []
    flags.update(pending)
    types = _TYPES.search(text)
    return Abilities(frozenset(flags), frozenset(types[1].split(",")) if types else frozenset())


def abilities_of(command: Sequence[str]) -> Abilities:
    """What the program says of itself; nothing known where it cannot be asked here."""
    program = shutil.which(command[0]) if len(command) == 1 else None
    if program is None:
        return Abilities()
    return _ask(program, Path(program).stat().st_mtime_ns)


@functools.cache
def _ask(program: str, _changed_ns: int) -> Abilities:
    told = [_run(program, flag) for flag in ("--help", "--version")]
    found = read_help(told[0])
    build = _BUILD.search(told[1])
    version = f"b{build[1]}-{build[2]}" if build and build[2] != "unknown" else None
    return Abilities(found.flags, found.types, version)


def _run(program: str, flag: str) -> str:
    try:
        done = subprocess.run([program, flag], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return f"{done.stdout}\n{done.stderr}"
