"""More than one process of load: each sends its share, by one clock, and hands its exchanges back."""

from __future__ import annotations

import asyncio
import multiprocessing
import resource
import signal
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection as Pipe
from multiprocessing.process import BaseProcess
from types import TracebackType
from typing import Any

from kvantage.client.client import Client
from kvantage.client.exchange import Exchange
from kvantage.client.request import ChatRequest, prepare
from kvantage.client.schedule import run_closed, run_open
from kvantage.core import KvantageError, UsageError

START_S = 60.0
LEAD_NS = 50_000_000


@dataclass(frozen=True, slots=True)
class _Job:
    """A worker's share: `offsets_s` for open loops, `concurrency` for closed ones, neither for a wave."""

    requests: Sequence[ChatRequest]
    start_ns: int
    offsets_s: Sequence[float] = field(default=())
    concurrency: int | None = None


class LoadWorkers:
    """Spawned processes that send requests as one client would, only more of them.

        async with LoadWorkers(4) as workers:
            exchanges = await workers.run_wave(requests)
            exchanges = await workers.run_open(requests, offsets_s)

    Requests are dealt out in turn and exchanges come back in the requests' order. All processes of a machine
    share time.monotonic_ns, so their times need no translation, and all begin at the same moment. Leaving
    the block, or cancelling a call, ends the processes; they never outlive this one.
    """

    def __init__(self, count: int) -> None:
        if count < 1:
            raise UsageError(f"there is at least 1 load worker, not {count}")
        self.count = count
        self._pipes: list[Pipe] = []
        self.processes: list[BaseProcess] = []

    async def __aenter__(self) -> LoadWorkers:
        context = multiprocessing.get_context("spawn")
        for number in range(self.count):
            ours, theirs = context.Pipe()
            process = context.Process(target=_work, args=(theirs,), name=f"load-{number}", daemon=True)
            process.start()
            theirs.close()
            self._pipes.append(ours)
            self.processes.append(process)
        try:
            async with asyncio.timeout(START_S):
                await asyncio.gather(*(self._receive(number) for number in range(self.count)))
        except BaseException as error:
            self._end()
            if isinstance(error, TimeoutError):
                raise KvantageError(f"the load workers did not start within {START_S:g} s") from error
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    async def run_wave(self, requests: Sequence[ChatRequest]) -> list[Exchange]:
        """Send every request at once; see `schedule.run_wave`."""
        return await self._run(requests, [_Job(share, 0) for share in self._deal(requests)])

    async def run_closed(self, requests: Iterable[ChatRequest], concurrency: int) -> list[Exchange]:
        """Keep `concurrency` requests in flight, over all workers together; see `schedule.run_closed`."""
        listed = list(requests)
        if concurrency < self.count:
            raise UsageError(f"concurrency {concurrency} cannot be shared by {self.count} load workers")
        shares = [len(range(number, concurrency, self.count)) for number in range(self.count)]
        jobs = [_Job(share, 0, concurrency=shares[number]) for number, share in enumerate(self._deal(listed))]
        return await self._run(listed, jobs)

    async def run_open(self, requests: Sequence[ChatRequest], offsets_s: Iterable[float]) -> list[Exchange]:
        """Send request i at `offsets_s[i]` seconds after one common start; see `schedule.run_open`."""
        offsets = [offset for _, offset in zip(requests, offsets_s, strict=False)]
        if len(offsets) < len(requests):
            raise UsageError(f"{len(requests)} requests need as many send times, not {len(offsets)}")
        dealt = zip(self._deal(requests), self._deal(offsets), strict=True)
        return await self._run(requests, [_Job(share, 0, times) for share, times in dealt])

    def _deal(self, items: Sequence[Any]) -> list[Sequence[Any]]:
        return [items[number :: self.count] for number in range(self.count)]

    async def _run(self, requests: Sequence[ChatRequest], jobs: Sequence[_Job]) -> list[Exchange]:
        for request in requests:
            prepare(request)  # what cannot be formed is refused here, not in a worker
        try:
            for number, job in enumerate(jobs):
                self._send(number, job)
            # each says when it is connected; then all are given the same start
            await asyncio.gather(*(self._receive(number) for number in range(self.count)))
            start_ns = time.monotonic_ns() + LEAD_NS
            for number in range(self.count):
                self._send(number, start_ns)
            shares = await asyncio.gather(*(self._receive(number) for number in range(self.count)))
        except BaseException:
            self._end()
            raise
        exchanges: list[Exchange | None] = [None] * len(requests)
        for number, share in enumerate(shares):
            exchanges[number :: self.count] = share
        return [each for each in exchanges if each is not None]

    def _send(self, number: int, what: Any) -> None:
        try:
            self._pipes[number].send(what)
        except OSError as error:
            raise self._died(number) from error

    async def _receive(self, number: int) -> Any:
        """The next thing that a worker says; waits on its pipe without a thread."""
        pipe, loop = self._pipes[number], asyncio.get_running_loop()
        readable = asyncio.Event()
        loop.add_reader(pipe.fileno(), readable.set)
        try:
            await readable.wait()
        finally:
            loop.remove_reader(pipe.fileno())
        try:
            return pipe.recv()
        except (EOFError, OSError) as error:
            raise self._died(number) from error

    def _died(self, number: int) -> KvantageError:
        process = self.processes[number]
        process.join(timeout=1)
        return KvantageError(
            f"load worker {number} ended while it was at work (exit code {process.exitcode})",
            hint="what it had sent is lost; with fewer workers there is more memory for each",
        )

    def _end(self) -> None:
        for pipe in self._pipes:
            pipe.close()
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.join(timeout=2)
            if process.is_alive():
                process.kill()
                process.join()
        self._pipes.clear()
        self.processes.clear()


def _work(pipe: Pipe) -> None:
    """A worker's whole life. It ends when its pipe closes: when its parent does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 8192)), hard))
    pipe.send("ready")
    try:
        while True:
            asyncio.run(_do(pipe.recv(), pipe))
    except (EOFError, OSError):
        return


async def _do(job: _Job, pipe: Pipe) -> None:
    loop = asyncio.get_running_loop()
    async with Client() as client:
        urls = [request.url for request in job.requests]
        most = job.concurrency or len(urls)
        for url in dict.fromkeys(urls):
            await client.warm(url, min(most, urls.count(url)) if not job.offsets_s else 16)
        pipe.send("connected")
        start_ns = await _told(pipe, loop)
        if job.concurrency is not None:
            await asyncio.sleep(max(0, start_ns - time.monotonic_ns()) / 1e9)
            exchanges = await run_closed(client, job.requests, job.concurrency)
        else:
            times = job.offsets_s or [0.0] * len(job.requests)
            exchanges = await run_open(client, job.requests, times, start_ns=start_ns)
    pipe.send(exchanges)


async def _told(pipe: Pipe, loop: asyncio.AbstractEventLoop) -> int:
    readable = asyncio.Event()
    loop.add_reader(pipe.fileno(), readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(pipe.fileno())
    return int(pipe.recv())
