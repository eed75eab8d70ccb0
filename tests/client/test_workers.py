"""Load from several processes, by one clock."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from kvantage.client import ChatRequest, LoadWorkers, read_exchange
from kvantage.core import KvantageError, UsageError
from kvantage.golden import GoldenServer, Options, Script

MS = 1_000_000


def requests(server: GoldenServer, count: int, **golden: object) -> list[ChatRequest]:
    url = f"{server.url}/v1/chat/completions"
    return [
        ChatRequest(url, {"stream": True, "golden": {"prompt_tokens": place, **golden}}, deadline_s=30)
        for place in range(count)
    ]


async def test_work_is_dealt_out_and_comes_back_in_order() -> None:
    async with (
        GoldenServer(Script(Options(ttft_ms=20, step_ms=5, tokens=4))) as server,
        LoadWorkers(2) as workers,
    ):
        wave = await workers.run_wave(requests(server, 7))
        closed = await workers.run_closed(requests(server, 8), 3)
        opened = await workers.run_open(requests(server, 5), [0.0, 0.01, 0.02, 0.03, 0.04])
        for exchanges, count in ((wave, 7), (closed, 8), (opened, 5)):
            readings = [read_exchange(each) for each in exchanges]
            assert [each.final["usage"]["prompt_tokens"] for each in readings] == list(range(count))
            assert all(each.status == "ok" for each in readings)
        # one clock: the server's own log of this process frames what the workers stamped
        for exchange, reading in zip(wave, map(read_exchange, wave), strict=True):
            written = server.log[int(reading.final["id"].rpartition("-")[2])]
            assert exchange.sent_ns <= written.arrived_ns
            assert reading.first_ns is not None
            assert 0 <= reading.first_ns - written.written_ns[0] < 50 * MS
        assert len({each.intended_ns for each in wave}) == 1
        assert [each.intended_ns - opened[0].intended_ns for each in opened] == [
            10 * MS * n for n in range(5)
        ]
        with pytest.raises(UsageError, match="as many send times"):
            await workers.run_open(requests(server, 3), [0.0])
        assert [each.ok for each in await workers.run_closed(requests(server, 3), 1)] == [True] * 3
        with pytest.raises(UsageError, match="not an http address"):
            await workers.run_wave([ChatRequest("nowhere", {})])


async def test_a_worker_that_dies_is_told_and_leaves_nothing_running() -> None:
    async with GoldenServer(Script(Options(ttft_ms=10_000))) as server, LoadWorkers(2) as workers:
        pids = [process.pid for process in workers.processes]
        assert pids[0] is not None
        asyncio.get_running_loop().call_later(0.3, os.kill, pids[0], signal.SIGKILL)
        with pytest.raises(KvantageError, match="load worker 0 ended while it was at work"):
            await workers.run_wave(requests(server, 2))
        for pid in pids:
            assert pid is not None
            with pytest.raises(ProcessLookupError):
                os.kill(pid, 0)


async def test_cancelling_ends_the_workers() -> None:
    async with GoldenServer(Script(Options(ttft_ms=10_000))) as server, LoadWorkers(1) as workers:
        pids = [process.pid for process in workers.processes]
        running = asyncio.create_task(workers.run_wave(requests(server, 2)))
        await asyncio.sleep(0.3)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        with pytest.raises(ProcessLookupError):
            os.kill(int(pids[0] or 0), 0)


def test_there_is_at_least_one() -> None:
    with pytest.raises(UsageError, match="at least 1"):
        LoadWorkers(0)
