"""A server's log from where it is: files, or commands that follow, streamed into the boot's own log file."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kvantage.hosts.local import LocalHost
from kvantage.hosts.process import LocalProcess

BETWEEN_LOOKS_S = 0.25
BETWEEN_TRIES_S = 1.0
LAST_WORDS_S = 0.3
"""What a command gets to hand on what it has read, before it is ended."""
MARK_BYTES = 64
KEPT_BYTES = 32 * 2**20
"""Of a file that was there before: more of its end than any boot has been seen to print."""


class Followers:
    """Streams into `log_path` until it is stopped. A command that fails is tried again every second.

    sources     a path (`./server.log`), or any other text as a command for sh
    from_start  of a file, what it holds already too; else only what is added from now on
    """

    def __init__(
        self, host: LocalHost, sources: Sequence[str], log_path: Path, cwd: Path | None, *, from_start: bool
    ) -> None:
        self._host = host
        self._log_path = log_path
        self._cwd = cwd
        files = [(cwd or Path()) / Path(source).expanduser() for source in sources if is_file(source)]
        self._tails = [_Tail.of(path, log_path, from_start) for path in files]
        self._commands = [source for source in sources if not is_file(source)]
        self._tasks: list[asyncio.Task[None]] = []
        self._running: list[LocalProcess] = []

    def start(self) -> None:
        """Begin to follow."""
        self._tasks = [asyncio.create_task(self._follow(command)) for command in self._commands]
        if self._tails:
            self._tasks.append(asyncio.create_task(self._read_on()))

    def catch_up(self) -> None:
        """Read what the files hold by now."""
        for tail in self._tails:
            tail.read_on()

    async def stop(self) -> None:
        """End them all, with what was written until now; safe to call again."""
        if self._running:
            await asyncio.sleep(LAST_WORDS_S)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        running, self._running = self._running, []
        await asyncio.gather(*(process.stop(1.0) for process in running))
        self.catch_up()
        self._tails = []

    async def _read_on(self) -> None:
        while True:
            for tail in self._tails:
                await asyncio.to_thread(tail.read_on)
            await asyncio.sleep(BETWEEN_LOOKS_S)

    async def _follow(self, command: str) -> None:
        while True:
            process = await self._host.start(("/bin/sh", "-c", command), {}, self._log_path, self._cwd)
            self._running.append(process)
            while process.exit_code() is None:  # noqa: ASYNC110
                await asyncio.sleep(BETWEEN_LOOKS_S)
            self._running.remove(process)
            if await process.stop(0.0) == 0:
                return
            await asyncio.sleep(BETWEEN_TRIES_S)


@dataclass
class _Tail:
    """A file and how far it was read. One that was cut, or put in another's place, is read from its start.

    `mark` is what stood just before `offset`: a file that was cut and grew again is told by it.
    """

    path: Path
    log_path: Path
    offset: int = 0
    mark: bytes = b""
    reading: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def of(cls, path: Path, log_path: Path, from_start: bool) -> _Tail:
        made = cls(path, log_path)
        try:
            size = path.stat().st_size
            made.offset = max(0, size - KEPT_BYTES) if from_start else size
            with path.open("rb") as file:
                file.seek(max(0, made.offset - MARK_BYTES))
                made.mark = file.read(made.offset - file.tell())
        except OSError:
            return cls(path, log_path)
        return made

    def read_on(self) -> None:
        """Append to the log what came since; nothing while there is no such file."""
        with self.reading:
            self._read_on()

    def _read_on(self) -> None:
        try:
            with self.path.open("rb") as file:
                file.seek(self.offset - len(self.mark))
                held, read = file.read(len(self.mark)), file.read()
                if held != self.mark:
                    file.seek(0)
                    self.offset, self.mark, read = 0, b"", file.read()
        except OSError:
            return
        if read:
            self.offset += len(read)
            self.mark = (self.mark + read)[-MARK_BYTES:]
            with self.log_path.open("ab") as log:
                log.write(read)


def is_file(source: str) -> bool:
    """True for a path; a path with a space in it, or a bare word, is a command."""
    return source.startswith(("./", "../", "/", "~/")) and len(source.split()) == 1
