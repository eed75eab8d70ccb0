"""Load from several machines: the same workers as actors of a Ray cluster (the extra `kvantage[ray]`)."""

from __future__ import annotations

import asyncio
import importlib
import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from kvantage.client.clocks import Offset, compare, in_our_time, machine_id
from kvantage.client.crew import Crew
from kvantage.client.exchange import Exchange
from kvantage.client.job import Job, Sender, Share, allow_sockets
from kvantage.client.load import Senders
from kvantage.client.request import split_url
from kvantage.core import KvantageError, UsageError
from kvantage.version import __version__

SCHEME = "ray://"
START_S = 120.0
LEAD_NS = 250_000_000
HERE = ("local", "auto")
LOOPBACK = ("127.0.0.1", "localhost", "::1")


class Actor:
    """One worker; Ray makes an actor of it. Its calls follow one another: `connect`, then `go`."""

    def __init__(self) -> None:
        allow_sockets()
        self._runner = asyncio.Runner()
        self._sender = Sender()

    def about(self) -> tuple[str, str]:
        """(kvantage's version, the machine) where this runs."""
        return __version__, machine_id()

    def clock(self) -> int:
        """This machine's time.monotonic_ns."""
        return time.monotonic_ns()

    def connect(self, job: Job) -> None:
        """See `Sender.connect`."""
        self._runner.run(self._sender.connect(job))

    def go(self, start_ns: int) -> Share:
        """See `Sender.send`; the moment is in this machine's time."""
        return self._runner.run(self._sender.send(start_ns))


class RayWorkers(Crew):
    """Actors of a Ray cluster that send as one client would, spread over its nodes.

        async with RayWorkers("ray://head:10001") as workers:
            exchanges = await workers.run_wave(requests)

    address  ray://HOST:PORT (Ray's client server), ray://auto (the cluster that this machine is part of)
             or ray://local (a new one on this machine, for as long as the block)
    count    workers; one for each node of the cluster when not given

    Each worker's clock is compared with ours before and after a load. What it stamped comes back in our
    time; how far off that can be is in the watch's `clock_ns`, in its lag and in every exchange's. Workers
    on this machine read the same clock, and need no comparison.

    kvantage of the same version has to be installed on the nodes. Raises UsageError where Ray is not
    installed or cannot be reached, KvantageError where a worker fails.
    """

    def __init__(self, address: str, count: int | None = None) -> None:
        super().__init__(count or 1)
        self.address = address
        self._asked = count
        self._ray: Any = None
        self._began = False
        self._actors: list[Any] = []
        self._is_here: list[bool] = []

    async def __aenter__(self) -> RayWorkers:
        self._ray = ray = _ray()
        try:
            await asyncio.to_thread(self._join)
            nodes = [node for node in ray.nodes() if node["Alive"]]
            self.count = self._asked or len(nodes)
            made = ray.remote(num_cpus=1, max_restarts=0, scheduling_strategy="SPREAD")(Actor)
            self._actors = [made.remote() for _ in range(self.count)]
            async with asyncio.timeout(START_S):
                told = [await actor.about.remote() for actor in self._actors]
        except BaseException as error:
            self._end()
            if isinstance(error, TimeoutError):
                raise KvantageError(
                    f"{self.count} Ray workers did not start within {START_S:g} s",
                    hint="each takes a CPU of the cluster: see `ray status`, or ask for fewer workers",
                ) from error
            if isinstance(error, ray.exceptions.RayError):
                raise KvantageError(
                    f"a Ray worker did not start: {_last_line(error)}",
                    hint="kvantage must be installed on every node, in the Python that Ray runs there",
                ) from error
            raise
        if other := {version for version, _ in told} - {__version__}:
            self._end()
            raise UsageError(
                f"the cluster has kvantage {', '.join(sorted(other))}, and here it is {__version__}",
                hint="install the same version on every node",
            )
        mine = machine_id()
        self._is_here = [machine == mine != "" for _, machine in told]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    async def do(self, jobs: Sequence[Job]) -> list[tuple[Share, int]]:
        """See `Crew`."""
        self._check_reach(jobs)
        actors = self._actors[: len(jobs)]
        try:
            before = await self.offsets(len(jobs))
            await asyncio.gather(*(a.connect.remote(job) for a, job in zip(actors, jobs, strict=True)))
            start_ns = time.monotonic_ns() + LEAD_NS
            shares: list[Share] = await asyncio.gather(
                *(a.go.remote(start_ns + offset.best) for a, offset in zip(actors, before, strict=True))
            )
            after = await self.offsets(len(jobs))
        except self._ray.exceptions.RayError as error:
            self._end()
            raise KvantageError(
                f"a Ray worker ended while it was at work: {_last_line(error)}",
                hint="what it had sent is lost; `ray status` and the node's logs say more",
            ) from error
        except BaseException:
            self._end()
            raise
        made = []
        for share, first, last in zip(shares, before, after, strict=True):
            offset = first.join(last)
            exchanges: Sequence[Exchange] = share.exchanges
            if offset != Offset(0, 0):
                exchanges = [in_our_time(each, offset) for each in exchanges]
            made.append((Share(exchanges, share.delays_ns, share.cpu_s), offset.bound))
        return made

    async def offsets(self, count: int) -> list[Offset]:
        """How the first so many workers' clocks stand to ours, now."""
        return [
            Offset(0, 0) if self._is_here[number] else await compare(lambda a=actor: a.clock.remote())  # type: ignore[misc]
            for number, actor in enumerate(self._actors[:count])
        ]

    def _check_reach(self, jobs: Sequence[Job]) -> None:
        for is_here, job in zip(self._is_here, jobs, strict=False):
            for url in {request.url for request in job.requests}:
                if not is_here and split_url(url)[0].host in LOOPBACK:
                    raise UsageError(
                        f"{split_url(url)[0]} cannot be reached from the cluster's other machines",
                        hint="have the server listen on an address of the network, and name it by that "
                        "(attach, or `kvantage measure URL`)",
                    )

    def _join(self) -> None:
        """Become part of the cluster, unless this process is already."""
        ray = self._ray
        if ray.is_initialized():
            return
        where = self.address.removeprefix(SCHEME)
        address = where if where in HERE else self.address
        try:
            ray.init(address=address, logging_level="ERROR", log_to_driver=False)
        except (ConnectionError, OSError, ValueError, RuntimeError) as error:
            raise UsageError(
                f"there is no Ray cluster at {self.address}: {_last_line(error)}",
                hint="ray://HOST:10001 is the head's client server; ray://auto the cluster of this machine; "
                "ray://local starts one here",
            ) from error
        self._began = True

    def _end(self) -> None:
        for actor in self._actors:
            self._ray.kill(actor)
        self._actors.clear()
        if self._began:
            self._ray.shutdown()
            self._began = False


class RaySenders(Senders):
    """Has a Ray cluster send everything; see `RayWorkers`."""

    def __init__(self, address: str, count: int | None = None) -> None:
        super().__init__(count)
        if not address.startswith(SCHEME) or address == SCHEME:
            raise UsageError(
                f"--load does not know {address!r}",
                hint="write ray://HOST:10001, ray://auto or ray://local",
            )
        _ray()
        self._crew = RayWorkers(address, count)
        self._began = False

    async def __aexit__(self, *_: object) -> None:
        if self._began:
            await self._crew.__aexit__(None, None, None)

    async def crew(self, concurrency: int) -> Crew:
        """See `Senders`."""
        if not self._began:
            await self._crew.__aenter__()
            self._began = True
        return self._crew


def _ray() -> Any:
    """The module `ray`. Raises UsageError where it is not installed."""
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise UsageError(
            f"Ray is not installed in {sys.prefix}", hint="pip install 'kvantage[ray]'"
        ) from error


def _last_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
