"""The real llama-server on kvantage's toy models: pools, drafts of each request, what is silently off."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from kvantage.core import ArmFailed, ServerSettings, Speculation
from kvantage.engines.llamacpp.gguf import cells_of
from kvantage.runner.tokens import counter_for
from kvantage.workloads.load import shipped_prompts
from tests.engines.llamacpp.real import ENGINE, SETTINGS, answered, needs_llama_server, serving

pytestmark = [pytest.mark.engine, needs_llama_server]
CODE = str(shipped_prompts("code")[0].messages[0]["content"])
REPEAT = "Repeat this line exactly, four times: one two three four five six seven eight nine ten."


def drafter(toys: Path, method: str) -> Speculation:
    return {
        "none": Speculation(),
        "ngram": Speculation("ngram", 4, options={"size-n": 3}),
        "draft_model": Speculation("draft_model", 3, str(toys / "qwen3-draft")),
    }[method]


@pytest.mark.parametrize("method", ["none", "ngram", "draft_model"])
async def test_every_arm_tells_its_pools_and_drafts(toys: Path, tmp_path: Path, method: str) -> None:
    """Pools to the byte, by the geometry in the model's file; drafts of requests and of counters agree."""
    async with serving(toys / "qwen3", tmp_path, drafter(toys, method)) as server:
        await ENGINE.ready(server, 60)
        facts = await ENGINE.facts(server)
        pool = 2 * 2048
        target, draft = (cells_of(toys / name / "model.gguf") for name in ("qwen3", "qwen3-draft"))
        assert target is not None
        assert draft is not None
        assert facts.reading("kv_pool_tokens").value == pool
        assert facts.reading("kv_pool_bytes").value == pool * target.bytes("f16")
        drafts = method == "draft_model"
        assert facts.reading("draft_kv_pool_bytes").known is drafts
        if drafts:
            assert facts.reading("draft_kv_pool_bytes").value == pool * draft.bytes("f16")
        assert bool(facts.speculation) is (method != "none")
        assert facts.warnings == ()
        before = await ENGINE.counters(server)
        used = [ENGINE.read_usage(await answered(server, text)) for text in (CODE, REPEAT)]
        moved = ENGINE.delta(before, await ENGINE.counters(server)).counters
        assert [usage.output_tokens for usage in used] == [48, 48]
        assert moved["generation_tokens"] == 96
        assert moved["drafted_tokens"] == sum(usage.drafted_tokens or 0 for usage in used)
        assert moved["accepted_tokens"] == sum(usage.accepted_tokens or 0 for usage in used)
        assert (moved["accepted_tokens"] > 0) is (method != "none")


async def test_a_pool_is_shared_where_slots_want_more_than_there_is(toys: Path, tmp_path: Path) -> None:
    shared = ServerSettings(max_running_requests=4, context_length=2048, pool_tokens=4096)
    async with serving(toys / "qwen3", tmp_path, settings=shared) as server:
        await ENGINE.ready(server, 60)
        facts = await ENGINE.facts(server)
        assert facts.reading("kv_pool_tokens").value == 4096
        assert facts.reading("effective_max_running").value == 4


async def test_a_drafter_that_went_missing_fails_the_arm(toys: Path, tmp_path: Path) -> None:
    """Such a server comes up healthy, answers, and drafts nothing."""
    flags = {"spec-type": "draft-simple"}
    async with serving(toys / "qwen3", tmp_path, flags=flags) as server:
        wanted = replace(server, arm=replace(server.arm, speculation=drafter(toys, "draft_model")))
        with pytest.raises(ArmFailed, match="speculation `draft_model` is off"):
            await ENGINE.ready(wanted, 60)


async def test_a_drafter_that_nobody_asked_for_fails_the_arm(toys: Path, tmp_path: Path) -> None:
    async with serving(toys / "qwen3", tmp_path, drafter(toys, "ngram")) as server:
        plain = replace(server, arm=replace(server.arm, speculation=Speculation()))
        with pytest.raises(ArmFailed, match="drafts, though this arm has no speculation"):
            await ENGINE.ready(plain, 60)


async def test_a_server_with_a_stream_alive_ends_in_time(toys: Path, tmp_path: Path) -> None:
    """It waits for its stream to end, which may be long: the stop ends it all the same."""
    settings = replace(SETTINGS, context_length=16384)
    async with serving(toys / "qwen3", tmp_path, settings=settings) as server:
        await ENGINE.ready(server, 60)
        assert server.process is not None
        stream = asyncio.create_task(answered(server, CODE, 8000))
        await asyncio.sleep(0.5)
        assert not stream.done()
        began = time.monotonic()
        await server.process.stop(1.0)
        assert time.monotonic() - began < 8
        assert server.process.exit_code() is not None
        with suppress(OSError):
            await stream


@pytest.mark.parametrize("method", ["none", "draft_model"])
async def test_logprobs_are_placeholders_where_it_drafts(toys: Path, tmp_path: Path, method: str) -> None:
    """So a check of them there could not fail: outputs are scored again on a server without speculation."""
    async with serving(toys / "qwen3", tmp_path, drafter(toys, method)) as server:
        await ENGINE.ready(server, 60)
        told = await answered(server, REPEAT, 24, logprobs=True, top_logprobs=1)
        chosen = [one["logprob"] for one in told["choices"][0]["logprobs"]["content"]]
        assert len(chosen) == 24
        assert all(value == 0.0 for value in chosen[1:]) is (
            method == "draft_model"
        )  # the first is the prompt's own
        drafted = ENGINE.read_usage(told).drafted_tokens
        assert bool(drafted) is (method == "draft_model")


async def test_its_own_count_of_tokens_is_the_tokenizers(toys: Path, tmp_path: Path) -> None:
    """Where no tokenizer.json is at hand, /tokenize is asked; a special word counts as one token."""
    exact = Tokenizer.from_file(str(toys / "qwen3" / "tokenizer.json"))
    async with serving(toys / "qwen3", tmp_path) as server:
        await ENGINE.ready(server, 60)
        count = await asyncio.to_thread(counter_for, "somebody/elses-name", server)
        for text in (CODE, REPEAT, "", "é ☃ \U0001f600", "<tool_call>{}</tool_call>"):
            told = await asyncio.to_thread(count, text)
            assert told == len(exact.encode(text, add_special_tokens=False).ids), text
