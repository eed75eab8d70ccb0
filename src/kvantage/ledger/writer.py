"""One thread owns the writing connection. What is submitted is done in order; a batch is one commit."""

from __future__ import annotations

import contextlib
import queue
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from kvantage.core import LedgerError

Work = Callable[[sqlite3.Connection], Any]
_STOP = None


class Writer:
    """Runs submitted work on one SQLite connection, in one thread.

    A submission's future resolves when its transaction is committed, so 'done' means 'on disk'.
    After a failed commit nothing more is taken: every later call raises the same LedgerError.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._queue: queue.SimpleQueue[tuple[Work, Future[Any]] | None] = queue.SimpleQueue()
        self._failure: LedgerError | None = None
        self._thread = threading.Thread(target=self._run, name="ledger-writer", daemon=True)
        self._thread.start()

    def submit(self, work: Work) -> Future[Any]:
        """Queue `work`; never blocks. Raises LedgerError when an earlier write failed."""
        if self._failure is not None:
            raise self._failure
        future: Future[Any] = Future()
        self._queue.put((work, future))
        return future

    def do(self, work: Work) -> Any:
        """Submit and wait for the commit."""
        return self.submit(work).result()

    def close(self) -> None:
        """Finish what is queued and close. Raises LedgerError when a write had failed."""
        if self._thread.is_alive():
            self._queue.put(_STOP)
            self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        connection = connect(self._path)
        try:
            while (batch := self._batch()) is not None:
                if self._failure is None:
                    self._commit(connection, batch)
                else:
                    self._refuse(batch, self._failure)
        finally:
            connection.close()

    def _batch(self) -> list[tuple[Work, Future[Any]]] | None:
        first = self._queue.get()
        if first is _STOP:
            return None
        batch = [first]
        while len(batch) < 256:
            try:
                following = self._queue.get_nowait()
            except queue.Empty:
                break
            if following is _STOP:
                self._queue.put(_STOP)
                break
            batch.append(following)
        return batch

    def _commit(self, connection: sqlite3.Connection, batch: list[tuple[Work, Future[Any]]]) -> None:
        try:
            connection.execute("BEGIN IMMEDIATE")
            results = [work(connection) for work, _ in batch]
            connection.execute("COMMIT")
        except (sqlite3.Error, OSError) as error:
            with contextlib.suppress(sqlite3.Error):  # the failed statement may have ended it already
                connection.execute("ROLLBACK")
            self._failure = storage_error(self._path, error)
            self._refuse(batch, self._failure)
        else:
            for (_, future), result in zip(batch, results, strict=True):
                future.set_result(result)

    @staticmethod
    def _refuse(batch: list[tuple[Work, Future[Any]]], error: LedgerError) -> None:
        for _, future in batch:
            future.set_exception(error)


def connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """A connection in autocommit mode; WAL and full sync, so that a committed request survives."""
    uri = f"file:{path.as_posix().replace('%', '%25').replace('?', '%3f').replace('#', '%23')}"
    connection = sqlite3.connect(
        f"{uri}?mode=ro" if read_only else uri, uri=True, isolation_level=None, timeout=30
    )
    if not read_only:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA foreign_keys=ON")
    return connection


def storage_error(path: Path, error: Exception) -> LedgerError:
    """What a failed write or read means for the person."""
    text = str(error)
    if "full" in text or "No space" in text:
        return LedgerError(
            "the disk is full",
            where=str(path),
            hint="what is finished is kept: free some space, then run the same command with --resume",
        )
    return LedgerError(f"the ledger could not be used: {text}", where=str(path), hint="see docs/ledger.md")
