"""`kvantage run` with load workers, and on a machine whose client is kept waiting."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from kvantage.calibrate import Calibration, machine, store
from kvantage.cli import invoke as run
from kvantage.ledger import read_study
from kvantage.version import __version__
from tests.sim.test_study_run import STUDY


def cells_of(out: Path) -> dict[tuple[str, str, int], dict[str, Any]]:
    report = json.loads((out / "report.json").read_text())
    return {
        (name, cell["phase"], cell["concurrency"]): cell
        for name, arm in report["arms"].items()
        for cell in arm["cells"]
    }


def test_workers_send_and_their_records_come_to_the_one_ledger(tmp_path: Path) -> None:
    study, out = tmp_path / "study.yaml", tmp_path / "out"
    study.write_text(STUDY)
    assert run(["run", str(study), "--out", str(out), "--plain", "--load-workers", "2"]) == 0
    data = read_study(out)
    noted = {(window.key.phase, window.key.concurrency): window.notes for window in data.windows}
    assert noted["cold", 2] == noted["repeat", 2] == ("sent by 2 load workers",)
    assert noted["cold", 1] == noted["short", 1] == (), "one request needs no second process"
    assert all(window.lag_p99_ns is not None for window in data.windows), "each worker told its own delay"
    two = cells_of(out)["ngram", "repeat", 2]
    assert two["requests"]["value"] == 2
    assert two["cached_tokens"]["value"] > 1900
    assert "sent by 2 load workers" in (out / "report.md").read_text()


HOG = """
import os, sys, time
os.sched_setaffinity(0, {int(sys.argv[1])})
try:
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
except PermissionError:
    rest_s = 0.0
else:
    rest_s = 0.015
while os.getppid() == int(sys.argv[2]):
    end = time.monotonic() + 0.015
    while time.monotonic() < end:
        pass
    time.sleep(rest_s)
"""


@contextlib.contextmanager
def loaded(cpu: int, hogs: int) -> Iterator[None]:
    """Keep a processor busy, ahead of everybody where the system lets us."""
    command = [sys.executable, "-c", HOG, str(cpu), str(os.getpid())]
    running = [subprocess.Popen(command) for _ in range(hogs)]
    try:
        yield
    finally:
        for each in running:
            each.kill()
            each.wait()


@pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity") or len(os.sched_getaffinity(0)) < 2,
    reason="the client and the server each need a processor",
)
def test_a_study_whose_client_is_kept_waiting_voids_its_own_cells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, out = tmp_path / "study.yaml", tmp_path / "out"
    study.write_text(STUDY.replace("concurrency: [1, 2]", "concurrency: [2]"))
    mine, *others = sorted(os.sched_getaffinity(0))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    os.sched_setaffinity(0, {mine})
    store(Calibration((), machine(), "2026-01-01T00:00:00+00:00", __version__, quick=False))
    command = [sys.executable, "-m", "kvantage", "run", str(study), "--out", str(out), "--plain"]
    with loaded(mine, 1 if os.geteuid() == 0 else 6):
        with (tmp_path / "said.txt").open("w") as output:
            client = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        os.sched_setaffinity(0, {mine, *others})
        while client.poll() is None:
            with contextlib.suppress(psutil.Error, OSError):
                for server in psutil.Process(client.pid).children(recursive=True):
                    os.sched_setaffinity(server.pid, set(others))
            time.sleep(0.05)
    said = (tmp_path / "said.txt").read_text()
    assert client.returncode == 0, said
    cells = cells_of(out)
    late = [cell for cell in cells.values() if any("client_on_time" in why for why in cell["reasons"])]
    assert len(late) == len(cells), {key: cell["reasons"] for key, cell in cells.items()}
    assert all(cell["status"] == "void" for cell in late)
    assert "client\\_on\\_time: the client was late by" in (out / "report.md").read_text()
    assert "client_on_time" in said
