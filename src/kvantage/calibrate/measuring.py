"""The client against a golden server, load after load."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from kvantage.calibrate.calibration import Calibration
from kvantage.calibrate.kept import load_stored, machine, store
from kvantage.calibrate.load import FULL, QUICK, Load
from kvantage.calibrate.row import Row, compare
from kvantage.client import ChatRequest, Client, Exchange, prepare, read_exchange
from kvantage.client.job import allow_sockets
from kvantage.golden import GoldenProcess
from kvantage.version import __version__


async def calibrate(
    loads: Sequence[Load] = FULL,
    *,
    on_row: Callable[[int, Load, Row | None], None] | None = None,
) -> Calibration:
    """Measure each load against a golden server in a process of its own, on a processor of its own.

    `on_row(place, load, row)` is called before each load with None and after it with its row. Raises
    UsageError when the server does not start, KvantageError when a stream fails.
    """
    rows: list[Row] = []
    with _apart() as server_cpus, GoldenProcess(cpus=server_cpus) as golden:
        await measure(golden.url, replace(loads[0], streams=2, requests=1, chunks=4))
        for place, load in enumerate(loads):
            if on_row is not None:
                on_row(place, load, None)
            rows.append(await measure(golden.url, load))
            if on_row is not None:
                on_row(place, load, rows[-1])
    return Calibration(
        rows=tuple(rows),
        machine=machine(),
        taken_at=datetime.now(UTC).isoformat(timespec="seconds"),
        version=__version__,
        quick=tuple(loads) == QUICK,
    )


async def measure(url: str, load: Load) -> Row:
    """One load against the golden server at `url`. Raises KvantageError when a stream fails."""
    allow_sockets(load.streams + 256)
    request = prepare(
        ChatRequest(
            f"{url}/v1/chat/completions",
            {
                "model": "golden",
                "stream": True,
                "stream_options": {"include_usage": True},
                "messages": [{"role": "user", "content": "Count."}],
                "max_tokens": load.chunks * load.tokens_per_chunk,
                "golden": {
                    "ttft_ms": load.ttft_ms,
                    "step_ms": load.step_ms,
                    "tokens_per_chunk": load.tokens_per_chunk,
                },
            },
            deadline_s=load.seconds + 60,
        )
    )
    async with Client() as client:
        await client.delete(f"{url}/golden/log")
        await client.warm(url, load.streams)
        exchanges: list[Exchange] = []

        async def stream(place: int) -> None:
            # Streams begin one after the other over a step, as those of many users would.
            await asyncio.sleep(place / load.streams * max(load.step_ms, load.ttft_ms) / 1e3)
            for _ in range(load.requests):
                exchanges.append(await client.stream(request))

        cpu_s, started = _cpu_s(), time.monotonic()
        with client.lag.span() as delays:
            await asyncio.gather(*(stream(place) for place in range(load.streams)))
        seconds = time.monotonic() - started
        readings = [read_exchange(each) for each in exchanges]
        cpu_s = _cpu_s() - cpu_s
        logged = await client.get(f"{url}/golden/log", deadline_s=60)
    written = {each["number"]: each for each in logged.json()["requests"]}
    return compare(load, exchanges, readings, written, cpu_s, seconds, delays.quantile_ns(0.99))


async def ensure() -> Calibration:
    """The stored calibration, or a ten-second one, taken and stored now.

    A stored ten-second one that found the machine too busy to time anything is taken again.
    """
    known = load_stored()
    if known is None or (known.quick and known.highest_exact is None):
        known = await calibrate(QUICK)
        with contextlib.suppress(OSError):
            store(known)
    return known


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


@contextlib.contextmanager
def _apart() -> Iterator[set[int] | None]:
    """Give the server the last processor and keep this process off it, for as long as the block runs."""
    mine = os.sched_getaffinity(0)
    if len(mine) < 2:
        yield None
        return
    server = {max(mine)}
    os.sched_setaffinity(0, mine - server)
    try:
        yield server
    finally:
        os.sched_setaffinity(0, mine)
