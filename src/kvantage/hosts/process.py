"""A server that was started here, behind its guard."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from pathlib import Path

import psutil

from kvantage.hosts.logfile import lines_from, whole_bytes

MARK = "KVANTAGE_BOOT"
"""Set in the environment of everything that comes of one boot, so that a stray can be told by it."""

_LAST_WORDS_S = 10.0
"""What the guard may need after the grace has passed: two rounds of signals, and a slow kernel."""


class LocalProcess:
    """A `ServerProcess` of this machine. `pid` is the server's guard, which ends as the server ends."""

    def __init__(self, guard: subprocess.Popen[bytes], lifeline: int, log_path: Path, mark: str) -> None:
        self._guard = guard
        self._lifeline: int | None = lifeline
        self._log_path = log_path
        self._mark = mark
        self.started_at = time.time()

    @property
    def pid(self) -> int:
        return self._guard.pid

    @property
    def log_path(self) -> Path:
        return self._log_path

    def exit_code(self) -> int | None:
        """The exit status, negative for a signal, or None while it runs."""
        return self._guard.poll()

    def log_lines(self, start: int = 0) -> list[str]:
        """What it has printed so far, from byte `start` on; nothing when the log cannot be read."""
        return lines_from(self._log_path, start)

    def log_size(self) -> int:
        """Bytes of its log up to the end of the last whole line."""
        return whole_bytes(self._log_path)

    def descendants(self) -> list[int]:
        """Living processes of this boot, its guard left out, whatever session or parent they have now."""
        return [pid for pid in strays(self._mark, self._guard.pid) if pid != self._guard.pid]

    async def stop(self, grace_s: float = 20.0) -> int:
        """TERM to the whole group, KILL after `grace_s`; returns the exit status. Leaves no orphan.

        Safe to call again, and on a server that has ended.
        """
        if self._guard.poll() is None:
            self._guard.send_signal(signal.SIGTERM)
            await self._ended(grace_s)
        if self._guard.poll() is None:
            self._kill_strays()
            await self._ended(_LAST_WORDS_S)
        if self._guard.poll() is None:
            self._guard.kill()
        self._kill_strays()
        self._close()
        return await asyncio.to_thread(self._guard.wait)

    async def _ended(self, within_s: float) -> None:
        until = time.monotonic() + within_s
        while self._guard.poll() is None and time.monotonic() < until:  # noqa: ASYNC110
            await asyncio.sleep(0.05)

    def _kill_strays(self) -> None:
        for pid in self.descendants():
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue

    def _close(self) -> None:
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None


def strays(mark: str, guard: int) -> list[int]:
    """Pids of living processes of one boot.

    A process belongs to it when its environment carries the boot's mark, when it is in the guard's process
    group, or when it descends from one that is or does: a server that renames its processes overwrites
    the environment that the system shows.
    """
    ours: set[int] = set()
    parents: dict[int, int] = {}
    for process in psutil.process_iter():
        try:
            if process.status() == psutil.STATUS_ZOMBIE:
                continue
            parents[process.pid] = process.ppid()
            if os.getpgid(process.pid) == guard or process.environ().get(MARK) == mark:
                ours.add(process.pid)
        except (psutil.Error, OSError):
            continue
    while grown := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= grown
    return sorted(ours)
