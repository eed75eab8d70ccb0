"""`kvantage exactness` on two real llama-servers, and on the runs that it leaves."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from kvantage.core import Speculation
from tests.engines.llamacpp.real import ENGINE, needs_llama_server, serving

pytestmark = [needs_llama_server, pytest.mark.engine, pytest.mark.timeout(300)]
PROMPTS = (
    {"id": "stack", "prompt": "Write a Python class `Stack`."},
    {"id": "sum", "prompt": "What is 34 + 25? Answer with the number only."},
)


async def kvantage(*words: str | Path, code: int) -> str:
    made = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "kvantage",
        *map(str, words),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await made.communicate()
    assert made.returncode == code, out.decode()[-4000:]
    return out.decode()


async def test_two_servers_then_the_run_against_itself(toys: Path, tmp_path: Path) -> None:
    target, draft = toys / "qwen3" / "model.gguf", toys / "qwen3-draft" / "model.gguf"
    prompts = tmp_path / "mine.jsonl"
    prompts.write_text("".join(json.dumps(each) + "\n" for each in PROMPTS))
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    async with (
        serving(target, tmp_path / "a") as off,
        serving(target, tmp_path / "b", Speculation("draft_model", 3, str(draft))) as on,
    ):
        await asyncio.gather(ENGINE.ready(off, 60), ENGINE.ready(on, 60))
        small = ("--output-tokens", "64", "--at-once", "2", "--samples", "0", "--tasks", "0", "--plain")
        run = tmp_path / "run"
        told = await kvantage(
            "exactness", off.url, on.url, "--prompts", prompts, *small, "--out", run, code=0
        )
        assert "bit-identical on 2 prompts" in told
        refused = await kvantage("exactness", on.url, off.url, "--out", tmp_path / "no", code=2)
        assert "speculates" in refused
        assert "cannot be the control" in refused
    again = json.loads(await kvantage("exactness", run, run, "--json", code=0))
    assert again["control"] == "A: off"
    assert again["arms"]["B: on"]["class"] == "bit-identical"
    assert again["arms"]["B: off"]["class"] == "bit-identical"
    mixed = await kvantage("exactness", run, "http://127.0.0.1:1", code=2)
    assert "give two of a kind" in mixed
