"""Where a load is sent from: this process as long as it is exact, worker processes beyond that."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence

from kvantage.client.client import Client
from kvantage.client.crew import Crew, Watch
from kvantage.client.exchange import Exchange
from kvantage.client.job import Share, processors
from kvantage.client.workers import LoadWorkers
from kvantage.core import UsageError

CHUNKS_PER_S = 100.0
"""What a stream is taken to send before one was seen: a chunk every 10 ms."""

Needed = Callable[[int, float], int]
"""How many processes are exact at (so many streams, so many chunks a second)."""


class Senders:
    """Decides how many processes send a cell's requests, and keeps them.

        async with Senders(needed=calibration.workers) as spread:
            crew = await spread.crew(256)      # None: this process sends by itself
        async with Senders(4) as spread:
            crew = await spread.crew(256)      # 4 workers

    count   so many workers, wherever that many requests are sent at once; not given: as few as are exact
    needed  says how many those are; never more are taken than there are processors
    """

    def __init__(self, count: int | None = None, *, needed: Needed | None = None) -> None:
        if count is not None and count < 1:
            raise UsageError(f"there is at least 1 load worker, not {count}")
        self.count = count
        self._needed = needed
        self._chunks_per_s = CHUNKS_PER_S
        self._seen = False
        self._workers: LoadWorkers | None = None

    async def __aenter__(self) -> Senders:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._end()

    async def crew(self, concurrency: int) -> Crew | None:
        """Who sends so many requests at once; None is this process. Starts workers where they are due."""
        count = self.workers(concurrency)
        if count == 1:
            return None
        if self._workers is None or not self._workers.alive or self._workers.count < count:
            await self._end()
            self._workers = LoadWorkers(count)
            await self._workers.__aenter__()
        return self._workers

    def workers(self, concurrency: int) -> int:
        """How many processes are to send so many requests at once."""
        if self.count is not None:
            return min(self.count, concurrency)
        if self._needed is None:
            return 1
        needed = self._needed(concurrency, concurrency * self._chunks_per_s)
        return max(1, min(needed, concurrency, processors()))

    def saw(self, exchanges: Sequence[Exchange]) -> None:
        """Learn from answers how many chunks a second a stream sends; the most that was seen counts."""
        rates = sorted(
            (len(each.read_ns) - 1) / (each.read_ns[-1] - each.read_ns[0]) * 1e9
            for each in exchanges
            if len(each.read_ns) > 1 and each.read_ns[-1] > each.read_ns[0]
        )
        if rates:
            self._chunks_per_s = max(rates[len(rates) // 2], self._chunks_per_s if self._seen else 0.0)
            self._seen = True

    async def _end(self) -> None:
        if self._workers is not None:
            await self._workers.__aexit__(None, None, None)
            self._workers = None


@contextlib.contextmanager
def watching(client: Client, crew: Crew | None) -> Iterator[Watch]:
    """What sending costs while the block runs, whoever sends; the watch is whole when it has ended."""
    if crew is not None:
        with crew.watch() as watch:
            yield watch
        return
    watch, cpu_s = Watch(), time.process_time()
    with client.lag.span() as delays:
        try:
            yield watch
        finally:
            watch.add(0, Share((), delays.values_ns, time.process_time() - cpu_s))
