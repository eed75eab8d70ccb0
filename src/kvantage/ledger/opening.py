"""Opening a study's folder: who holds it, whether this kvantage reads it, what it lacks or left open."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from pathlib import Path

from kvantage.core import LedgerError
from kvantage.ledger.exactness import SCORES_TABLE
from kvantage.ledger.schema import LATER, VERSION
from kvantage.ledger.telemetry import TELEMETRY_TABLE
from kvantage.ledger.writer import connect

FILE = "ledger.sqlite"
LOCK = ".lock"
GLANCE_S = 0.1
"""More than somebody who only asks whether a run is at work holds the lock."""


def check_version(path: Path) -> None:
    """Raises LedgerError unless `path` is a ledger that this kvantage reads."""
    try:
        connection = connect(path, read_only=True)
        try:
            row = connection.execute("SELECT value FROM meta WHERE key = 'version'").fetchone()
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise LedgerError(f"not a kvantage ledger: {error}", where=str(path)) from error
    if row is None or row[0] != str(VERSION):
        found = row[0] if row else "none"
        raise LedgerError(
            f"the ledger has version {found}, this kvantage reads version {VERSION}",
            where=str(path),
            hint="measure anew in another folder, or use the kvantage that wrote it",
        )


def add_later_columns(db: sqlite3.Connection) -> None:
    """What a ledger that an older kvantage began does not hold yet."""
    db.execute(SCORES_TABLE)
    db.execute(TELEMETRY_TABLE)
    for table, columns in LATER.items():
        held = {row[1] for row in db.execute(f"PRAGMA table_info({table})")}
        for name, kind in columns.items():
            if name not in held:
                db.execute(f"ALTER TABLE {table} ADD COLUMN {name} {kind}")


def mark_broken(db: sqlite3.Connection) -> None:
    """Whatever a process that is gone left open."""
    db.execute(
        "UPDATE chains SET status = 'broken', reason = 'kvantage ended in the middle' WHERE status = 'open'"
    )
    db.execute(
        "UPDATE boots SET status = 'interrupted', reason = 'kvantage ended while it was being measured'"
        " WHERE status = 'running'"
    )


def take_lock(folder: Path) -> int:
    """A descriptor that holds the folder until it is closed. Raises LedgerError where another holds it."""
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            time.sleep(GLANCE_S)  # it may be a glance of `held.at_work`
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise LedgerError(
            "another kvantage is measuring into this folder",
            where=str(folder),
            hint="wait for it, or name another folder by --out",
        ) from error
    return descriptor
