"""How likely given tokens are, by llama-server: one token at a time, the prompt kept in its cache.

It tells no logprobs of a prompt. Each of the answer's tokens is asked for by a completion of one token whose
prompt is everything before it; a token that is not among the likeliest told gets the last of them as an
upper bound of its logprob, so that its gap is a lower bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kvantage.core import Scores, ScoringError, Server
from kvantage.engines.http import ask
from kvantage.engines.scoring import first_choice, number, scores_of, token_ids

TOLD = 20
"""So many of the likeliest tokens are asked for."""
TIMEOUT_S = 120.0


def read_ids(body: Mapping[str, Any]) -> tuple[int, ...] | None:
    """The ids beside the logprobs of a whole chat response; the logprobs themselves are placeholders where
    the token was drafted.
    """
    logprobs = first_choice(body).get("logprobs")
    rows = logprobs.get("content") if isinstance(logprobs, Mapping) else None
    if not isinstance(rows, list) or not rows:
        return None
    return token_ids([row.get("id") if isinstance(row, Mapping) else None for row in rows])


async def score(
    server: Server,
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]],
    output_ids: Sequence[int],
    key: str | None = None,
) -> Scores:
    """Score an answer's tokens. Raises ScoringError, OSError when the server does not answer."""
    prompt = await _prompt_ids(server, messages, tools, key)
    positions: list[dict[int, float]] = []
    texts: dict[int, str] = {}
    for place, token in enumerate(output_ids):
        body = {
            "prompt": [*prompt, *output_ids[:place]],
            "n_predict": 1,
            "temperature": 0.0,
            "n_probs": TOLD,
            "cache_prompt": True,
        }
        told = (await ask(f"{server.url}/completion", body=body, timeout_s=TIMEOUT_S, key=key)).json()
        position, words = read_position(told if isinstance(told, Mapping) else {})
        texts |= words
        positions.append({token: min(position.values()), **position})
    return scores_of(output_ids, positions, texts)


def read_position(told: Mapping[str, Any]) -> tuple[dict[int, float], dict[int, str]]:
    """Logprobs and texts of the likeliest next tokens, from a completion of one token."""
    rows = told.get("completion_probabilities")
    row = rows[0] if isinstance(rows, list) and rows else None
    listed = row.get("top_logprobs") if isinstance(row, Mapping) else None
    position, texts = {}, {}
    for one in listed if isinstance(listed, list) else ():
        value = number(one.get("logprob")) if isinstance(one, Mapping) else None
        if value is not None and type(one.get("id")) is int:
            position[one["id"]] = value
            texts[one["id"]] = str(one.get("token") or "")
    if not position:
        raise ScoringError("the server told no `top_logprobs` of a completion")
    return position, texts


async def _prompt_ids(
    server: Server,
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]],
    key: str | None,
) -> tuple[int, ...]:
    body: dict[str, Any] = {"messages": list(messages)}
    if tools:
        body["tools"] = list(tools)
    told = (await ask(f"{server.url}/apply-template", body=body, timeout_s=30, key=key)).json()
    text = told.get("prompt") if isinstance(told, Mapping) else None
    if not isinstance(text, str):
        raise ScoringError("the server's /apply-template told no prompt")
    body = {"content": text, "add_special": True, "parse_special": True}
    told = (await ask(f"{server.url}/tokenize", body=body, timeout_s=30, key=key)).json()
    ids = token_ids(told.get("tokens")) if isinstance(told, Mapping) else None
    if ids is None:
        raise ScoringError("the server's /tokenize told no token ids")
    return ids
