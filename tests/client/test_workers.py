"""Load from several processes, by one clock."""

from __future__ import annotations

import asyncio
import os
import signal
from array import array
from unittest import mock

import pytest

from kvantage.client import ChatRequest, Exchange, LoadWorkers, Senders, read_exchange, watching
from kvantage.client.client import Client
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


def streamed(chunks_per_s: float) -> Exchange:
    times = array("q", [round(place * 1e9 / chunks_per_s) for place in range(11)])
    return Exchange(0, 0, 0, times[-1], body=b"x" * 11, read_ns=times, read_ends=array("q", range(1, 12)))


def test_as_few_processes_send_as_are_exact() -> None:
    asked: list[tuple[int, float]] = []

    def needed(streams: int, chunks_per_s: float) -> int:
        asked.append((streams, chunks_per_s))
        return round(chunks_per_s / 20_000) or 1

    with mock.patch("kvantage.client.load.processors", return_value=4):
        senders = Senders(needed=needed)
        assert [senders.workers(streams) for streams in (1, 64, 400, 4000)] == [1, 1, 2, 4]
        assert asked[:2] == [(1, 100.0), (64, 6400.0)], "100 chunks a second, before any stream was seen"
        senders.saw([streamed(50), streamed(50), Exchange(0, 0, 0, 0, error="cut")])
        assert senders.workers(400) == 1
        senders.saw([streamed(250)])
        senders.saw([streamed(10)])
        assert senders.workers(400) == 4, "the fastest that was seen counts, and there are 4 processors"
    assert Senders().workers(100_000) == 1
    assert [Senders(3).workers(streams) for streams in (1, 2, 64)] == [1, 2, 3]
    with pytest.raises(UsageError, match="at least 1"):
        Senders(0)


async def test_workers_are_kept_from_cell_to_cell_and_started_again_when_they_are_gone() -> None:
    async with (
        GoldenServer(Script(Options(ttft_ms=5, step_ms=2, tokens=4))) as server,
        Client() as client,
        Senders(2) as senders,
    ):
        assert await senders.crew(1) is None
        crew = await senders.crew(4)
        assert isinstance(crew, LoadWorkers)
        with watching(client, crew) as watch:
            assert crew.in_flight == 0
            assert all(each.ok for each in await crew.run_wave(requests(server, 4)))
        assert watch.lag_p99_ns is not None
        assert watch.cpu_s > 0
        assert watch.notes == ("sent by 2 load workers",)
        assert await senders.crew(9) is crew
        crew.processes[0].kill()
        with pytest.raises(KvantageError, match="ended while it was at work"):
            await crew.run_wave(requests(server, 4))
        again = await senders.crew(4)
        assert again is not None
        assert again is not crew
        assert all(each.ok for each in await again.run_closed(requests(server, 4), 2))
        with watching(client, None) as own:
            await asyncio.sleep(0.05)
        assert own.lag_p99_ns is not None
        assert own.notes == ()
