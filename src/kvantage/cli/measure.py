"""What `run` and `quickstart` share: open the ledger, run, say what came of it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

import click

from kvantage.cli.feed import Feed, View
from kvantage.cli.foresight import keep_errors
from kvantage.cli.live import LiveView
from kvantage.cli.plain import PlainView
from kvantage.cli.show import write_and_show
from kvantage.client import Senders
from kvantage.core import ExitCode, LedgerError
from kvantage.ledger import whole_chains
from kvantage.runner import Outcome, Prepared, Stopping, run_study
from kvantage.session import ahead, calibrated, open_ledger, senders


def measure(
    prepared: Prepared, folder: Path, *, resume: bool, plain: bool, sending: Senders | None = None
) -> int:
    """Run a prepared study into `folder` and report; returns the exit code.

    `sending` are the processes that send; as few as are exact where left out.
    """

    async def work(stop: Stopping) -> Outcome:
        async with sending or senders() as who:
            return await run_study(prepared, ledger, feed, stop, who)

    ledger = open_ledger(folder, resume)
    title = f"kvantage: {prepared.study.name}"
    outcome: Outcome | None = None
    feed = Feed(view(title, folder, plain), folder, title)
    with ledger, ahead(), calibrated(ledger, click.echo), feed:
        try:
            outcome = asyncio.run(_until_told(work, feed))
        except (asyncio.CancelledError, KeyboardInterrupt):
            outcome = None
        code = int(ExitCode.INTERRUPTED) if outcome is None else _code(outcome)
        feed.on("end", code=code)
    if outcome is None:
        click.echo("stopped: no server is left running, and what was finished is kept.", err=True)
    _report(folder)
    if outcome is None:
        click.echo("Go on by the same command with --resume.", err=True)
        return code
    for arm, why in outcome.failed.items():
        click.echo(f"arm {arm} was not measured: {why}", err=True)
    return code


def view(title: str, folder: Path, plain: bool, began: float | None = None) -> View:
    """The live view, or plain lines where asked for, or where the output is no terminal that can be drawn on.

    `began` is when the run began, by the wall clock; now where left out.
    """
    if plain or not sys.stdout.isatty() or os.environ.get("TERM") in ("dumb", "unknown"):
        return PlainView(began)
    from rich.console import Console

    return LiveView(title, Console(), held=partial(whole_chains, folder), began=began)


async def _until_told(work: Callable[[Stopping], Coroutine[Any, Any, Outcome]], feed: Feed) -> Outcome:
    """Run until done; the first Ctrl-C ends the servers with grace, the second at once."""
    stopping = Stopping(asyncio.Event())
    loop = asyncio.get_running_loop()
    task: asyncio.Task[Outcome] = asyncio.create_task(work(stopping))
    told = 0

    def tell() -> None:
        nonlocal told
        told += 1
        if told == 1:
            feed.on("stopping", text="stopping: the server is being ended (Ctrl-C ends it at once) ...")
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
        keep_errors(write_and_show(folder), folder)
    except LedgerError as error:
        # broken off before anything was written down: the run itself has said why
        click.echo(f"no report: {error}", err=True)


def _code(outcome: Outcome) -> int:
    if not outcome.failed:
        return int(ExitCode.OK)
    if outcome.measured or outcome.kept:
        return int(ExitCode.PARTIAL)
    return int(ExitCode.NOTHING_MEASURED)
