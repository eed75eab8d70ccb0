"""When requests leave: all at once, so many at a time, or at times that the schedule gives."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from kvantage.client.client import Client
from kvantage.client.exchange import Exchange
from kvantage.client.request import ChatRequest, Prepared, prepare
from kvantage.core import UsageError
from kvantage.core.timer import Alarm

T = TypeVar("T")
OnEnd = Callable[[int, Exchange], None]
EARLY_CONNECTIONS = 16


async def run_wave(client: Client, requests: Sequence[ChatRequest]) -> list[Exchange]:
    """Send every request at once and wait for all; the exchanges come in the requests' order.

    Bodies are encoded and connections opened beforehand, and nothing is parsed until the last answer
    ended, so that no stream waits for the work of another.
    """
    prepared = [prepare(each) for each in requests]
    await _warm(client, prepared, len(prepared))
    return await all_of([client.stream(each) for each in prepared])


async def run_closed(
    client: Client,
    requests: Iterable[ChatRequest],
    concurrency: int,
    *,
    on_end: OnEnd | None = None,
) -> list[Exchange]:
    """Keep `concurrency` requests in flight until the list is empty; exchanges in the requests' order.

    Each is intended for the moment at which its place came free. `on_end(place, exchange)` is called as
    each ends and must be short: streams that are still running wait for it.
    """
    if concurrency < 1:
        raise UsageError(f"concurrency is at least 1, not {concurrency}")
    prepared = [prepare(each) for each in requests]
    if prepared:
        await _warm(client, prepared, concurrency)
    ended: dict[int, Exchange] = {}
    waiting = iter(enumerate(prepared))

    async def keep_busy() -> None:
        for place, request in waiting:
            exchange = await client.stream(replace(request, intended_ns=time.monotonic_ns()))
            ended[place] = exchange
            if on_end is not None:
                on_end(place, exchange)

    await all_of([keep_busy() for _ in range(min(concurrency, len(prepared)))])
    return [ended[place] for place in range(len(prepared))]


async def run_open(
    client: Client,
    requests: Sequence[ChatRequest],
    offsets_s: Iterable[float],
    *,
    start_ns: int | None = None,
    on_end: OnEnd | None = None,
) -> list[Exchange]:
    """Send request i at `offsets_s[i]` seconds after the start, whether or not earlier ones have ended.

    `intended_ns` is that moment exactly, so that a late send is seen and counted (no coordinated
    omission). The start is 20 ms from now when not given. Raises UsageError when there are fewer offsets
    than requests.
    """
    prepared = [prepare(each) for each in requests]
    offsets = [offset for _, offset in zip(prepared, offsets_s, strict=False)]
    if len(offsets) < len(prepared):
        raise UsageError(f"{len(prepared)} requests need as many send times, not {len(offsets)}")
    loop = asyncio.get_running_loop()
    order = sorted(range(len(prepared)), key=offsets.__getitem__)
    tasks: dict[int, asyncio.Task[Exchange]] = {}

    async def send(place: int, intended_ns: int) -> Exchange:
        exchange = await client.stream(replace(prepared[place], intended_ns=intended_ns))
        if on_end is not None:
            on_end(place, exchange)
        return exchange

    await _warm(client, prepared, EARLY_CONNECTIONS)
    begin_ns = time.monotonic_ns() + 20_000_000 if start_ns is None else start_ns
    try:
        with Alarm() as alarm:
            for place in order:
                intended_ns = begin_ns + round(offsets[place] * 1e9)
                await alarm.until(intended_ns)
                tasks[place] = loop.create_task(send(place, intended_ns))
        return list(await asyncio.gather(*(tasks[place] for place in range(len(prepared)))))
    except BaseException:
        await _cancel(list(tasks.values()))
        raise


def constant(rate: float) -> Iterator[float]:
    """Send times at a constant rate, in seconds from the start; endless."""
    _check_rate(rate)
    place = 0
    while True:
        yield place / rate
        place += 1


def poisson(rate: float, seed: int) -> Iterator[float]:
    """Send times of a Poisson process of `rate` requests a second; endless, the same for the same seed."""
    _check_rate(rate)
    draw = random.Random(seed)
    at = 0.0
    while True:
        at += draw.expovariate(rate)
        yield at


def _check_rate(rate: float) -> None:
    if not rate > 0:
        raise UsageError(f"a request rate is more than 0 a second, not {rate}")


async def _warm(client: Client, prepared: Sequence[Prepared], concurrency: int) -> None:
    origins = Counter(each.origin for each in prepared)
    for origin, count in origins.items():
        await client.warm(origin, min(count, concurrency))


async def all_of(calls: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """All results in order. When one raises, or the caller is cancelled, the others are ended first."""
    tasks = [asyncio.ensure_future(each) for each in calls]
    try:
        return list(await asyncio.gather(*tasks))
    except BaseException:
        await _cancel(tasks)
        raise


async def _cancel(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
