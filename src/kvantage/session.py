"""What surrounds a run, whoever starts it: its ledger, the client's calibration, its place in the queue."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from kvantage.calibrate import ensure, load_stored
from kvantage.client import Senders
from kvantage.core import LedgerError
from kvantage.ledger import FILE, Ledger

AHEAD = -10


def open_ledger(folder: Path, resume: bool) -> Ledger:
    """A new ledger in `folder`, or the one that is there, to go on with. Raises LedgerError."""
    if resume and (folder / FILE).exists():
        return Ledger.resume(folder)
    try:
        return Ledger.create(folder)
    except OSError as error:
        raise LedgerError(
            f"cannot be written: {error.strerror}", where=str(error.filename or folder)
        ) from error


@contextlib.contextmanager
def calibrated(ledger: Ledger, say: Callable[[str], object]) -> Iterator[None]:
    """Write down how exact this machine's client is; measured in ten seconds where it is not known yet."""
    if load_stored() is None:
        say("measuring the client's own error for ten seconds (`kvantage calibrate` does it in full) ...")
    try:
        ledger.event("calibration", **asyncio.run(ensure()).to_json())
    except OSError as error:
        ledger.event("calibration", missing=f"it could not be measured: {error}")
    yield


def senders(workers: int | None = None, load: str | None = None) -> Senders:
    """The processes that send: so many workers, or as many as this machine's calibration asks for.

    `load` is the address of a Ray cluster that sends instead. Raises UsageError.
    """
    if load is not None:
        from kvantage.client.actors import RaySenders

        return RaySenders(load, workers)
    if workers is not None:
        return Senders(workers)
    known = load_stored()
    return Senders(needed=None if known is None else known.workers)


@contextlib.contextmanager
def ahead() -> Iterator[None]:
    """Let this process, which does little and must be on time, run ahead of the server where that is allowed.

    It takes a right that root has (or CAP_SYS_NICE). Servers are started at the usual priority all the same,
    and afterwards the process is back where it was.
    What is loaded by now is taken out of the garbage collector's sight meanwhile: to walk all of it takes
    60 ms, in which no stream is stamped and no request leaves.
    """
    gc.collect()
    gc.freeze()
    usual = os.getpriority(os.PRIO_PROCESS, 0)
    try:
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, min(AHEAD, usual))
        yield
    finally:
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, usual)
        gc.unfreeze()
