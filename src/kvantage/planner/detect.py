"""Which hardware file describes a machine that was looked at."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from kvantage.core import HostFacts
from kvantage.planner.machine import Figure, Machine, read_machine
from kvantage.planner.memory import GIB

DEVICES = {
    r"\bGB10\b": "gb10",
    r"\bB200\b": "b200",
    r"\bH200\b": "h200",
    r"\bH100\b": "h100",
    r"RTX (?:PRO )?6000": "rtx-6000",
}
"""Device names as the driver tells them, and the file that describes each."""

PAIRED = {"gb10": "two-gb10"}
"""Files of two machines that serve one model together."""


@dataclass(frozen=True)
class Recognised:
    """The machine as the planner sees it, or why it does not; `words` name it and where figures come from."""

    machine: Machine | None
    words: str


def recognise(host: HostFacts, nodes: int = 1) -> Recognised:
    """The hardware file that fits, with the machine's own memory put in; `nodes` serve a model together."""
    devices = host.details.get("devices")
    if not devices:
        return _processor(host)
    first = devices[0] if isinstance(devices, list | tuple) and isinstance(devices[0], Mapping) else {}
    told = str(first.get("name", "an unknown device"))
    known = next((name for pattern, name in DEVICES.items() if re.search(pattern, told, re.I)), None)
    if known is None:
        return Recognised(
            None, f"no hardware file describes {told}: give one of that form by --hardware FILE to `plan`"
        )
    if nodes > 1:
        if nodes != 2 or known not in PAIRED:
            return Recognised(None, f"no hardware file describes {nodes} machines with {told} and their link")
        known = PAIRED[known]
    machine = read_machine(known)
    words = f"{machine.title}, by the shipped file `{known}`; memory as the driver tells it"
    return Recognised(_with_memory(machine, first), words)


def _processor(host: HostFacts) -> Recognised:
    """A processor: nothing is timed here, so bandwidth is the generic file's, with its range."""
    machine = read_machine("cpu")
    total = host.memory_bytes / GIB
    free = Figure(
        max(0.5, total - 4), max(0.25, total - 8), max(0.75, total - 1), "less what the system holds"
    )
    figures = {
        **machine.figures,
        "memory_gib": Figure(total, total, total, "as the system tells it"),
        "free_gib": free,
    }
    return Recognised(
        replace(machine, figures=figures),
        f"{host.cpu}, {host.cores} cores, by the generic file `cpu` (its bandwidth and compute are not this "
        "machine's own: estimates with a wide range)",
    )


def _with_memory(machine: Machine, device: Mapping[str, Any]) -> Machine:
    """The device's own memory in place of the file's, where the driver tells it in MiB."""
    found = re.match(r"([\d.]+) MiB", str(device.get("memory", "")))
    if found is None:
        return machine
    total = float(found[1]) / 1024
    known = machine.figures["memory_gib"].value
    free = machine.figures["free_gib"]
    figures = {
        **machine.figures,
        "memory_gib": Figure(total, total, total, "as the driver tells it"),
        "free_gib": Figure(
            free.value + total - known, free.low + total - known, free.high + total - known, free.source
        ),
    }
    return replace(machine, figures=figures)


def key_of(host: HostFacts) -> str:
    """One kind of machine in a word: runs with the same key are of the same hardware."""
    devices = host.details.get("devices") or ()
    names = [str(one.get("name", "?")) for one in devices if isinstance(one, Mapping)]
    return " + ".join([f"{host.cpu} x {host.cores}", *names])
