"""Counts of one response of a server that is none of ours, under the names that such servers use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kvantage.core import Usage
from kvantage.engines.numbers import count, quantity
from kvantage.engines.vllm.usage import mapping
from kvantage.engines.vllm.usage import read_usage as read_plain

_CACHED = ("cached_tokens", "prompt_cache_hit_tokens", "cache_read_input_tokens")
"""Flat names, of Moonshot's, DeepSeek's and Anthropic's answers; OpenAI's is in `prompt_tokens_details`."""

_DRAFTS = ("total_draft_tokens_count", "accepted_draft_tokens_count", "rejected_draft_tokens_count")
_NOT_VERIFIED = "ignored_draft_tokens_count"


def read_usage(final: Mapping[str, Any]) -> Usage:
    """OpenAI's fields, else those of its /responses, DeepSeek, Moonshot, Anthropic, LM Studio and Ollama.

    Null and absent are 'not reported'. Anthropic's `input_tokens` leaves out what came from or went into the
    cache, which is added here. LM Studio's drafts are refused where they do not add up.
    """
    plain, usage = read_plain(final), _usage(final)
    prompt, output = plain.prompt_tokens, plain.output_tokens
    if prompt is None:
        prompt = _prompt(usage)
    if prompt is None:
        prompt = count(final.get("prompt_eval_count"))
    if output is None:
        output = _first(usage, "output_tokens")
    if output is None:
        output = count(final.get("eval_count"))
    cached, reasoning = plain.cached_tokens, plain.reasoning_tokens
    if cached is None:
        cached = count(mapping(usage.get("input_tokens_details")).get("cached_tokens"))
    if cached is None:
        cached = _first(usage, *_CACHED)
    if reasoning is None:
        reasoning = count(mapping(usage.get("output_tokens_details")).get("reasoning_tokens"))
    found = replace(
        plain, prompt_tokens=prompt, output_tokens=output, cached_tokens=cached, reasoning_tokens=reasoning
    )
    drafts = _drafts(final, usage) if plain.drafted_tokens is None else None
    return found if drafts is None else replace(found, drafted_tokens=drafts[0], accepted_tokens=drafts[1])


def tokens_per_second(final: Mapping[str, Any]) -> float | None:
    """The server's own rate of output tokens, as LM Studio gives it or as Ollama's counts and times do."""
    told = quantity(mapping(final.get("stats")).get("tokens_per_second"))
    if told:
        return told
    tokens, nanoseconds = count(final.get("eval_count")), quantity(final.get("eval_duration"))
    return tokens / nanoseconds * 1e9 if tokens and nanoseconds else None


def _usage(final: Mapping[str, Any]) -> dict[str, Any]:
    """The answer's usage; of a stream of /responses or /messages, that inside its first and last events."""
    inside = [mapping(mapping(final.get(name)).get("usage")) for name in ("response", "message")]
    return {**inside[0], **inside[1], **mapping(final.get("usage"))}


def _prompt(usage: Mapping[str, Any]) -> int | None:
    computed = count(usage.get("input_tokens"))
    apart = [count(usage.get(name)) for name in ("cache_read_input_tokens", "cache_creation_input_tokens")]
    return None if computed is None else computed + sum(part for part in apart if part is not None)


def _drafts(final: Mapping[str, Any], usage: Mapping[str, Any]) -> tuple[int, int] | None:
    """(drafted, accepted), where they add up."""
    for place in (usage, mapping(final.get("stats"))):
        total, accepted, rejected = (count(place.get(name)) for name in _DRAFTS)
        if total is None or accepted is None or rejected is None:
            continue
        if accepted + rejected + (count(place.get(_NOT_VERIFIED)) or 0) == total:
            return total, accepted
    return None


def _first(told: Mapping[str, Any], *names: str) -> int | None:
    return next((value for name in names if (value := count(told.get(name))) is not None), None)
