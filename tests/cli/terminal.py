"""A program in a pseudo-terminal, and what a person would see of it."""

from __future__ import annotations

import errno
import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

import pyte

OTHER, BACK = b"\x1b[?1049h", b"\x1b[?1049l"
"""Leave for the terminal's other screen, and come back."""
KVANTAGE = (sys.executable, "-m", "kvantage.cli")


class Terminal:
    """Runs `argv` in a terminal of that size; `display()` is the screen as lines of text."""

    def __init__(
        self, argv: tuple[str, ...], columns: int, rows: int, cwd: Path, env: dict[str, str] | None = None
    ) -> None:
        self.screen = pyte.HistoryScreen(columns, rows, history=5000, ratio=0.5)
        self.stream = pyte.ByteStream(self.screen)
        self.written = b""
        self.code: int | None = None
        self.pid, self.descriptor = pty.fork()
        if self.pid == 0:  # the child: nothing of pytest's may run here
            try:
                os.chdir(cwd)
                plain = {name: text for name, text in os.environ.items() if name not in ("COLUMNS", "LINES")}
                os.execve(argv[0], argv, {**plain, "TERM": "xterm-256color", **(env or {})})
            finally:
                os._exit(127)
        self._size(columns, rows)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.code is None:
            os.kill(self.pid, signal.SIGTERM)
            self.until(lambda: self.code is not None, 20)
        if self.code is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.descriptor)

    def _size(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def resize(self, columns: int, rows: int) -> None:
        self._size(columns, rows)
        self.screen.resize(rows, columns)
        os.kill(self.pid, signal.SIGWINCH)

    def press(self, keys: bytes) -> None:
        os.write(self.descriptor, keys)

    def until(self, seen: Callable[[], bool], seconds: float = 60) -> bool:
        """Feed the screen until it is so, or the time is over; whether it became so."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if seen():
                return True
            self._feed(0.05)
        return seen()

    def shows(self, text: str, seconds: float = 60) -> bool:
        return self.until(lambda: any(text in line for line in self.display()), seconds)

    def ends(self, seconds: float = 90) -> int | None:
        self.until(lambda: self.code is not None, seconds)
        return self.code

    def display(self) -> list[str]:
        return [line.rstrip() for line in self.screen.display]

    def everything(self) -> str:
        """The screen with what has scrolled off its top."""
        above = [
            "".join(line[place].data for place in range(self.screen.columns)).rstrip()
            for line in self.screen.history.top
        ]
        return "\n".join([*above, *self.display()])

    def _show(self, data: bytes) -> None:
        """Pyte has one screen: what was drawn on the other one goes when a program comes back from it."""
        before, back, after = data.partition(BACK)
        self.stream.feed(before)
        if back:
            self.screen.reset()
            self.screen.history.top.clear()
            self.stream.feed(after)

    def _feed(self, seconds: float) -> None:
        ready, _, _ = select.select([self.descriptor], [], [], seconds)
        data = b""
        if ready:
            try:
                data = os.read(self.descriptor, 65536)
            except OSError as error:
                if error.errno != errno.EIO:  # the terminal's other side is closed
                    raise
        if data:
            self.written += data
            self._show(data)
        elif self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.code = os.waitstatus_to_exitcode(status)
