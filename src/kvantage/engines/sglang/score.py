"""How likely given tokens are, by SGLang: `/generate` with the logprobs of its input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kvantage.core import Scores, ScoringError, Server
from kvantage.engines.http import ask
from kvantage.engines.scoring import RIVALS, first_choice, number, scores_of, token_ids, told_by

TIMEOUT_S = 600.0


def read_ids(body: Mapping[str, Any]) -> tuple[int, ...] | None:
    """The token ids of a whole chat response, asked for by `return_token_ids`."""
    choice = first_choice(body)
    return token_ids(choice.get("response_token_ids")) or token_ids(choice.get("token_ids"))


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
        "input_ids": [*prompt, *output_ids],
        "sampling_params": {"max_new_tokens": 1, "temperature": 0.0},
        "return_logprob": True,
        "logprob_start_len": 0,
        "top_logprobs_num": RIVALS,
        "return_text_in_logprobs": True,
    }
    answer = await ask(f"{server.url}/generate", body=body, timeout_s=TIMEOUT_S, key=key)
    return read_scores(told_by(answer, "/generate"), len(prompt), output_ids)


def read_scores(told: Mapping[str, Any], prompt_tokens: int, output_ids: Sequence[int]) -> Scores:
    """The scores in a response of /generate: `meta_info.input_token_logprobs` and `input_top_logprobs`, each
    entry a (logprob, id, text); the first token of a prompt has none.
    """
    meta = told.get("meta_info")
    meta = meta if isinstance(meta, Mapping) else {}
    chosen, top = meta.get("input_token_logprobs"), meta.get("input_top_logprobs")
    if not isinstance(chosen, list):
        raise ScoringError("the server told no `input_token_logprobs`")
    # aligned at the end: some versions leave the first token out
    wanted = len(output_ids)
    rows = chosen[len(chosen) - wanted :] if len(chosen) >= prompt_tokens + wanted - 1 else []
    tops = top[len(top) - wanted :] if isinstance(top, list) and len(top) >= wanted else [None] * len(rows)
    positions, texts = [], {}
    for row, others in zip(rows, tops, strict=False):
        position: dict[int, float] = {}
        for entry in [*(others if isinstance(others, list) else ()), row]:
            if not isinstance(entry, list | tuple) or len(entry) < 2 or type(entry[1]) is not int:
                continue
            value = number(entry[0])
            if value is not None:
                position[entry[1]] = value
                if len(entry) > 2 and isinstance(entry[2], str):
                    texts[entry[1]] = entry[2]
        positions.append(position)
    if not any(len(position) > 1 for position in positions):
        raise ScoringError("the server told no `input_top_logprobs`, so that no gap can be computed")
    return scores_of(output_ids, positions, texts)


async def _prompt_ids(
    server: Server,
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]],
    key: str | None,
) -> tuple[int, ...]:
    """The prompt as the chat template makes it: told with a chat of one token, else by /tokenize."""
    body: dict[str, Any] = {
        "model": server.served_name,
        "messages": list(messages),
        "max_tokens": 1,
        "temperature": 0.0,
        "return_token_ids": True,
        "return_prompt_token_ids": True,
    }
    if tools:
        body["tools"] = list(tools)
    answer = await ask(f"{server.url}/v1/chat/completions", body=body, timeout_s=TIMEOUT_S, key=key)
    told = answer.json()
    if isinstance(told, Mapping) and (ids := token_ids(first_choice(told).get("prompt_token_ids"))):
        return ids
    del body["max_tokens"], body["temperature"], body["return_token_ids"], body["return_prompt_token_ids"]
    told = (await ask(f"{server.url}/tokenize", body=body, timeout_s=60, key=key)).json()
    ids = token_ids(told.get("tokens")) if isinstance(told, Mapping) else None
    if not ids:
        raise ScoringError("this version of the server does not tell the token ids of a chat's prompt")
    return ids
