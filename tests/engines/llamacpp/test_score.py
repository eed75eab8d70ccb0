"""The real llama-server scores an answer's tokens, one at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kvantage.core import Server, Speculation
from kvantage.engines.http import ask
from tests.engines.llamacpp.real import ENGINE, needs_llama_server, serving

pytestmark = [needs_llama_server]
MESSAGES = [{"role": "user", "content": "Write a Python class `Stack`."}]


async def whole(server: Server, tokens: int) -> Any:
    body = {
        "model": "arm",
        "messages": MESSAGES,
        "temperature": 0,
        **ENGINE.request_extras(server, output_tokens=tokens),
        **ENGINE.whole_extras(server),
        "stream_options": None,
    }
    return (await ask(f"{server.url}/v1/chat/completions", body=body, timeout_s=60)).json()


async def test_a_greedy_answers_tokens_are_the_likeliest_and_a_wrong_one_is_not(
    toys: Path, tmp_path: Path
) -> None:
    target, draft = toys / "qwen3" / "model.gguf", toys / "qwen3-draft" / "model.gguf"
    async with serving(target, tmp_path, Speculation("draft_model", 3, str(draft))) as server:
        await ENGINE.ready(server, 60)
        body = await whole(server, 24)
        ids = ENGINE.read_ids(body)
    assert ids is not None
    assert len(ids) == 24
    async with serving(target, tmp_path) as server:
        await ENGINE.ready(server, 60)
        scores = await ENGINE.score(server, MESSAGES, [], ids)
        spoiled = (*ids[:10], ids[10] + 1, *ids[11:])
        wrong = await ENGINE.score(server, MESSAGES, [], spoiled[:11])
    assert len(scores.chosen) == 24
    assert max(scores.gaps) < 0.5
    assert sum(gap == 0 for gap in scores.gaps) >= 22
    assert wrong.gaps[10] > max(scores.gaps)
    assert wrong.best_id[10] == ids[10]
