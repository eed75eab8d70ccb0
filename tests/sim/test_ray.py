"""Load from the two nodes of a real Ray cluster on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvantage.client.actors import RaySenders
from kvantage.core import UsageError
from kvantage.ledger import read_study
from tests.sim.test_study_run import STUDY

CLUSTER = """
import sys
from ray.cluster_utils import Cluster
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
cluster.add_node(num_cpus=1)
print("address", cluster.address, flush=True)
sys.stdin.read()
cluster.shutdown()
"""

# Both ways: workers that share our clock, and workers whose clocks are compared as those of another machine.
SEND = """
import asyncio, json, sys
from kvantage.client import ChatRequest, read_exchange
from kvantage.client.actors import RayWorkers
from kvantage.golden import GoldenServer, Options, Script

async def main():
    said = []
    async with GoldenServer(Script(Options(ttft_ms=20, step_ms=5, tokens=8))) as server:
        url = server.url + "/v1/chat/completions"
        asks = [ChatRequest(url, {"stream": True, "golden": {"prompt_tokens": n}}) for n in range(7)]
        async with RayWorkers("ray://auto") as workers:
            for is_here in (True, False):
                workers._is_here = [is_here] * workers.count
                workers._check_reach = lambda jobs: None
                with workers.watch() as watch:
                    sent = await workers.run_wave(asks) + await workers.run_closed(asks, 3)
                rows = []
                for exchange in sent:
                    reading = read_exchange(exchange)
                    truth = server.log[int(reading.final["id"].rpartition("-")[2])]
                    rows.append({
                        "asked": reading.final["usage"]["prompt_tokens"],
                        "sent_ns": exchange.sent_ns - truth.arrived_ns,
                        "first_ns": reading.first_ns - truth.written_ns[0],
                        "lag_ns": exchange.lag_ns,
                    })
                said.append({"rows": rows, "lag_ns": watch.lag_p99_ns, "clock_ns": watch.clock_ns,
                             "cpu_s": watch.cpu_s, "notes": watch.notes, "workers": workers.count})
    print(json.dumps(said))

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[dict[str, str]]:
    """The environment in which `ray://auto` is a cluster of two nodes."""
    pytest.importorskip("ray", reason="the extra kvantage[ray] is not installed")
    env = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0"}
    process = subprocess.Popen(
        [sys.executable, "-c", CLUSTER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        said = ""
        while not said.startswith("address "):
            said = process.stdout.readline()
            assert said, "the cluster did not start"
        yield {**env, "RAY_ADDRESS": said.split()[1]}
    finally:
        process.stdin.close()
        process.wait(60)
        process.stdout.close()


def test_two_nodes_share_a_load_and_answers_come_back_in_our_time(cluster: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SEND], env=cluster, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    here, apart = json.loads(done.stdout.splitlines()[-1])
    for said in (here, apart):
        rows: list[dict[str, Any]] = said["rows"]
        assert said["workers"] == 2
        assert [row["asked"] for row in rows] == [*range(7), *range(7)]
        assert said["cpu_s"] > 0
        for row in rows:
            assert row["sent_ns"] <= said["clock_ns"]
            assert row["first_ns"] >= -said["clock_ns"]
            assert row["lag_ns"] > 0
        assert said["lag_ns"] >= said["clock_ns"]
    assert here["clock_ns"] == 0
    assert here["notes"] == ["sent by 2 load workers"]
    assert apart["clock_ns"] > 0
    assert apart["notes"][0].startswith("sent by 2 load workers, clocks compared to within ")


def test_a_study_is_sent_by_the_cluster_into_the_one_ledger(cluster: dict[str, str], tmp_path: Path) -> None:
    study, out = tmp_path / "study.yaml", tmp_path / "out"
    study.write_text(STUDY)
    command = [sys.executable, "-m", "kvantage", "run", str(study), "--out", str(out), "--plain"]
    done = subprocess.run(
        [*command, "--load", "ray://auto", "--arms", "none", "--phases", "cold,repeat"],
        env=cluster,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    data = read_study(out)
    noted = {(window.key.phase, window.key.concurrency): window.notes for window in data.windows}
    assert noted["repeat", 2] == ("sent by 2 load workers",)
    assert noted["repeat", 1] == ("sent by 1 load worker",)
    assert all(window.lag_p99_ns is not None for window in data.windows)


@pytest.mark.parametrize("address", ["http://head:10001", "ray://", "local"])
def test_an_address_that_is_none_of_ray_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match="--load does not know"):
        RaySenders(address)


def test_without_ray_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError, match="Ray is not installed") as told:
        RaySenders("ray://auto")
    assert told.value.hint == "pip install 'kvantage[ray]'"
