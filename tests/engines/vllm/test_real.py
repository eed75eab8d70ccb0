"""The real vLLM on this machine's processor, with the small models that ship with kvantage."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import kvantage
from kvantage.core import ArmFailed, ArmSettings, Server, ServerSettings, Speculation
from kvantage.engines import engine_named
from kvantage.hosts import LocalHost
from kvantage.hosts.process import strays

NANO = Path(kvantage.__file__).parent / "nano"
SETTINGS = ServerSettings(
    context_length=4096,
    max_running_requests=4,
    pool_bytes=40 << 20,
    chunked_prefill=2048,
    dtype="bfloat16",
    page_size=32,
    eager=True,
)
ARMS = {
    "none": Speculation(),
    "ngram": Speculation("ngram", 4),
    "draft_model": Speculation("draft_model", 3, str(NANO / "qwen3-draft")),
    "dflash": Speculation("dflash", 5, str(NANO / "qwen3-dflash")),
}
TEXT = "def add(first, second):\n    return first + second\n\n" * 60

there = bool(os.environ.get("VLLM_PYTHON")) or importlib.util.find_spec("vllm") is not None
pytestmark = [
    pytest.mark.skipif(not there, reason="vLLM is not installed (`make engine`)"),
    pytest.mark.skipif(not (NANO / "qwen3" / "model.safetensors").exists(), reason="no nano model"),
    pytest.mark.timeout(240),
]
vllm = engine_named("vllm")


def arm(name: str, **more: Any) -> ArmSettings:
    """An arm on the Qwen3-shaped nano model, which every processor can serve in every way."""
    return ArmSettings(
        name=name,
        engine="vllm",
        model=str(NANO / "qwen3"),
        settings=more.pop("settings", SETTINGS),
        speculation=more.pop("speculation", ARMS.get(name, Speculation())),
        **more,
    )


@asynccontextmanager
async def started(settings: ArmSettings, folder: Path) -> AsyncIterator[Server]:
    """A server of that arm, stopped in the end with nothing left."""
    host = LocalHost()
    port = host.free_port()
    launch = vllm.command(settings, host.facts(), port)
    process = await host.start(launch.argv, launch.env, folder / "server.log")
    try:
        yield Server(settings, f"http://127.0.0.1:{port}", settings.name, launch, process)
    finally:
        await process.stop()
        assert process.descendants() == []


async def stream(server: Server, text: str, tokens: int) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """One streamed chat: its chunks, and the last ones merged."""
    body = {
        "model": server.served_name,
        "messages": [{"role": "user", "content": text}],
        "temperature": 0.0,
        "stream": True,
        **vllm.request_extras(server, output_tokens=tokens),
    }

    def send() -> list[dict[str, Any]]:
        request = urllib.request.Request(
            f"{server.url}/v1/chat/completions",
            data=json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=100) as response:
            events = response.read().decode().split("\n\n")
        return [json.loads(event[6:]) for event in events if event.startswith("data: {")]

    chunks = await asyncio.to_thread(send)
    final: dict[str, Any] = {}
    for chunk in chunks:
        final |= {name: value for name, value in chunk.items() if value is not None}
    return chunks, final


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("none", marks=pytest.mark.engine),
        pytest.param("ngram", marks=pytest.mark.proof),
        pytest.param("draft_model", marks=pytest.mark.engine),
        pytest.param("dflash", marks=pytest.mark.proof),
    ],
)
async def test_an_arm_from_start_to_stop(name: str, tmp_path: Path) -> None:
    settings = arm(name)
    assert vllm.problems(settings, LocalHost().facts()) == []
    async with started(settings, tmp_path) as server:
        await vllm.ready(server, 200)
        facts = await vllm.facts(server)
        per_token = {"none": 3072, "ngram": 3072, "draft_model": 3584, "dflash": 4096}[name]
        blocks = (40 << 20) // (32 * per_token)
        assert facts.reading("kv_block_tokens").value == 32
        assert facts.reading("kv_pool_blocks").value == blocks
        assert facts.reading("kv_pool_tokens").value == blocks * 32
        assert facts.reading("kv_pool_bytes").value == blocks * 32 * per_token
        assert facts.reading("context_length").value == 4096
        assert facts.reading("effective_max_running").value == 4
        assert facts.prefix_caching is True
        assert facts.speculation.get("method", "none") == name
        assert facts.warnings == ()
        assert facts.engine_version

        before = await vllm.counters(server)
        chunks, final = await stream(server, TEXT, 48)
        usage = vllm.read_usage(final)
        moved = vllm.delta(before, await vllm.counters(server))
        ids = [len(choice.get("token_ids") or ()) for chunk in chunks for choice in chunk["choices"]]
        assert usage.output_tokens == sum(ids) == 48
        assert moved.counters["generation_tokens"] == 48
        assert moved.counters["prompt_tokens"] == usage.prompt_tokens
        assert moved.counters["decode_steps"] <= 47
        assert usage.cached_tokens is not None
        assert usage.queue_s is not None
        if name == "none":
            assert usage.spec_steps is None
            assert "drafts" not in moved.counters
            assert moved.counters["decode_steps"] == 47
        else:
            assert moved.counters["drafts"] == usage.spec_steps
            assert moved.counters["accepted_tokens"] == usage.accepted_tokens
            assert moved.counters["drafted_tokens"] == usage.drafted_tokens
            assert moved.accepted_per_position is not None
            assert sum(moved.accepted_per_position) == usage.accepted_tokens

        _, again = await stream(server, TEXT, 8)
        warm = vllm.read_usage(again)
        assert warm.prompt_tokens is not None
        assert warm.cached_tokens is not None
        low, high = vllm.expected_cached(warm.prompt_tokens, facts)
        assert 0 < low <= warm.cached_tokens <= high
        lost = 2 if name == "dflash" else 1  # whole blocks, and one more for a drafter on hidden states
        assert warm.prompt_tokens - warm.cached_tokens <= lost * 32

        assert (await vllm.flush_cache(server)).believed
        _, cold = await stream(server, TEXT, 8)
        assert vllm.read_usage(cold).cached_tokens == 0

        looked = await vllm.gauges(server)
        assert looked["running"] == looked["waiting"] == 0
        await asyncio.sleep(2.5)  # the log's own interval
        assert server.process is not None
        log = vllm.read_log(server.process.log_lines())
        assert log.readings["kv_pool_tokens"].value == blocks * 32
        assert log.errors == ()
        assert ("drafted_tokens" in log.readings) == bool(moved.counters.get("drafted_tokens"))


@pytest.mark.proof
async def test_a_server_that_dies_at_its_first_request(tmp_path: Path) -> None:
    config = {
        "method": "ngram",
        "num_speculative_tokens": 3,
        "rejection_sample_method": "synthetic",
        "synthetic_acceptance_length": 2.0,
    }
    settings = arm("dying", flags={"speculative-config": config})
    async with started(settings, tmp_path) as server:
        with pytest.raises(ArmFailed) as failure:
            await vllm.ready(server, 200)
    assert "starts healthy" in failure.value.message
    assert (
        failure.value.log_lines[0] == "AssertionError: Synthetic acceptance not supported with CPU sampling"
    )


@pytest.mark.proof
@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"flags": {"nonsense-flag": 3}}, "unrecognized arguments: --nonsense-flag"),
        (
            {"settings": ServerSettings(context_length=4096, pool_bytes=1 << 20, eager=True)},
            "To serve at least one request",
        ),
    ],
)
async def test_a_server_that_dies_while_starting(tmp_path: Path, more: dict[str, Any], words: str) -> None:
    async with started(arm("dying", **more), tmp_path) as server:
        with pytest.raises(ArmFailed, match="died while starting") as failure:
            await vllm.ready(server, 200)
    assert words in failure.value.log_lines[0]


@pytest.mark.proof
async def test_kvantage_killed_while_it_serves(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    launch = vllm.command(arm("none"), LocalHost().facts(), LocalHost().free_port())
    script.write_text(
        "import asyncio\n"
        "from pathlib import Path\n"
        "from kvantage.hosts import LocalHost\n"
        "async def main():\n"
        f"    process = await LocalHost().start({launch.argv!r}, {launch.env!r},"
        f" Path({str(tmp_path)!r}) / 'log')\n"
        "    print(process._mark, process.pid, flush=True)\n"
        "    await asyncio.sleep(600)\n"
        "asyncio.run(main())\n"
    )
    command = [sys.executable, str(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:  # noqa: ASYNC220
        try:
            assert running.stdout is not None
            mark, guard = running.stdout.readline().split()
            while "Application startup complete" not in (tmp_path / "log").read_text():
                assert strays(mark, int(guard))
                await asyncio.sleep(0.2)
            family = strays(mark, int(guard))
        finally:
            running.send_signal(signal.SIGKILL)
    assert len(family) >= 4  # the guard, the server, its engine, its worker
    until = time.monotonic() + 30
    while strays(mark, int(guard)):
        assert time.monotonic() < until
        await asyncio.sleep(0.2)
