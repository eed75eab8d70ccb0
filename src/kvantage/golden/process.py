"""The golden server in a process of its own, so that client and server do not share an interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from types import TracebackType

from kvantage.core import UsageError


class GoldenProcess:
    """Runs `python -m kvantage.golden` while the block is open; it ends with this process, however that ends.

        with GoldenProcess("--step-ms", "20", cpus={1}) as golden:
            golden.url

    `cpus` pins it. Raises UsageError with the server's own words when it does not start.
    """

    def __init__(self, *flags: str, cpus: set[int] | None = None) -> None:
        self.flags: Sequence[str] = flags
        self.cpus = cpus
        self.url = ""

    @property
    def pid(self) -> int:
        """The server's process id."""
        return self._process.pid

    def __enter__(self) -> GoldenProcess:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "kvantage.golden", "--while-stdin", *self.flags],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        if self.cpus:
            os.sched_setaffinity(self._process.pid, self.cpus)
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().decode().strip()
        if not self.url.startswith("http"):
            _, words = self._process.communicate()
            raise UsageError(f"the golden server did not start: {words.decode(errors='replace').strip()}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        try:
            self._process.communicate(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
