"""NVIDIA's devices of this machine through NVML, the driver's own library."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from typing import Any

from kvantage.core.telemetry import Sample, WatchedDevice


class Nvml:
    """All devices of this machine. `open` it, `look` as often as wished, `close` it."""

    def __init__(self, host: str, library: Any) -> None:
        self._host = host
        self._library = library
        self._handles: list[Any] = []
        self.devices: tuple[WatchedDevice, ...] = ()

    @classmethod
    def open(cls, host: str) -> Nvml | str:
        """The devices, or why there are none in a few words."""
        try:
            library = importlib.import_module("pynvml")
        except ImportError:
            return "nvidia-ml-py is not installed"
        try:
            library.nvmlInit()
        except library.NVMLError as error:
            return f"no NVML ({error})"
        made = cls(host, library)
        try:
            made._find()
        except library.NVMLError as error:
            made.close()
            return f"NVML lists no device ({error})"
        if not made.devices:
            made.close()
            return "NVML lists no device"
        return made

    def look(self) -> list[Sample]:
        """One sample a device, now. A field that cannot be read this time is None."""
        at = time.monotonic_ns()
        samples = []
        for place, handle in enumerate(self._handles):
            told = {field: self._ask(ask, handle) for field, ask in self._asks().items()}
            known = {field: value for field, value in told.items() if not isinstance(value, str)}
            samples.append(Sample(at, self._host, str(place), **known))
        return samples

    def close(self) -> None:
        """Let the library go; safe where it is gone already."""
        self._handles = []
        try:
            self._library.nvmlShutdown()
        except self._library.NVMLError:
            return

    def _find(self) -> None:
        library = self._library
        self._handles = [library.nvmlDeviceGetHandleByIndex(i) for i in range(library.nvmlDeviceGetCount())]
        found = []
        for place, handle in enumerate(self._handles):
            name = self._ask(library.nvmlDeviceGetName, handle)
            told = {field: self._ask(ask, handle) for field, ask in self._asks().items()}
            missing = {field: value for field, value in told.items() if isinstance(value, str)}
            text = name.decode() if isinstance(name, bytes) else str(name)
            found.append(WatchedDevice(str(place), text, missing))
        self.devices = tuple(found)

    def _asks(self) -> dict[str, Callable[[Any], Any]]:
        library = self._library
        reasons = getattr(library, "nvmlDeviceGetCurrentClocksEventReasons", None)
        reasons = reasons or library.nvmlDeviceGetCurrentClocksThrottleReasons  # before driver 535
        return {
            "sm_mhz": lambda handle: float(library.nvmlDeviceGetClockInfo(handle, library.NVML_CLOCK_SM)),
            "power_w": lambda handle: library.nvmlDeviceGetPowerUsage(handle) / 1000,
            "temperature_c": lambda handle: float(
                library.nvmlDeviceGetTemperature(handle, library.NVML_TEMPERATURE_GPU)
            ),
            "reasons": lambda handle: int(reasons(handle)),
            "memory_used_bytes": lambda handle: int(library.nvmlDeviceGetMemoryInfo(handle).used),
        }

    def _ask(self, ask: Callable[[Any], Any], handle: Any) -> Any:
        """What the library answers, or why it does not as text."""
        try:
            return ask(handle)
        except self._library.NVMLError as error:
            return f"NVML: {error}"
