"""How likely given tokens are, by vLLM: `prompt_logprobs` of a prompt that ends with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kvantage.core import Scores, ScoringError, Server
from kvantage.engines.http import ask
from kvantage.engines.scoring import RIVALS, first_choice, number, scores_of, token_ids, told_by

TIMEOUT_S = 600.0


def read_ids(body: Mapping[str, Any]) -> tuple[int, ...] | None:
    """The token ids of a whole chat response."""
    return token_ids(first_choice(body).get("token_ids"))


async def score(
    server: Server,
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]],
    output_ids: Sequence[int],
    key: str | None = None,
) -> Scores:
    """Score an answer's tokens. Raises ScoringError, OSError when the server does not answer."""
    prompt = await _prompt_ids(server, messages, tools, key)
    body = {
        "model": server.served_name,
        "prompt": [*prompt, *output_ids],
        "max_tokens": 1,
        "temperature": 0.0,
        "prompt_logprobs": RIVALS,
    }
    answer = await ask(f"{server.url}/v1/completions", body=body, timeout_s=TIMEOUT_S, key=key)
    return read_scores(told_by(answer, "/v1/completions"), len(prompt), output_ids)


def read_scores(told: Mapping[str, Any], prompt_tokens: int, output_ids: Sequence[int]) -> Scores:
    """The scores in a response to a prompt of `prompt_tokens` tokens and then the answer's."""
    rows = first_choice(told).get("prompt_logprobs") or told.get("prompt_logprobs")
    if not isinstance(rows, list):
        raise ScoringError("the server told no `prompt_logprobs`")
    positions, texts = [], {}
    for row in rows[prompt_tokens:]:
        position: dict[int, float] = {}
        for name, one in row.items() if isinstance(row, Mapping) else ():
            value = number(one.get("logprob")) if isinstance(one, Mapping) else None
            if value is not None and str(name).lstrip("-").isdigit():
                position[int(name)] = value
                texts[int(name)] = str(one.get("decoded_token") or "")
        positions.append(position)
    return scores_of(output_ids, positions, texts)


async def _prompt_ids(
    server: Server,
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]],
    key: str | None,
) -> tuple[int, ...]:
    body: dict[str, Any] = {
        "model": server.served_name,
        "messages": list(messages),
        "add_generation_prompt": True,
    }
    if tools:
        body["tools"] = list(tools)
    told = told_by(await ask(f"{server.url}/tokenize", body=body, timeout_s=60, key=key), "/tokenize")
    ids = token_ids(told.get("tokens"))
    if not ids:
        raise ScoringError("the server's /tokenize told no token ids of the prompt")
    return ids
