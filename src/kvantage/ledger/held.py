"""Whether a run is at work on a folder, and which chains it holds whole: asked without disturbing it."""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
from pathlib import Path

from kvantage.core import ArmSettings
from kvantage.ledger import codec
from kvantage.ledger.opening import FILE, LOCK, check_version
from kvantage.ledger.writer import connect, storage_error


def at_work(folder: Path) -> bool:
    """True while some process measures into `folder`. The look holds nothing: it is over at once."""
    try:
        descriptor = os.open(folder / LOCK, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def whole_chains(folder: Path) -> tuple[tuple[str, int, str], ...]:
    """(arm, block, chain) of every chain of the study in force that was measured whole.

    Empty where there is no study yet. Raises LedgerError where the ledger cannot be read.
    """
    path = folder / FILE
    if not path.is_file():
        return ()
    check_version(path)
    db = connect(path, read_only=True)
    try:
        head = db.execute("SELECT arms, phases FROM studies ORDER BY id DESC LIMIT 1").fetchone()
        if head is None:
            return ()
        arms = [codec.load(ArmSettings, json.dumps(arm)) for arm in json.loads(head[0])]
        names = {arm.fingerprint(): arm.name for arm in arms}
        order = {arm.name: place for place, arm in enumerate(arms)}
        wanted = set(json.loads(head[1]).values())
        rows = db.execute(
            "SELECT fingerprint, block, name, phase_fingerprint FROM chains WHERE status = 'complete'"
            " ORDER BY block, id"
        ).fetchall()
    except sqlite3.Error as error:
        raise storage_error(path, error) from error
    finally:
        db.close()
    found = dict.fromkeys(
        (names[print_], block, name)
        for print_, block, name, phase in rows
        if print_ in names and phase in wanted
    )
    return tuple(sorted(found, key=lambda one: (one[1], order[one[0]])))
