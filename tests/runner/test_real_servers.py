"""The real vLLM, started by a script of one's own, and running already with somebody else's requests."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

import kvantage
from kvantage.analysis import analyse
from kvantage.core import Server, Speculation
from kvantage.engines import engine_named
from kvantage.hosts.local import LocalHost
from kvantage.ledger import read_study
from kvantage.runner.probe import probe_server
from kvantage.runner.seen import recognised
from kvantage.study import load_study
from tests.runner.test_attached import PHASES, ask, measured, study_at
from tests.runner.test_runner import Notes, nothing_left, run

MODEL = str(Path(kvantage.__file__).parent / "nano" / "qwen3")
there = bool(os.environ.get("VLLM_PYTHON")) or importlib.util.find_spec("vllm") is not None
pytestmark = [
    pytest.mark.proof,
    pytest.mark.timeout(400),
    pytest.mark.skipif(not there, reason="vLLM is not installed (`make engine`)"),
]
COMMON = {
    "dtype": "bf16",
    "context_length": 2048,
    "max_running_requests": 4,
    "pool_bytes": "35MiB",
    "eager": True,
}


async def test_own_scripts_start_the_real_engine(tmp_path: Path) -> None:
    python = os.environ.get("VLLM_PYTHON") or sys.executable
    (tmp_path / "up.sh").write_text(
        f'{python} -m vllm.entrypoints.openai.api_server "$@" >vllm.log 2>&1 &\necho $! >vllm.pid\n'
    )
    gone = "while kill -0 $(cat vllm.pid); do sleep 0.2; done 2>&-"
    (tmp_path / "down.sh").write_text(f"kill $(cat vllm.pid)\n{gone}\n")
    given = {
        "model": MODEL,
        "engine": "vllm",
        "common": COMMON,
        "control": "none",
        "arms": {"none": {}, "ngram": {"speculation": {"ngram": 4}}},
        "phases": {**PHASES, "short": {**PHASES["short"], "output_tokens": 128}},
        "boot": {
            "start": "sh up.sh {flags}",
            "stop": "sh down.sh",
            "url": "http://127.0.0.1:{port}",
            "logs": "./vllm.log",
            "record": "./up.sh",
        },
    }
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(given, sort_keys=False))
    notes = Notes()
    outcome = await run(load_study(tmp_path / "study.yaml"), tmp_path / "out", notes=notes)
    assert outcome.measured == ["none", "ngram"], outcome.failed
    assert nothing_left()
    arms = analyse(read_study(tmp_path / "out")).arms
    assert all(arm.pool.tokens.value and arm.pool.bytes.value for arm in arms)
    [short] = arms[1].cell("short", "code", 1)
    assert short.acceptance.length.known, short.status.reasons
    assert "KV cache size" in Path(notes.of("boot")[1]["log"]).read_text()


async def test_the_real_engine_that_runs_already(tmp_path: Path) -> None:
    """Probed, then measured twice: alone, and with a second client in the middle."""
    host, vllm = LocalHost(), engine_named("vllm")
    study = study_at(tmp_path, {"toy": "http://h"}, common=COMMON)
    arm = replace(
        study.arm_settings("toy"), engine="vllm", engine_options={}, speculation=Speculation("ngram", 4)
    )
    port = host.free_port()
    launch = vllm.command(arm, host.facts(), port)
    process = await host.start(launch.argv, launch.env, tmp_path / "vllm.log")
    url = f"http://127.0.0.1:{port}"
    try:
        await vllm.ready(Server(arm, url, "toy", launch, process), 300)
        probed = await probe_server(url)
        assert probed.drafting is True
        assert probed.seen.method == "ngram"
        assert probed.acceptance["code"].known
        assert probed.reports_cached
        assert probed.repeat_hits is True
        assert {one.kind: one.asked for one in probed.probes} == {
            "arithmetic": 2,
            "json": 2,
            "tool": 0,
            "image": 0,
        }
        for foreign in (False, True):
            attach = {"ngram": {"url": url, "logs": str(tmp_path / "vllm.log")}}
            study = await recognised(
                study_at(tmp_path, attach, seed=int(foreign), control={"arm": "ngram", "speculates": True})
            )
            assert study.arm_settings("ngram").speculation.drafts == 4
            task = asyncio.create_task(measured(study, tmp_path / f"out{foreign}"))
            while foreign and not task.done():
                await asyncio.to_thread(ask, url, "somebody else's question")
            await task
            cells = analyse(read_study(tmp_path / f"out{foreign}")).arms[0].cells
            voided = {any("foreign_traffic" in one for one in cell.status.reasons) for cell in cells}
            assert voided == {foreign}
        assert process.exit_code() is None
    finally:
        await process.stop()
