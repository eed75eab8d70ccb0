"""The client's own error, measured small; and how it is kept."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from kvantage.calibrate import Calibration, Load, Row, Spread, calibrate, ensure, load_stored, place, store
from kvantage.core import KvantageError
from kvantage.golden import GoldenServer, Options, Script

TINY = (Load(2, 1, step_ms=5, chunks=8, requests=1, ttft_ms=10), Load(3, 4, 5, 8, 2, 10))


def row(streams: int, chunks_per_s: float, p99_ms: float, cpu: float = 20.0) -> Row:
    spread = Spread(0.01, p99_ms)
    return Row(
        streams=streams,
        tokens_per_chunk=1,
        ttft_error_ms=spread,
        itl_error_ms=spread,
        decode_rate_error=Spread(0.0, 0.001),
        cpu_ms_per_1000_chunks=cpu,
        server_lag_ms=0.1,
        chunks_per_s=chunks_per_s,
        late=0,
        chunks=1000,
        client_lag_ms=0.1,
        request_share=1.0,
        memory_mib=50.0,
        counts_exact=True,
    )


def made(*rows: Row, quick: bool = False) -> Calibration:
    return Calibration(rows, {"cores": 2}, "2026-01-01T00:00:00+00:00", "0", quick)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


async def test_the_error_is_measured_against_what_the_server_wrote() -> None:
    cpus = os.sched_getaffinity(0)
    calibration = await calibrate(TINY)
    assert os.sched_getaffinity(0) == cpus
    assert [each.streams for each in calibration.rows] == [2, 3]
    assert [each.chunks for each in calibration.rows] == [16, 48]
    for each in calibration.rows:
        assert each.counts_exact
        assert 0 <= each.ttft_error_ms.median < 5
        assert 0 <= each.itl_error_ms.median < 5
        assert each.cpu_ms_per_1000_chunks > 0
        assert each.chunks_per_s > 0
    assert json.loads(json.dumps(calibration.to_json())) == calibration.to_json()
    assert Calibration.from_json(calibration.to_json()) == calibration


async def test_a_stream_that_fails_ends_it_in_words() -> None:
    from kvantage.calibrate import measure

    async with GoldenServer(Script(Options(cut_after=2))) as server:
        with pytest.raises(KvantageError, match="a stream of the golden server failed: the answer was cut"):
            await measure(server.url, TINY[0])


def test_the_json_has_the_fields_that_were_promised() -> None:
    data = made(row(4, 200, 0.1)).to_json()
    promised = {
        "streams",
        "tokens_per_chunk",
        "ttft_error_ms",
        "itl_error_ms",
        "decode_rate_error",
        "cpu_ms_per_1000_chunks",
        "server_lag_ms",
        "chunks_per_s",
        "late",
    }
    assert promised <= set(data["rows"][0])
    assert data["rows"][0]["ttft_error_ms"] == {"median": 0.01, "p99": 0.1}


def test_advice_follows_from_the_highest_exact_load() -> None:
    calibration = made(row(64, 3000, 0.1), row(256, 12_000, 0.2, cpu=20.0), row(1024, 10_000, 3.0))
    assert calibration.highest_exact is not None
    assert calibration.highest_exact.streams == 256
    assert calibration.chunks_per_s_a_worker == 25_000
    assert [calibration.workers(256, rate) for rate in (10, 25_000, 25_001, 60_000)] == [1, 1, 2, 3]
    assert [calibration.workers(streams, 10) for streams in (256, 257, 1024)] == [1, 2, 4]
    assert "exact at 256 streams and 12,000 chunks/s, with 24% of a core" in calibration.advice
    assert "not within 1 ms at p99: 1,024 streams x 1" in calibration.advice
    assert "calibrate again" not in calibration.advice
    held_up = replace(row(1024, 10_000, 3.0), client_lag_ms=40.0)
    assert "Something else held the processors" in made(row(64, 3000, 0.1), held_up).advice
    hopeless = made(row(1, 50, 9.0))
    assert "too busy" in hopeless.advice
    assert hopeless.workers(64, 1e6) == 1


async def test_it_is_kept_for_this_machine_and_a_quick_one_replaces_no_full_one() -> None:
    assert load_stored() is None
    path = store(made(row(4, 200, 0.1), quick=True))
    assert path == place()
    assert path.name.startswith("calibration-")
    full = made(row(64, 3000, 0.1))
    store(full)
    store(made(row(1, 50, 0.5), quick=True))
    assert load_stored() == full
    assert await ensure() == full
    path.write_text("{")
    assert load_stored() is None


async def test_without_one_a_quick_one_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvantage.calibrate.measuring.QUICK", TINY)
    taken = await ensure()
    assert taken.quick
    assert load_stored() == taken


def test_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvantage.cli.calibrate.FULL", TINY)
    from kvantage.cli.calibrate import command

    told = CliRunner().invoke(command, ["--json"], catch_exceptions=False)
    assert [each["streams"] for each in json.loads(told.stdout)["rows"]] == [2, 3]
    shown = CliRunner().invoke(command, [], catch_exceptions=False)
    assert "TTFT ms" in shown.stdout
    assert "stored in" in shown.stdout
