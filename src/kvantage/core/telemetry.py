"""What is seen of a machine while a server runs on it: a look a second at every device and at the machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MACHINE = ""
"""The `device` of a sample of the machine itself."""

REASONS: Mapping[int, str] = {
    0x2: "clocks set by hand",
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
}
"""NVML's bits for why a clock is held down, by what each means. Idle (0x1) and display (0x100) hold nothing
down that serves.
"""


@dataclass(frozen=True, slots=True)
class Sample:
    """One look at one device, or (`device` is MACHINE) at one machine. None is 'not told'.

    at_ns                    the client's monotonic clock
    sm_mhz                   clock of the streaming multiprocessors, MHz
    power_w                  power drawn by the device, W
    temperature_c            of the device, degrees Celsius
    reasons                  NVML's bits for why the clock is held down, see REASONS
    memory_used_bytes        of the device's memory
    cpu_mhz                  clock of the machine's fastest core, MHz
    load                     the machine's load average over one minute
    memory_available_bytes   what the machine could still give to a process, without swapping
    """

    at_ns: int
    host: str
    device: str = MACHINE
    sm_mhz: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    reasons: int | None = None
    memory_used_bytes: int | None = None
    cpu_mhz: float | None = None
    load: float | None = None
    memory_available_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class WatchedDevice:
    """A device that is looked at; `missing` gives, by a field of Sample, why it is not told."""

    device: str
    name: str
    missing: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WatchedHost:
    """A machine that is looked at; `missing` says why none of its devices is, or nothing at all.

    `unseen` gives, by a field of Sample, why the machine itself does not tell it.
    """

    host: str
    devices: tuple[WatchedDevice, ...] = ()
    missing: str | None = None
    unseen: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON; `from_json` reads it."""
        devices = [
            {"device": each.device, "name": each.name, "missing": dict(each.missing)} for each in self.devices
        ]
        return {"host": self.host, "devices": devices, "missing": self.missing, "unseen": dict(self.unseen)}

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> WatchedHost:
        """What `to_json` wrote."""
        devices = tuple(
            WatchedDevice(str(each["device"]), str(each["name"]), dict(each.get("missing", {})))
            for each in told.get("devices", ())
        )
        return cls(str(told["host"]), devices, told.get("missing"), dict(told.get("unseen", {})))
