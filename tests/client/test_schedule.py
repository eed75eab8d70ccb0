"""When requests leave, on a server whose truth is known; and the client's own lateness."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator

import pytest

from kvantage.client import (
    ChatRequest,
    Client,
    LagProbe,
    constant,
    poisson,
    read_exchange,
    run_closed,
    run_open,
    run_wave,
    time_stream,
)
from kvantage.client.lag import Peaks
from kvantage.core import UsageError
from kvantage.golden import GoldenServer, Options, Script

MS = 1_000_000
block = time.sleep  # in the loop's own thread, which is the point


@pytest.fixture
async def golden() -> AsyncIterator[GoldenServer]:
    async with GoldenServer(Script(Options(ttft_ms=20, step_ms=5, tokens=6))) as server:
        yield server


def requests(server: GoldenServer, count: int) -> list[ChatRequest]:
    url = f"{server.url}/v1/chat/completions"
    return [ChatRequest(url, {"stream": True, "golden": {"prompt_tokens": place}}) for place in range(count)]


async def test_a_wave_leaves_at_once_and_comes_back_in_order(golden: GoldenServer) -> None:
    async with Client() as client:
        exchanges = await run_wave(client, requests(golden, 12))
    readings = [read_exchange(each) for each in exchanges]
    assert [each.final["usage"]["prompt_tokens"] for each in readings] == list(range(12))
    sends = [each.sent_ns for each in exchanges]
    assert max(sends) < min(each.end_ns for each in exchanges)
    assert client.progress.finished == client.progress.sent == 12
    assert client.progress.in_flight == client.progress.failed == 0


async def test_many_streams_are_read_together_and_few_again_at_once() -> None:
    options = Options(ttft_ms=20, step_ms=5, tokens=40)
    async with GoldenServer(Script(options)) as golden, Client() as client:
        for count in (48, 1, 48, 2):
            exchanges = await run_wave(client, requests(golden, count))
            assert [read_exchange(each).status for each in exchanges] == ["ok"] * count
            # every stream gave up its chunks one by one, though they were fetched together (those that
            # came while a busy machine held this process up share a stamp)
            assert all(len(set(read_exchange(each).chunks.times_ns)) >= 20 for each in exchanges)


async def test_one_refusal_does_not_end_the_wave(golden: GoldenServer) -> None:
    wave = [*requests(golden, 2), ChatRequest("http://127.0.0.1:9/v1", {})]
    async with Client() as client:
        exchanges = await run_wave(client, wave)
    assert [each.ok for each in exchanges] == [True, True, False]
    assert client.progress.failed == 1


async def test_a_request_that_cannot_be_formed_stops_the_wave_before_it_leaves(golden: GoldenServer) -> None:
    async with Client() as client:
        with pytest.raises(UsageError):
            await run_wave(client, [*requests(golden, 2), ChatRequest("nowhere", {})])
    assert client.progress.sent == 0


async def test_a_closed_loop_keeps_its_places_busy(golden: GoldenServer) -> None:
    ended: list[int] = []
    async with Client() as client:
        exchanges = await run_closed(
            client, requests(golden, 9), 3, on_end=lambda place, exchange: ended.append(place)
        )
    readings = [read_exchange(each) for each in exchanges]
    assert [each.final["usage"]["prompt_tokens"] for each in readings] == list(range(9))
    assert sorted(ended) == list(range(9))
    for exchange in exchanges:
        open_then = sum(each.sent_ns <= exchange.sent_ns < each.end_ns for each in exchanges)
        assert open_then <= 3
    assert sum(each.reused for each in exchanges) >= 6
    with pytest.raises(UsageError, match="at least 1"):
        await run_closed(client, [], 0)


async def test_an_open_loop_is_timed_from_the_intention(golden: GoldenServer) -> None:
    async with Client() as client:
        exchanges = await run_open(client, requests(golden, 5), [0.0, 0.030, 0.010, 0.020, 0.010])
    start = exchanges[0].intended_ns
    assert [each.intended_ns - start for each in exchanges] == [0, 30 * MS, 10 * MS, 20 * MS, 10 * MS]
    assert all(each.send_delay_ns >= 0 for each in exchanges)
    assert min(each.send_delay_ns for each in exchanges) < 50 * MS


async def test_a_late_send_counts_against_the_first_token(golden: GoldenServer) -> None:
    async with Client() as client:
        await client.warm(golden.url, 2)
        late = asyncio.get_running_loop().call_later(0.055, block, 0.06)
        exchanges = await run_open(client, requests(golden, 2), [0.0, 0.050])
        late.cancel()
    timing = time_stream(exchanges[1], read_exchange(exchanges[1]))
    assert exchanges[1].send_delay_ns > 20 * MS
    assert timing.intended_ttft_s is not None
    assert timing.ttft_s is not None
    assert timing.intended_ttft_s - timing.ttft_s == pytest.approx(exchanges[1].send_delay_ns / 1e9, abs=1e-3)


async def test_an_open_loop_needs_a_time_for_each_request(golden: GoldenServer) -> None:
    async with Client() as client:
        with pytest.raises(UsageError, match="5 requests need as many send times, not 2"):
            await run_open(client, requests(golden, 5), [0.0, 0.1])


def test_schedules() -> None:
    assert list(itertools.islice(constant(50), 4)) == [0.0, 0.02, 0.04, 0.06]
    times = list(itertools.islice(poisson(50, seed=1), 5000))
    assert times == list(itertools.islice(poisson(50, seed=1), 5000))
    assert times == sorted(times)
    assert times[-1] == pytest.approx(100, rel=0.05)
    for bad in (0, -1, float("nan")):
        with pytest.raises(UsageError, match="request rate"):
            next(constant(bad))


def test_peaks_are_the_largest_since_any_moment() -> None:
    peaks = Peaks()
    values = [3, 1, 4, 1, 5, 9, 2, 6]
    for at, value in enumerate(values):
        peaks.add(at, value)
        for since in range(at + 2):
            assert peaks.since(since) == max(values[since : at + 1], default=0)


async def test_a_blocked_loop_is_seen() -> None:
    with LagProbe() as probe:
        await asyncio.sleep(0.05)
        before = time.monotonic_ns()
        with probe.span() as delays:
            block(0.05)
            await asyncio.sleep(0.01)
        assert probe.since(before) > 40 * MS
        for _ in range(20):  # a busy machine may hold us up again at once
            after = time.monotonic_ns()
            await asyncio.sleep(0.02)
            if probe.since(after) < 40 * MS:
                break
        assert probe.since(after) < probe.since(before)
        high, low = delays.quantile_ns(0.9), delays.quantile_ns(0.1)
        assert high is not None
        assert low is not None
        assert high > 30 * MS > low
    assert LagProbe().since(0) == 0


async def test_a_request_keeps_the_lag_that_it_saw(golden: GoldenServer) -> None:
    async with Client() as client:
        asyncio.get_running_loop().call_later(0.01, block, 0.03)
        exchange = await client.stream(requests(golden, 1)[0])
    assert exchange.lag_ns > 25 * MS


async def test_a_stamp_is_right_though_the_client_is_late() -> None:
    """The kernel stamps what arrives while this loop is blocked; asyncio's own clock would be late."""
    async with Client() as client:
        done = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            body = b'data: {"choices":[{"delta":{"content":"x"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body))
            written.append(time.monotonic_ns())
            writer.write(body)
            block(0.1)
            await done.wait()
            writer.close()

        written: list[int] = []
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        exchange = await client.stream(ChatRequest(url, None))
        done.set()
        server.close()
        await asyncio.sleep(0.01)
    reading = read_exchange(exchange)
    assert reading.first_ns is not None
    assert 0 <= reading.first_ns - written[0] < 10 * MS
    assert exchange.lag_ns > 80 * MS
