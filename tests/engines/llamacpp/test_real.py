"""The real llama-server on a tiny model: every arm that it needs, and a drafter that is silently none."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from kvantage.core import ArmFailed, Server, ServerSettings, Speculation
from kvantage.engines.http import ask
from kvantage.engines.llamacpp import Llamacpp
from tests.engines.llamacpp.real import needs_llama_server, serving
from tests.engines.llamacpp.tiny import write_model

pytestmark = [pytest.mark.engine, needs_llama_server]
ENGINE = Llamacpp()


def tiny_serving(
    folder: Path, speculation: Speculation, **changes: Any
) -> AbstractAsyncContextManager[Server]:
    """A llama-server of the tiny model, with two slots of a short context."""
    settings = ServerSettings(max_running_requests=2, context_length=1024, chunked_prefill=256)
    model = write_model(folder / "model.gguf")
    return serving(model, folder, speculation, settings=settings, **changes)


async def generate(server: Server, tokens: int = 24) -> Any:
    body = {
        "model": "arm",
        "messages": [{"role": "user", "content": "aaaa bbbb aaaa bbbb aaaa bbbb"}],
        "temperature": 0,
        **ENGINE.request_extras(server, output_tokens=tokens),
    }
    return (await ask(f"{server.url}/v1/chat/completions", body=body, timeout_s=30)).json()


@pytest.mark.parametrize("method", ["none", "ngram", "draft_model"])
async def test_an_arm_is_started_read_and_stopped(tmp_path: Path, method: str) -> None:
    draft = str(write_model(tmp_path / "draft.gguf"))
    speculation = {
        "none": Speculation(),
        "ngram": Speculation("ngram", 4, options={"size-n": 2}),
        "draft_model": Speculation("draft_model", 3, draft, draft_kv_dtype="q8_0"),
    }[method]
    async with tiny_serving(tmp_path, speculation) as server:
        await ENGINE.ready(server, 30)
        facts = await ENGINE.facts(server)
        assert facts.reading("kv_pool_tokens").value == 2048
        assert facts.reading("effective_max_running").value == 2
        assert facts.reading("context_length").value == 1024
        assert facts.reading("draft_kv_pool_bytes").known is (method == "draft_model")
        assert bool(facts.speculation) is (method != "none")
        assert facts.warnings == ()
        before = await ENGINE.counters(server)
        usage = ENGINE.read_usage(await generate(server))
        assert usage.output_tokens == 24
        moved = ENGINE.delta(before, await ENGINE.counters(server))
        assert moved.counters["generation_tokens"] == 24
        assert (moved.counters["drafts"] > 0) is (method == "draft_model") or method == "ngram"
        assert moved.counters["accepted_tokens"] == (usage.accepted_tokens or 0)
        again = ENGINE.read_usage(await generate(server))
        low, high = ENGINE.expected_cached(usage.prompt_tokens or 0, facts)
        assert low <= (again.cached_tokens or 0) <= high
        assert (again.cached_tokens or 0) > 20
        assert (await ENGINE.flush_cache(server)).believed
        assert (ENGINE.read_usage(await generate(server)).cached_tokens or 0) <= 1
        log = ENGINE.read_log(server.process.log_lines() if server.process else [])
        assert (len(log.windows) > 0) is (method == "draft_model") or method == "ngram"


async def test_a_drafter_that_does_not_fit_fails_the_arm(tmp_path: Path) -> None:
    draft = write_model(tmp_path / "draft.gguf")
    async with tiny_serving(tmp_path, Speculation("eagle3", 3, str(draft))) as server:
        with pytest.raises(
            ArmFailed, match="speculation `eagle3` is off: draft model is not eagle3"
        ) as failure:
            await ENGINE.ready(server, 30)
        assert any("not eagle3" in line for line in failure.value.log_lines)


async def test_a_flag_that_there_is_not_says_so(tmp_path: Path) -> None:
    async with tiny_serving(tmp_path, Speculation(), flags={"nope": True}) as server:
        with pytest.raises(ArmFailed, match="died while starting") as failure:
            await ENGINE.ready(server, 30)
        assert failure.value.log_lines == ("error: invalid argument: --nope",)
