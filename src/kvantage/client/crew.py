"""Several workers that send as one client would: dealing requests out, putting answers together."""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from array import array
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from kvantage.client.exchange import Exchange
from kvantage.client.job import Job, Share
from kvantage.client.lag import quantile_ns
from kvantage.client.request import ChatRequest, prepare
from kvantage.core import UsageError

T = TypeVar("T")


@dataclass
class Watch:
    """What sending cost while a `watch` block ran; whole once it has ended.

    lag_p99_ns  the delay that 99 % of the time stayed under, in the worker that was latest; where workers
                have clocks of their own, with the bound of their offsets on top. None: too short to tell
    cpu_s       processor time, over all processes that sent
    is_ours     True where this process sent by itself
    clock_ns    how far apart the clocks of sender and reader can have been, at most; 0 on one machine
    """

    lag_p99_ns: int | None = None
    cpu_s: float = 0.0
    is_ours: bool = True
    clock_ns: int = 0
    _delays: dict[int, array[int]] = field(default_factory=dict)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the cell should know of it: nothing where this process sent alone."""
        if self.is_ours:
            return ()
        count = len(self._delays)
        apart = f", clocks compared to within {self.clock_ns / 1e6:.2f} ms" if self.clock_ns else ""
        return (f"sent by {count} load worker{'' if count == 1 else 's'}{apart}",)

    def add(self, worker: int, share: Share, clock_ns: int = 0) -> None:
        """Take in what a worker said of its job."""
        self._delays.setdefault(worker, array("q")).extend(share.delays_ns)
        self.cpu_s += share.cpu_s
        self.clock_ns = max(self.clock_ns, clock_ns)
        lags = [quantile_ns(each, 0.99) for each in self._delays.values()]
        self.lag_p99_ns = max((lag + self.clock_ns for lag in lags if lag is not None), default=None)


class Crew(ABC):
    """Workers that share the requests of a load. Requests are dealt out in turn, and exchanges come back in
    the requests' order; all workers begin at one moment.
    """

    def __init__(self, count: int) -> None:
        if count < 1:
            raise UsageError(f"there is at least 1 load worker, not {count}")
        self.count = count
        self.in_flight = 0
        self._watches: list[Watch] = []

    @contextlib.contextmanager
    def watch(self) -> Iterator[Watch]:
        """Note what sending costs while the block runs."""
        watch = Watch(is_ours=False)
        self._watches.append(watch)
        try:
            yield watch
        finally:
            self._watches.remove(watch)

    async def run_wave(self, requests: Sequence[ChatRequest]) -> list[Exchange]:
        """Send every request at once; see `schedule.run_wave`."""
        return await self._run(
            requests, [Job(share) for share in _deal(requests, self._using(len(requests)))]
        )

    async def run_closed(self, requests: Iterable[ChatRequest], concurrency: int) -> list[Exchange]:
        """Keep `concurrency` requests in flight, over all workers together; see `schedule.run_closed`.

        No more workers than that have something to do.
        """
        if concurrency < 1:
            raise UsageError(f"concurrency is at least 1, not {concurrency}")
        listed = list(requests)
        using = self._using(min(concurrency, len(listed)))
        jobs = [
            Job(share, concurrency=len(range(number, concurrency, using)))
            for number, share in enumerate(_deal(listed, using))
        ]
        return await self._run(listed, jobs)

    async def run_open(self, requests: Sequence[ChatRequest], offsets_s: Iterable[float]) -> list[Exchange]:
        """Send request i at `offsets_s[i]` seconds after one common start; see `schedule.run_open`."""
        offsets = [offset for _, offset in zip(requests, offsets_s, strict=False)]
        if len(offsets) < len(requests):
            raise UsageError(f"{len(requests)} requests need as many send times, not {len(offsets)}")
        using = self._using(len(requests))
        dealt = zip(_deal(requests, using), _deal(offsets, using), strict=True)
        return await self._run(requests, [Job(share, times) for share, times in dealt])

    def _using(self, most: int) -> int:
        """How many workers have something to do, where at most so many requests are sent at once."""
        return max(1, min(self.count, most))

    @abstractmethod
    async def do(self, jobs: Sequence[Job]) -> list[tuple[Share, int]]:
        """Have worker i do job i, all from one moment on; jobs may be fewer than workers.

        Gives each share, in this process's clock, and how far that clock can be off, ns.
        """

    async def _run(self, requests: Sequence[ChatRequest], jobs: Sequence[Job]) -> list[Exchange]:
        for request in requests:
            prepare(request)  # what cannot be formed is refused here, not in a worker
        async with self._busy(len(requests)):
            shares = await self.do(jobs)
        exchanges: list[Exchange | None] = [None] * len(requests)
        for number, (share, clock_ns) in enumerate(shares):
            exchanges[number :: len(jobs)] = share.exchanges
            for watch in self._watches:
                watch.add(number, share, clock_ns)
        return [each for each in exchanges if each is not None]

    @contextlib.asynccontextmanager
    async def _busy(self, count: int) -> AsyncIterator[None]:
        self.in_flight += count
        try:
            yield
        finally:
            self.in_flight -= count


def _deal(items: Sequence[T], count: int) -> list[Sequence[T]]:
    return [items[number::count] for number in range(count)]


async def readable(fd: int) -> Any:
    """Return when there is something to read, without a thread."""
    loop = asyncio.get_running_loop()
    seen = asyncio.Event()
    loop.add_reader(fd, seen.set)
    try:
        await seen.wait()
    finally:
        loop.remove_reader(fd)
