"""The main job as a person runs it: the command, the real vLLM, the nano models."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jsonschema
import psutil
import pytest
import yaml

import kvantage
from kvantage.hosts.process import MARK
from kvantage.ledger import read_study
from kvantage.study import packaged_study

PACKAGE = Path(kvantage.__file__).parent
SCHEMA = Path(__file__).parents[2] / "schema" / "report.schema.json"
there = bool(os.environ.get("VLLM_PYTHON")) or importlib.util.find_spec("vllm") is not None
pytestmark = [
    pytest.mark.skipif(not there, reason="vLLM is not installed (`make engine`)"),
    pytest.mark.timeout(900),
]

SMALL = {
    "probes": {"output_tokens": 64},
    "short": {"warmup": 1, "repeats": 2, "output_tokens": 64},
    "cold": {"document_tokens": 2000, "concurrency": [1, 4], "output_tokens": 128},
    "repeat": {"output_tokens": 256},
}


def small_study(folder: Path, arms: list[str], **changes: Any) -> Path:
    """The quickstart's own study with fewer arms and smaller phases."""
    plain = yaml.safe_load(packaged_study("quickstart").read_text())
    plain["arms"] = {name: plain["arms"][name] for name in arms}
    plain |= {"phases": SMALL, "budget": None, **changes}
    plain["policy"]["min_sessions"] = {"count": 4, "tokens": 2400}
    path = folder / "small.yaml"
    path.write_text(yaml.safe_dump({k: v for k, v in plain.items() if v is not None}, sort_keys=False))
    return path


def command(*words: str | Path) -> list[str]:
    return [sys.executable, "-m", "kvantage", *map(str, words)]


def run(*words: str | Path, code: int = 0) -> str:
    done = subprocess.run(command(*words), capture_output=True, text=True, timeout=800, check=False)
    assert done.returncode == code, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout + done.stderr


def cells(folder: Path) -> set[tuple[Any, ...]]:
    """(arm, block, phase, workload, concurrency) of every cell that was measured whole."""
    return {
        (w.key.arm, w.key.block, w.key.phase, w.key.workload, w.key.concurrency)
        for w in read_study(folder).windows
        if w.complete
    }


def of_a_boot() -> list[psutil.Process]:
    """Every living process of any boot: by its mark, or by the name that the engine gives its own processes
    (which hides the mark)."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.status() == psutil.STATUS_ZOMBIE:
                continue
            if process.name().startswith("VLLM::") or process.environ().get(MARK):
                found.append(process)
        except psutil.Error:
            continue
    return found


def wait_until_nothing_is_left(within_s: float = 60) -> None:
    until = time.monotonic() + within_s
    while of_a_boot():
        assert time.monotonic() < until, f"left running: {of_a_boot()}"
        time.sleep(0.2)


@contextmanager
def running(*words: str | Path) -> Iterator[subprocess.Popen[str]]:
    started = subprocess.Popen(
        command(*words), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    try:
        yield started
    finally:
        if started.poll() is None:
            started.kill()
        if started.stdout:
            started.stdout.close()
        started.wait()


def until_line(started: subprocess.Popen[str], words: str) -> list[str]:
    """What it prints up to the line that holds those words."""
    assert started.stdout is not None
    seen = []
    for line in started.stdout:
        seen.append(line)
        if words in line:
            return seen
    raise AssertionError(f"it ended before {words!r}:\n" + "".join(seen[-40:]))


@pytest.mark.engine
def test_two_arms_are_compared_and_what_a_small_pool_does_is_kept(tmp_path: Path) -> None:
    study, out = small_study(tmp_path, ["none", "dflash"]), tmp_path / "out"
    shown = run("run", study, "--out", out, "--plain")
    assert "instrument on a toy model" in shown
    report = json.loads((out / "report.json").read_text())
    jsonschema.validate(report, json.loads(SCHEMA.read_text()))
    assert (out / "report.md").read_text().splitlines()[0].startswith("**The instrument on a toy model")

    arms = report["arms"]
    assert {arm["status"] for arm in arms.values()} == {"measured"}
    assert arms["dflash"]["kv_pool"]["tokens"]["value"] < arms["none"]["kv_pool"]["tokens"]["value"]
    assert all(arm["recall"] for arm in arms.values())

    by_cell = {
        (name, cell["phase"], cell["workload"], cell["concurrency"]): cell
        for name, arm in arms.items()
        for cell in arm["cells"]
    }
    alone = by_cell["none", "repeat", "documents", 1]
    assert alone["cached_tokens"]["source"] == "request"
    assert alone["cached_tokens"]["value"] >= alone["expected_cached_tokens"]["low"] > 1500
    crowded = by_cell["dflash", "repeat", "documents", 4]
    assert crowded["status"] == "void"
    assert "evicted" in crowded["finding"]
    assert any(reason.startswith("cache_warm") for reason in crowded["reasons"])
    drafted = by_cell["dflash", "short", "code", 1]
    assert drafted["acceptance_length"]["value"] > 1.2
    wait_until_nothing_is_left()

    # the same report from the ledger alone
    before = (out / "report.json").read_bytes()
    run("report", out)
    assert (out / "report.json").read_bytes() == before


@pytest.mark.engine
def test_an_engine_killed_in_mid_wave_fails_its_arm_alone(tmp_path: Path) -> None:
    study, out = small_study(tmp_path, ["none", "ngram"]), tmp_path / "out"
    with running("run", study, "--out", out, "--plain") as started:
        until_line(started, "none#0: ready")
        until_line(started, "none#0: short code")
        below = psutil.Process(started.pid).children(recursive=True)
        victims = [p for p in below if "EngineCor" in p.name() or "EngineCore" in " ".join(p.cmdline())]
        assert victims
        for victim in victims:
            victim.kill()
        rest, _ = started.communicate(timeout=400)
        assert started.returncode == 5, rest
    assert "FAILED" in rest
    report = json.loads((out / "report.json").read_text())
    assert report["arms"]["none"]["status"] == "partial"  # what it had finished before counts
    assert report["arms"]["none"]["log_lines"]
    assert report["arms"]["ngram"]["status"] == "measured"
    assert any(cell["status"] == "void" for cell in report["arms"]["none"]["cells"])
    wait_until_nothing_is_left()


@pytest.mark.proof
def test_killed_in_the_third_arm_and_resumed_it_has_the_same_cells(tmp_path: Path) -> None:
    arms = ["none", "ngram", "draft_model", "dflash"]
    study = small_study(tmp_path, arms)
    run("run", study, "--out", tmp_path / "whole", "--plain")
    with running("run", study, "--out", tmp_path / "cut", "--plain") as started:
        until_line(started, "draft_model#0: short code")
        os.kill(started.pid, signal.SIGKILL)
        started.wait()
    wait_until_nothing_is_left()
    assert cells(tmp_path / "cut") < cells(tmp_path / "whole")
    shown = run("run", study, "--out", tmp_path / "cut", "--plain", "--resume")
    assert "measured before and kept: none, ngram" in shown
    assert cells(tmp_path / "cut") == cells(tmp_path / "whole")


@pytest.mark.proof
def test_ctrl_c_stops_with_grace_and_a_second_one_at_once(tmp_path: Path) -> None:
    study = small_study(tmp_path, ["none"])
    for presses in (1, 2):
        with running("run", study, "--out", tmp_path / f"out{presses}", "--plain") as started:
            until_line(started, "none#0: short code")
            for _ in range(presses):
                os.kill(started.pid, signal.SIGINT)
                time.sleep(0.3)
            began = time.monotonic()
            rest, _ = started.communicate(timeout=60)
        assert started.returncode == 130, rest
        assert "--resume" in rest
        assert presses == 1 or time.monotonic() - began < 10
        wait_until_nothing_is_left(5)
        assert (tmp_path / f"out{presses}" / "report.json").is_file()
