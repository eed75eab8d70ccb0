"""What `kvantage doctor` looks at on this machine: packages, engines, disk, the client's exactness."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kvantage.calibrate import load_stored
from kvantage.engines.installed import installed
from kvantage.hosts.local import LocalHost
from kvantage.version import __version__

State = Literal["ok", "note", "missing", "too old", "fault"]
BAD: tuple[State, ...] = ("too old", "fault")
GIB = 2**30
LEAST_DISK = 2 * GIB
_NEED = re.compile(
    r"([A-Za-z0-9._-]+)(?:\[[^\]]*\])?\s*(?:>=\s*([0-9.]+))?[^;]*(?:;.*extra == ['\"](\w+)['\"])?"
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. `missing` is no fault: only who wants it needs it. `todo`: what to do."""

    what: str
    state: State
    said: str
    todo: str | None = None


def health(folder: Path) -> Iterator[Finding]:
    """Everything about this machine; `folder` is where results would go."""
    yield from _kvantage()
    yield from _engines()
    yield from _machine(folder)
    yield from _client()


def _kvantage() -> Iterator[Finding]:
    python = ".".join(map(str, sys.version_info[:3]))
    old = sys.version_info < (3, 11)
    yield Finding(
        "kvantage", "too old" if old else "ok", f"{__version__} on Python {python}",
        "it needs Python 3.11 or later" if old else None,
    )  # fmt: skip
    extras: dict[str, list[str]] = {}
    wrong: list[Finding] = []
    for name, least, extra in needs():
        version = version_of(name)
        if extra is not None:
            if version is None or older(version, least):
                extras.setdefault(extra, []).append(
                    name if version is None else f"{name} {version} < {least}"
                )
            else:
                extras.setdefault(extra, [])
        elif version is None:
            wrong.append(Finding(name, "fault", "is not installed", f"pip install '{name}>={least}'"))
        elif older(version, least):
            wrong.append(Finding(name, "too old", f"{version}", f"pip install --upgrade '{name}>={least}'"))
    yield from wrong
    if not wrong:
        yield Finding("its packages", "ok", "all there, none too old")
    for extra, lacking in extras.items():
        if lacking:
            said = f"{USES.get(extra, '')}: {', '.join(lacking)} not installed".lstrip(": ")
            yield Finding(f"kvantage[{extra}]", "missing", said, f"pip install 'kvantage[{extra}]'")
        else:
            yield Finding(f"kvantage[{extra}]", "ok", USES.get(extra, "installed"))


USES = {
    "ssh": "servers on other machines",
    "frames": "`kvantage export`, tables in Python",
    "llamacpp": "a llama-server, and the writer of its files",
    "ray": "load from many machines",
    "nvml": "clocks, power and heat of NVIDIA devices",
}


def needs() -> list[tuple[str, str, str | None]]:
    """(package, least version, extra) as kvantage's own metadata says; development's are left out."""
    found = []
    for text in importlib.metadata.requires("kvantage") or ():
        match = _NEED.match(text)
        if match and match[3] not in ("dev", "docs") and match[1] != "kvantage":
            found.append((match[1], match[2] or "0", match[3]))
    return found


def version_of(name: str) -> str | None:
    """The installed version of a package, None where it is not installed."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def older(version: str, least: str) -> bool:
    """Whether a version is below another, by the numbers that they begin with."""
    return _numbers(version) < _numbers(least)


def _numbers(version: str) -> tuple[int, ...]:
    found = re.match(r"\d+(?:\.\d+)*", version)
    numbers = [int(part) for part in found[0].split(".")] if found else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def _engines() -> Iterator[Finding]:
    for one in installed():
        if one.version is None:
            yield Finding(one.engine, "missing", one.doubt or "not found", one.todo)
        else:
            said = ", ".join(part for part in (one.version, one.where) if part)
            yield Finding(one.engine, "note" if one.doubt else "ok", said, one.doubt)


def _machine(folder: Path) -> Iterator[Finding]:
    facts = LocalHost().facts()
    memory = facts.memory_bytes / GIB
    amx = ", AMX" if facts.amx else ""
    yield Finding("machine", "ok", f"{facts.cpu}, {facts.cores} cores, {memory:.0f} GiB{amx}")
    devices = facts.details.get("devices")
    if devices:
        driver = facts.details.get("nvidia_driver")
        named = ", ".join(f"{one.get('name')} ({one.get('memory')})" for one in devices)
        yield Finding("accelerators", "ok", f"{named}; driver {driver}")
    else:
        yield Finding(
            "accelerators", "missing", "nvidia-smi is not here, or tells of no device",
            "without one, `kvantage quickstart` runs on the processor; or name `hosts` in the study",
        )  # fmt: skip
    place = next((one for one in (folder, *folder.absolute().parents) if one.is_dir()), Path("/"))
    free = shutil.disk_usage(place).free
    low = free < LEAST_DISK
    yield Finding(
        "disk", "fault" if low else "ok", f"{free / GIB:,.0f} GiB free for results in {folder}",
        "free some space, or name another place by --out" if low else None,
    )  # fmt: skip
    if not os.access(place, os.W_OK):
        yield Finding("results", "fault", f"{place} cannot be written", "name another place by --out")


def _client() -> Iterator[Finding]:
    known = load_stored()
    if known is None:
        yield Finding(
            "client", "note", "its own error on this machine was not measured yet",
            "kvantage calibrate (two minutes, on a quiet machine); `run` does a ten-second one",
        )  # fmt: skip
        return
    quick = " (a quick look)" if known.quick else ""
    top = known.highest_exact
    if top is None:
        yield Finding(
            "client", "note", f"measured {known.taken_at}{quick}: the machine was too busy to time anything",
            "kvantage calibrate, on a quiet machine",
        )  # fmt: skip
    else:
        yield Finding(
            "client", "ok", f"exact up to {top.streams:,} streams, measured {known.taken_at}{quick}"
        )
