"""Where a server runs: something that starts, watches and stops a process, and knows its hardware."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class HostFacts:
    """The machine under a server. `details` is free-form provenance (kernel, driver, devices)."""

    name: str
    cpu: str
    cores: int
    memory_bytes: int
    cpu_flags: frozenset[str] = frozenset()
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def amx(self) -> bool:
        """True on processors with AMX tiles."""
        return "amx_tile" in self.cpu_flags


class ServerProcess(Protocol):
    """A started server. It never outlives kvantage, however kvantage ends."""

    @property
    def pid(self) -> int: ...

    @property
    def log_path(self) -> Path: ...

    def exit_code(self) -> int | None:
        """The exit status, negative for a signal, or None while it runs."""
        ...

    def log_lines(self, start: int = 0) -> list[str]:
        """What it has printed so far, from byte `start` of its log on; the last line may not be whole."""
        ...

    def log_size(self) -> int:
        """Bytes of its log up to the end of the last whole line."""
        ...

    async def stop(self, grace_s: float = 20.0) -> int:
        """TERM to the whole group, KILL after `grace_s`; returns the exit status. Leaves no orphan."""
        ...


class Host(Protocol):
    """Starts servers."""

    def facts(self) -> HostFacts: ...

    async def start(
        self, argv: Sequence[str], env: Mapping[str, str], log_path: Path, cwd: Path | None = None
    ) -> ServerProcess:
        """Start `argv` with `env` added to the environment, its output appended to `log_path`.

        Raises ArmFailed when it cannot be started at all.
        """
        ...

    def free_port(self) -> int:
        """A loopback port that nothing listens on."""
        ...
