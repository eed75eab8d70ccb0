"""More than one process of load: each sends its share, by one clock, and hands its exchanges back."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import signal
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection as Pipe
from multiprocessing.process import BaseProcess
from types import TracebackType
from typing import Any

from kvantage.client.crew import Crew, readable
from kvantage.client.job import Job, Sender, Share, allow_sockets
from kvantage.client.schedule import all_of
from kvantage.core import KvantageError

START_S = 60.0
LEAD_NS = 50_000_000


class LoadWorkers(Crew):
    """Spawned processes that send requests as one client would, only more of them.

        async with LoadWorkers(4) as workers:
            exchanges = await workers.run_wave(requests)
            exchanges = await workers.run_open(requests, offsets_s)

    All processes of a machine share time.monotonic_ns, so their times need no translation. Leaving the
    block, or cancelling a call, ends the processes; they never outlive this one.
    """

    def __init__(self, count: int) -> None:
        super().__init__(count)
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
                await all_of([self._receive(number) for number in range(self.count)])
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

    @property
    def alive(self) -> bool:
        """False once they have ended: left, cancelled, or dead."""
        return bool(self.processes)

    async def do(self, jobs: Sequence[Job]) -> list[tuple[Share, int]]:
        """See `Crew`."""
        try:
            for number, job in enumerate(jobs):
                self._send(number, job)
            # each says when it is connected; then all are given the same start
            await all_of([self._receive(number) for number in range(len(jobs))])
            start_ns = time.monotonic_ns() + LEAD_NS
            for number in range(len(jobs)):
                self._send(number, start_ns)
            shares = await all_of([self._receive(number) for number in range(len(jobs))])
        except BaseException:
            self._end()
            raise
        return [(share, 0) for share in shares]

    def _send(self, number: int, what: Any) -> None:
        try:
            self._pipes[number].send(what)
        except OSError as error:
            raise self._died(number) from error

    async def _receive(self, number: int) -> Any:
        """The next thing that a worker says."""
        pipe = self._pipes[number]
        await readable(pipe.fileno())
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
    allow_sockets()
    gc.freeze()  # what was imported stays: the collector need not look at it
    pipe.send("ready")
    try:
        while True:
            asyncio.run(_do(pipe.recv(), pipe))
    except (EOFError, OSError):
        return


async def _do(job: Job, pipe: Pipe) -> None:
    sender = Sender()
    await sender.connect(job)
    pipe.send("connected")
    await readable(pipe.fileno())
    pipe.send(await sender.send(int(pipe.recv())))
