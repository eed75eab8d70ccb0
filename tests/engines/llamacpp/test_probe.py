"""`kvantage probe` and `kvantage measure` on a real llama-server that runs already."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, STDOUT
from pathlib import Path

import pytest

from kvantage.analysis import analyse
from kvantage.core import Speculation
from kvantage.ledger import read_study
from kvantage.runner.probe import probe_server
from tests.engines.llamacpp.real import ENGINE, needs_llama_server, serving

pytestmark = [pytest.mark.engine, needs_llama_server, pytest.mark.timeout(300)]


async def test_a_server_that_drafts(toys: Path, tmp_path: Path) -> None:
    draft = Speculation("draft_model", 3, str(toys / "qwen3-draft"))
    async with serving(toys / "qwen3", tmp_path, draft) as server:
        await ENGINE.ready(server, 60)
        told = await probe_server(server.url)
        assert told.seen.told.engine == "llamacpp"
        assert told.drafting is True
        assert told.acceptance["code"].value > 1.1
        assert told.acceptance["code"].source == "counter delta"
        assert told.readings["effective_max_running"].value == 2
        assert "only in its log" in (told.readings["kv_pool_tokens"].missing or "")
        assert told.reports_cached
        assert told.repeat_hits
        judged = {one.kind: one for one in told.probes}
        assert judged["arithmetic"].asked == judged["json"].asked == 2
        assert not judged["image"].supported
        assert "image input is not supported" in str(judged["image"].why)
        assert told.advice == (
            "--verbosity 4, and its log to kvantage (--logs FILE): its KV pool, in tokens and bytes",
        )
        with_log = await probe_server(server.url, logs=[str(tmp_path / "server.log")])
        assert with_log.readings["kv_pool_tokens"].value == 2 * 2048
        assert with_log.readings["draft_kv_pool_bytes"].known
        assert with_log.advice == ()


async def test_one_that_caches_nothing_is_told_what_to_change(toys: Path, tmp_path: Path) -> None:
    flags = {"no-cache-prompt": True}
    async with serving(toys / "qwen3", tmp_path, flags=flags) as server:
        await ENGINE.ready(server, 60)
        told = await probe_server(server.url)
    assert told.repeat_hits is False
    assert "leave --no-cache-prompt out" in told.advice[0]


async def test_it_is_measured_with_its_log(toys: Path, tmp_path: Path) -> None:
    """Twice, into two folders: cold both times. Its pool's bytes come from its log."""
    async with serving(toys / "qwen3", tmp_path, Speculation("ngram", 4)) as server:
        await ENGINE.ready(server, 60)
        words = ["--as", "ngram", "--logs", str(tmp_path / "server.log"), "--plain"]
        for evening in ("first", "second"):
            folder = tmp_path / evening
            argv = [sys.executable, "-m", "kvantage", "measure", server.url, "--into", str(folder), *words]
            made = await asyncio.create_subprocess_exec(*argv, stdout=PIPE, stderr=STDOUT)
            said, _ = await made.communicate()
            assert made.returncode == 0, said.decode()[-4000:]
            data = read_study(folder)
            arm = analyse(data).arms[0]
            assert arm.pool.bytes.known
            reasons = [reason for cell in arm.cells for reason in cell.status.reasons]
            assert not [reason for reason in reasons if "cache" in reason]
        report = json.loads((tmp_path / "second" / "report.json").read_text())
        assert set(report["arms"]) == {"ngram"}
        assert server.process is not None
        assert server.process.exit_code() is None
        assert "action=erase" not in "\n".join(server.process.log_lines())
