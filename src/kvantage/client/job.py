"""One worker's share of a load, and what comes of it: the same in every process, on every machine."""

from __future__ import annotations

import asyncio
import os
import resource
import time
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

from kvantage.client.client import Client
from kvantage.client.exchange import Exchange
from kvantage.client.request import ChatRequest
from kvantage.client.schedule import EARLY_CONNECTIONS, run_closed, run_open

SOCKETS = 8192


@dataclass(frozen=True, slots=True)
class Job:
    """What one worker sends: `offsets_s` for open loops, `concurrency` for closed ones, none for a wave."""

    requests: Sequence[ChatRequest]
    offsets_s: Sequence[float] = ()
    concurrency: int | None = None


@dataclass(frozen=True, slots=True)
class Share:
    """What came of a job.

    exchanges  in the order of its requests
    delays_ns  the worker's own delays meanwhile, one value for each period of its probe
    cpu_s      the processor time that it took
    """

    exchanges: Sequence[Exchange] = ()
    delays_ns: array[int] = field(default_factory=lambda: array("q"))
    cpu_s: float = 0.0


class Sender:
    """Does jobs in this process, each in two steps, so that many workers can begin at one moment.

    await sender.connect(job)
    share = await sender.send(start_ns)
    """

    async def connect(self, job: Job) -> None:
        """Open the connections that the job needs."""
        self._job = job
        self._client = client = Client()
        await client.__aenter__()
        urls = [request.url for request in job.requests]
        most = EARLY_CONNECTIONS if job.offsets_s else job.concurrency or len(urls)
        for url in dict.fromkeys(urls):
            await client.warm(url, min(most, urls.count(url)))

    async def send(self, start_ns: int) -> Share:
        """Begin at that moment (time.monotonic_ns of this machine) and return when all is over."""
        job, client, cpu_s = self._job, self._client, time.process_time()
        try:
            with client.lag.span() as delays:
                if job.concurrency is not None:
                    await asyncio.sleep(max(0, start_ns - time.monotonic_ns()) / 1e9)
                    exchanges = await run_closed(client, job.requests, job.concurrency)
                else:
                    times = job.offsets_s or [0.0] * len(job.requests)
                    exchanges = await run_open(client, job.requests, times, start_ns=start_ns)
            return Share(exchanges, delays.values_ns, time.process_time() - cpu_s)
        finally:
            await client.__aexit__(None, None, None)


def allow_sockets(count: int = SOCKETS) -> None:
    """Let this process open that many, as far as the system permits."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= count:
        return
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (count if hard == resource.RLIM_INFINITY else min(count, hard), hard)
    )


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
