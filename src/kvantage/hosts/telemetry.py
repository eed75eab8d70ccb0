"""A look a second at the machines under a server: clocks, power, heat and memory of devices; load and memory.

Devices come from NVML on this machine and from nvidia-smi over ssh; where there are none, the machine's own
processor is looked at and the absence said. What a device or machine does not tell is None, with the reason.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from kvantage.core import ArmFailed
from kvantage.core.telemetry import Sample, WatchedDevice, WatchedHost
from kvantage.hosts import remote_watch
from kvantage.hosts.nvml import Nvml
from kvantage.hosts.remote_watch import fastest_mhz, text_of

if TYPE_CHECKING:
    from kvantage.hosts.ssh import SshHost

PERIOD_S = 1.0
FIRST_WORDS_S = 10.0
"""What a machine gets to say its first lines over ssh."""

Take = Callable[[Sequence[Sample]], None]
"""What samples are handed to as they come, on a thread that is not the caller's."""

UNSEEN = {
    "load": "the system tells no load average",
    "memory_available_bytes": "the system tells no available memory",
    "cpu_mhz": "the system tells no processor clock",
}


class Watch(Protocol):
    """Looks at one machine from `start` to `stop`."""

    async def start(self, take: Take) -> WatchedHost:
        """Begin; returns what is looked at, and why anything is missing: an absence raises nothing."""
        ...

    async def stop(self) -> None:
        """End; safe to call again."""
        ...


class LocalWatch:
    """This machine, looked at from a thread of its own."""

    def __init__(self, host: str, period_s: float = PERIOD_S) -> None:
        self._host = host
        self._period_s = period_s
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    async def start(self, take: Take) -> WatchedHost:
        found = await asyncio.to_thread(Nvml.open, self._host)
        nvml = found if isinstance(found, Nvml) else None
        asks_mhz = nvml is None
        unseen = {
            field: UNSEEN[field]
            for field, value in machine_now(asks_mhz=True).items()
            if value is None and (asks_mhz or field != "cpu_mhz")
        }
        self._over.clear()
        self._thread = threading.Thread(target=self._run, args=(take, nvml), name="telemetry", daemon=True)
        self._thread.start()
        devices = nvml.devices if nvml else ()
        return WatchedHost(self._host, devices, found if isinstance(found, str) else None, unseen)

    async def stop(self) -> None:
        self._over.set()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)
            self._thread = None

    def _run(self, take: Take, nvml: Nvml | None) -> None:
        due = time.monotonic()
        try:
            while True:
                samples = nvml.look() if nvml else []
                own = machine_now(asks_mhz=nvml is None)
                take([*samples, Sample(time.monotonic_ns(), self._host, **own)])
                due = max(due + self._period_s, time.monotonic())
                if self._over.wait(due - time.monotonic()):
                    return
        finally:
            if nvml:
                nvml.close()


class SshWatch:
    """Another machine: a small loop there says a line a second. Nothing is installed on it."""

    def __init__(self, host: SshHost, label: str) -> None:
        self._host = host
        self._label = label
        self._end: Callable[[], Any] | None = None

    async def start(self, take: Take) -> WatchedHost:
        name = self._label
        source = Path(remote_watch.__file__).read_text(encoding="utf-8")
        lines = Lines(name, take)
        command = f"exec {shlex.quote(self._host.node.python)} -I -S -c {shlex.quote(source)}"
        try:
            self._end = await self._host.follow(command, lines.read)
        except (ArmFailed, OSError) as error:
            return WatchedHost(name, missing=f"it could not be looked at over ssh: {error}")
        until = time.monotonic() + FIRST_WORDS_S
        while not lines.are_told and time.monotonic() < until:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        return lines.host()

    async def stop(self) -> None:
        end, self._end = self._end, None
        if end is not None:
            await end()


class Lines:
    """What `remote_watch` says, line by line, as samples; the first lines tell what is looked at."""

    def __init__(self, host: str, take: Take, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._host = host
        self._take = take
        self._clock = clock
        self._fields: list[str] = []
        self._devices: dict[str, WatchedDevice] = {}
        self._machine: Mapping[str, Any] | None = None
        self._missing: str | None = None

    @property
    def are_told(self) -> bool:
        """Whether the machine and its devices (or that there are none) were heard of."""
        return self._machine is not None and (self._missing is not None or bool(self._devices))

    def host(self) -> WatchedHost:
        """What is looked at, as far as was told."""
        machine = self._machine
        if machine is None and not self._devices:
            return WatchedHost(self._host, missing=self._missing or "it said nothing over ssh")
        unseen = {field: UNSEEN[field] for field, value in (machine or {}).items() if value is None}
        if self._devices:
            unseen.pop("cpu_mhz", None)
        return WatchedHost(self._host, tuple(self._devices.values()), self._missing, unseen)

    def read(self, line: str) -> None:
        """Take one line; what is not understood is passed over."""
        kind, _, rest = line.strip().partition(" ")
        at = self._clock()
        if kind == "none":
            self._missing = rest or "no nvidia-smi"
        elif kind == "fields":
            self._fields = rest.split(",")
        elif kind == "gpu" and self._fields:
            device = read_csv(self._fields, rest)
            if device is None:
                return
            number, name, known, missing = device
            self._devices.setdefault(number, WatchedDevice(number, name, missing))
            self._take([Sample(at, self._host, number, **known)])
        elif kind == "machine":
            told = read_machine(rest)
            if told is not None:
                self._machine = self._machine or told
                self._take([Sample(at, self._host, **told)])


_FIELDS: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "clocks.sm": ("sm_mhz", float),
    "power.draw": ("power_w", float),
    "temperature.gpu": ("temperature_c", float),
    "clocks_event_reasons.active": ("reasons", lambda text: int(text, 16)),
    "clocks_throttle_reasons.active": ("reasons", lambda text: int(text, 16)),
    "memory.used": ("memory_used_bytes", lambda text: int(text) * 2**20),
}
_NUMBER = re.compile(r"0x[0-9a-fA-F]{1,16}|[0-9]{1,9}(?:\.[0-9]{1,9})?", re.ASCII)


def read_csv(fields: Sequence[str], line: str) -> tuple[str, str, dict[str, Any], dict[str, str]] | None:
    """(index, name, known fields, fields not told with the reason) of one line of nvidia-smi's CSV.

    `[N/A]` and `[Not Supported]` are a device's own words for a field that it has not: a GB10 tells no memory
    of its own. None where the line is no device's (a warning, a line cut short).
    """
    cells = [cell.strip() for cell in line.split(",")]
    if len(cells) != len(fields):
        return None
    told = dict(zip(fields, cells, strict=True))
    index = told.get("index", "")
    if not index.isdigit():
        return None
    known: dict[str, Any] = {}
    missing: dict[str, str] = {}
    for field, (name, convert) in _FIELDS.items():
        if field not in told:
            continue
        text = told[field]
        try:
            known[name] = convert(text) if _NUMBER.fullmatch(text) else None
        except ValueError:
            known[name] = None
        if known[name] is None:
            del known[name]
            missing[name] = f"nvidia-smi: {text.strip('[]') or 'nothing'}"
    return index, told.get("name", ""), known, missing


def read_machine(text: str) -> dict[str, Any] | None:
    """load, memory_available_bytes and cpu_mhz of `LOAD AVAILABLE_KIB MHZ`; None where it is no such line."""
    parts = text.split()
    if len(parts) != 3:
        return None
    load, free, clock = (
        float(part) if _NUMBER.fullmatch(part) and "x" not in part else None for part in parts
    )
    return {
        "load": load,
        "memory_available_bytes": None if free is None else int(free) * 1024,
        "cpu_mhz": clock,
    }


def machine_now(*, asks_mhz: bool) -> dict[str, Any]:
    """Load average, available memory and, where asked, the clock of the fastest core of this machine."""
    line = text_of("/proc/meminfo")
    free = re.search(r"^MemAvailable:\s+([0-9]+) kB", line, re.MULTILINE)
    try:
        load: float | None = os.getloadavg()[0]
    except OSError:
        load = None
    clock = fastest_mhz() if asks_mhz else "-"
    return {
        "load": load,
        "memory_available_bytes": int(free[1]) * 1024 if free else None,
        "cpu_mhz": float(clock) if clock != "-" else None,
    }
