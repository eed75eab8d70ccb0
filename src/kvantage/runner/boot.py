"""One boot of one arm: start, prove ready, read back, measure, stop."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from kvantage.client import Client, Senders
from kvantage.core import ArmFailed, Facts, Observer, ServerProcess
from kvantage.engines.simulated import refusal
from kvantage.hosts.provenance import provenance
from kvantage.ledger import Boot, Ledger
from kvantage.phases import Bench
from kvantage.runner.tokens import counter_for
from kvantage.runner.watched import watched
from kvantage.runner.way import PreparedArm, Way
from kvantage.study import Study

STOP_GRACE_S = 20.0


@dataclass
class Stopping:
    """Shared by the runner and its boots: set `at_once` and servers get no more time to end."""

    at_once: asyncio.Event


@contextlib.asynccontextmanager
async def booted(
    study: Study,
    arm: PreparedArm,
    block: int,
    *,
    way: Way,
    ledger: Ledger,
    client: Client,
    senders: Senders | None = None,
    observer: Observer,
    stopping: Stopping,
    closing: bool = False,
) -> AsyncIterator[Bench]:
    """A bench on a server of this arm; the server is gone when the block ends, however it ends. One more
    boot of the control, `closing` the study, is marked so in its provenance.

    Raises ArmFailed when it does not boot or is not what was asked. The boot's end is written down by
    whoever uses it, since only they know how it went.
    """
    settings, engine = arm.settings, arm.engine
    where = f"arm {settings.name}, boot {block}"
    stamp = time.strftime("%H%M%S", time.gmtime())
    log_path = ledger.folder / "logs" / f"{settings.name}.{block}.{stamp}.log"
    log: dict[str, Any] = {"log": str(log_path.relative_to(ledger.folder))}
    log |= {"closing": True} if closing else {}
    boot = ledger.open_boot(settings, block, {**log, "how": arm.how})
    observer.on("boot", arm=settings.name, block=block, log=str(log_path))
    process: ServerProcess | None = None
    began = time.monotonic()
    looking = contextlib.AsyncExitStack()
    try:
        try:
            arm = await way.renew(arm)
            await looking.enter_async_context(watched(way, arm, boot, ledger))
            ledger.boot_provenance(boot, {**await _provenance(study, arm, way, ledger), **log})
            began = time.monotonic()
            server = await way.start(arm, log_path, observer, study.ready_within_s)
            process = server.process
            await engine.ready(server, study.ready_within_s - (time.monotonic() - began))
            ready_s = time.monotonic() - began
            facts = await engine.facts(server)
            if why := refusal(settings, facts.speculation):
                raise ArmFailed(why)
        except ArmFailed as error:
            error.where = error.where or where
            error.hint = error.hint or f"its log: {log_path}"
            _fail(ledger, observer, boot, error)
            raise
        ledger.boot_ready(boot, facts, ready_s)
        _tell(observer, ledger, boot, facts, ready_s, arm)
        yield Bench(
            study=study,
            boot=boot,
            server=server,
            engine=engine,
            facts=facts,
            client=client,
            senders=senders,
            ledger=ledger,
            counter=await asyncio.to_thread(counter_for, settings.model, server),
            observer=observer,
        )
    finally:
        if process is not None:
            await stop(process, stopping)
        await looking.aclose()
        observer.on("stopped", arm=settings.name, block=block)


async def _provenance(study: Study, arm: PreparedArm, way: Way, ledger: Ledger) -> dict[str, Any]:
    """Where this server comes from, as plain JSON."""
    found = await asyncio.to_thread(
        provenance,
        arm.settings,
        arm.launch,
        await way.facts(arm),
        record=(*study.record, *study.boot.record),
        keep_in=ledger.folder / "recorded",
    )
    return {**found, "how": arm.how, "url": arm.url}


def _fail(ledger: Ledger, observer: Observer, boot: Boot, error: ArmFailed) -> None:
    ledger.boot_failed(boot, error.message, error.log_lines)
    observer.on(
        "failed",
        arm=boot.arm.name,
        block=boot.block,
        reason=error.message,
        hint=error.hint,
        log_lines=error.log_lines,
    )


def fail_boot(bench: Bench, error: ArmFailed) -> None:
    """Write down that a server failed while it was being measured."""
    _fail(bench.ledger, bench.observer, bench.boot, error)


def _tell(
    observer: Observer, ledger: Ledger, boot: Boot, facts: Facts, ready_s: float, arm: PreparedArm
) -> None:
    fields: dict[str, Any] = {
        "arm": boot.arm.name,
        "block": boot.block,
        "seconds": ready_s,
        "version": facts.engine_version,
        "pool_tokens": facts.reading("kv_pool_tokens").value,
    }
    observer.on("ready", **fields)
    if words := facts.resolved.get("simulated"):
        ledger.event("simulated", arm=boot.arm.name, block=boot.block, text=str(words))
    for text in (*facts.warnings, *arm.launch.notes):
        ledger.event("warning", arm=boot.arm.name, block=boot.block, text=text)
        observer.on("warning", text=f"arm {boot.arm.name}: {text}")


async def stop(process: ServerProcess, stopping: Stopping) -> None:
    """End a server: with grace, or at once when the person asked a second time."""
    if stopping.at_once.is_set():
        await process.stop(0.0)
        return
    gentle = asyncio.create_task(process.stop(STOP_GRACE_S))
    hurry = asyncio.create_task(stopping.at_once.wait())
    await asyncio.wait({gentle, hurry}, return_when=asyncio.FIRST_COMPLETED)
    hurry.cancel()
    if not gentle.done():
        await process.stop(0.0)
    await gentle
