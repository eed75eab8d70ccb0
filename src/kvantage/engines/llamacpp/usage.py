"""llama.cpp's counts of one response."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvantage.core import Usage
from kvantage.engines.llamacpp.timings import timings_of
from kvantage.engines.numbers import count


def read_usage(final: Mapping[str, Any]) -> Usage:
    """Counts from the merged last chunks of a stream, or from a whole response, /completion's included.

    Drafts are 'not reported' where `timings` has no draft_n, which is so when nothing was drafted.
    """
    usage, timings = _mapping(final.get("usage")), timings_of(final)
    cached = count(_mapping(usage.get("prompt_tokens_details")).get("cached_tokens"))
    cached = timings.cached_tokens if cached is None else cached
    prompt = count(usage.get("prompt_tokens"))
    if prompt is None and timings.prompt_tokens is not None and timings.cached_tokens is not None:
        prompt = timings.prompt_tokens + timings.cached_tokens
    output = count(usage.get("completion_tokens"))
    believed = timings.acceptance_rate is not None
    return Usage(
        prompt_tokens=count(final.get("tokens_evaluated")) if prompt is None else prompt,
        output_tokens=timings.output_tokens if output is None else output,
        reasoning_tokens=count(_mapping(usage.get("completion_tokens_details")).get("reasoning_tokens")),
        cached_tokens=cached,
        accepted_tokens=timings.accepted if believed else None,
        drafted_tokens=timings.drafted if believed else None,
        spec_steps=timings.rounds if believed else None,
    )


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
