"""What `run` and `quickstart` share: open the ledger, run, say what came of it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import click

from kvantage.calibrate import ensure, load_stored
from kvantage.cli.live import LiveView
from kvantage.cli.plain import PlainView
from kvantage.cli.show import write_and_show
from kvantage.core import ExitCode, LedgerError
from kvantage.ledger import FILE, Ledger
from kvantage.runner import Outcome, Prepared, Stopping, run_study


def measure(prepared: Prepared, folder: Path, *, resume: bool, plain: bool) -> int:
    """Run a prepared study into `folder` and report; returns the exit code."""
    ledger = _open(folder, resume)
    _go_ahead()
    interrupted = False
    outcome: Outcome | None = None
    with ledger, _calibrated(ledger), _view(prepared, plain) as view:
        try:
            outcome = asyncio.run(_until_told(lambda stop: run_study(prepared, ledger, view, stop)))
        except (asyncio.CancelledError, KeyboardInterrupt):
            interrupted = True
    if interrupted:
        click.echo("stopped: no server is left running, and what was finished is kept.", err=True)
    _report(folder)
    if interrupted:
        click.echo("Go on by the same command with --resume.", err=True)
        return int(ExitCode.INTERRUPTED)
    assert outcome is not None
    return _code(outcome)


AHEAD = -10


def _go_ahead() -> None:
    """Let this process, which does little and must be on time, run ahead of the server where that is allowed.

    It takes a right that root has (or CAP_SYS_NICE). Servers are started at the usual priority all the same.
    """
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, min(AHEAD, os.getpriority(os.PRIO_PROCESS, 0)))


@contextlib.contextmanager
def _calibrated(ledger: Ledger) -> Iterator[None]:
    """Write down how exact this machine's client is; measured in ten seconds where it is not known yet."""
    if load_stored() is None:
        click.echo(
            "measuring the client's own error for ten seconds (`kvantage calibrate` does it in full) ..."
        )
    try:
        ledger.event("calibration", **asyncio.run(ensure()).to_json())
    except OSError as error:
        ledger.event("calibration", missing=f"it could not be measured: {error}")
    yield


def _open(folder: Path, resume: bool) -> Ledger:
    if resume and (folder / FILE).exists():
        return Ledger.resume(folder)
    try:
        return Ledger.create(folder)
    except OSError as error:
        raise LedgerError(
            f"cannot be written: {error.strerror}", where=str(error.filename or folder)
        ) from error


def _view(prepared: Prepared, plain: bool) -> LiveView | PlainView:
    if plain or not sys.stdout.isatty():
        return PlainView()
    from rich.console import Console

    return LiveView(f"kvantage: {prepared.study.name}", Console())


async def _until_told(work: Callable[[Stopping], Coroutine[Any, Any, Outcome]]) -> Outcome:
    """Run until done; the first Ctrl-C ends the servers with grace, the second at once."""
    stopping = Stopping(asyncio.Event())
    loop = asyncio.get_running_loop()
    task: asyncio.Task[Outcome] = asyncio.create_task(work(stopping))
    told = 0

    def tell() -> None:
        nonlocal told
        told += 1
        if told == 1:
            click.echo("\nstopping: the server is being ended (once more to end it at once) ...", err=True)
            task.cancel()
        else:
            stopping.at_once.set()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, tell)
    try:
        return await task
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.remove_signal_handler(number)


def _report(folder: Path) -> None:
    try:
        write_and_show(folder)
    except LedgerError as error:
        # broken off before anything was written down: the run itself has said why
        click.echo(f"no report: {error}", err=True)


def _code(outcome: Outcome) -> int:
    for arm, why in outcome.failed.items():
        click.echo(f"arm {arm} was not measured: {why}", err=True)
    if not outcome.failed:
        return int(ExitCode.OK)
    if outcome.measured or outcome.kept:
        return int(ExitCode.PARTIAL)
    return int(ExitCode.NOTHING_MEASURED)
