"""The machines under a boot, looked at once a second while it lasts; what is seen goes to the ledger."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Sequence
from urllib.parse import urlsplit

from kvantage.core import LedgerError
from kvantage.core.telemetry import Sample, WatchedHost
from kvantage.hosts.local import LocalHost
from kvantage.hosts.telemetry import LocalWatch, SshWatch, Watch
from kvantage.ledger import Boot, Ledger
from kvantage.runner.remote import Remote
from kvantage.runner.way import PreparedArm, Way

KEPT = 10
"""Looks that are put into the ledger together: a commit waits for the disk."""


def watches_of(way: Way, arm: PreparedArm) -> tuple[list[Watch], str | None]:
    """How the machines under an arm's server are looked at, or why they are not."""
    if isinstance(way, Remote):
        names = [host.node.name for host in way.hosts]
        labels = [f"{name} ({rank})" if names.count(name) > 1 else name for rank, name in enumerate(names)]
        return [SshWatch(host, label) for host, label in zip(way.hosts, labels, strict=True)], None
    name = urlsplit(arm.url).hostname or ""
    if name in ("localhost", "::1") or name.startswith("127."):
        return [LocalWatch(LocalHost().facts().name)], None
    return [], f"the server runs on {name}, into which kvantage does not look"


@contextlib.asynccontextmanager
async def watched(way: Way, arm: PreparedArm, boot: Boot, ledger: Ledger) -> AsyncIterator[None]:
    """Look at the machines under this boot until the block ends."""
    watches, why = watches_of(way, arm)
    keep = _Keep(ledger, boot)
    hosts = await asyncio.gather(*(watch.start(keep.take) for watch in watches))
    told = list(hosts) or [WatchedHost(urlsplit(arm.url).hostname or "", missing=why)]
    ledger.event(
        "telemetry",
        arm=boot.arm.name,
        block=boot.block,
        boot=boot.id,
        hosts=[host.to_json() for host in told],
    )
    try:
        yield
    finally:
        await asyncio.gather(*(watch.stop() for watch in watches))
        keep.flush()


class _Keep:
    """Gathers samples, which come on other threads, and hands them to the ledger some at a time."""

    def __init__(self, ledger: Ledger, boot: Boot) -> None:
        self._ledger = ledger
        self._boot = boot
        self._held: list[Sample] = []
        self._looks = 0
        self._turn = threading.Lock()

    def take(self, samples: Sequence[Sample]) -> None:
        with self._turn:
            self._held += samples
            self._looks += 1
            full = self._looks >= KEPT
        if full:
            self.flush()

    def flush(self) -> None:
        with self._turn:
            held, self._held, self._looks = self._held, [], 0
        if held:
            # a ledger that can no longer be written is told by the next request; this thread ends quietly
            with contextlib.suppress(LedgerError):
                self._ledger.add_samples(self._boot, held)
