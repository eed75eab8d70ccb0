"""A run's events in a file beside its ledger, so that `kvantage watch` shows what the run itself shows.

A line an event, `{"at": unix seconds, "kind": ..., "fields": {...}}`; the first is `begin`, the last `end`.
It is a view, not a record: the ledger alone holds what was measured.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, TextIO

from kvantage.cli.board import Told
from kvantage.core import ExitCode

FEED = "progress.jsonl"


class View(Protocol):
    """What shows a run: it takes events, and is entered for as long as it is shown."""

    def __enter__(self) -> View: ...

    def __exit__(self, *problem: Any) -> None: ...

    def take(self, told: Told) -> None:
        """Take note of one event."""
        ...


class Feed:
    """Hands each event to a view, and writes it down. What cannot be written is left out: a full disk is
    the ledger's to report.
    """

    def __init__(self, view: View, folder: Path, title: str) -> None:
        self._view = view
        self._title = title
        self._file: TextIO | None = None
        with contextlib.suppress(
            OSError
        ):  # at once, so that an earlier run's end is not taken for this one's
            self._file = (folder / FEED).open("w", encoding="utf-8")

    def __enter__(self) -> Feed:
        self._view.__enter__()
        self.on("begin", title=self._title, pid=os.getpid())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.on("end", code=int(getattr(error, "exit_code", ExitCode.BUG)), error=str(error))
        self._view.__exit__(kind, error, trace)
        self._close()

    def _close(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None

    def on(self, kind: str, **fields: Any) -> None:
        """Take note of one event."""
        told = Told(kind, fields)
        if self._file is not None:
            try:
                self._file.write(
                    json.dumps({"at": told.at, "kind": kind, "fields": fields}, default=str) + "\n"
                )
                self._file.flush()
            except OSError:
                self._close()
        self._view.take(told)


class Follower:
    """Reads a feed as it grows."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FEED
        self._file: TextIO | None = None
        self._rest = ""

    def __enter__(self) -> Follower:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def new(self) -> Iterator[Told]:
        """The events since the last look. A feed that was begun anew is read from its beginning."""
        if self._file is None:
            try:
                self._file = self._path.open(encoding="utf-8", errors="replace")
            except OSError:
                return
        if os.fstat(self._file.fileno()).st_size < self._file.tell():
            self._file.seek(0)
            self._rest = ""
        text = self._rest + self._file.read()
        *lines, self._rest = text.split("\n")
        for line in lines:
            if told := _parsed(line):
                yield told


def _parsed(line: str) -> Told | None:
    try:
        data = json.loads(line)
        return Told(str(data["kind"]), dict(data["fields"]), float(data["at"]))
    except (ValueError, KeyError, TypeError):
        return None  # a line that was cut off by a crash
