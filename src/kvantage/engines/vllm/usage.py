"""The server's counts of one response."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvantage.core import Usage
from kvantage.engines.numbers import count, quantity


def read_usage(final: Mapping[str, Any]) -> Usage:
    """Counts from the merged last chunks of a stream, or from a whole response.

    Null and absent are both 'not reported'. Speculation counts that contradict each other, or the
    output's length, are refused as a whole.
    """
    usage = mapping(final.get("usage"))
    output = count(usage.get("completion_tokens"))
    metrics = mapping(final.get("metrics"))
    queue_ms = quantity(metrics.get("queue_time_ms"))
    return Usage(
        prompt_tokens=count(usage.get("prompt_tokens")),
        output_tokens=output,
        reasoning_tokens=count(mapping(usage.get("completion_tokens_details")).get("reasoning_tokens")),
        cached_tokens=count(mapping(usage.get("prompt_tokens_details")).get("cached_tokens")),
        queue_s=queue_ms / 1000 if queue_ms is not None else None,
        **speculation(mapping(metrics.get("speculative_decoding")), output),
    )


def speculation(told: Mapping[str, Any], output_tokens: int | None) -> dict[str, Any]:
    """accepted_tokens, drafted_tokens, spec_steps, acceptance_histogram; empty where any identity breaks.

    sum(histogram) = steps, sum(i x histogram[i]) = accepted, accepted <= drafted <= steps x k, and
    accepted + steps <= output + k: each step emits its accepted drafts and one bonus token, and the
    last may be cut. (The output may be longer: the first token, and steps without a draft.)
    """
    steps = count(told.get("num_spec_steps"))
    accepted = count(told.get("num_accepted_draft_tokens"))
    drafted = count(told.get("num_draft_tokens"))
    k = count(told.get("num_spec_tokens"))
    if steps is None or accepted is None or drafted is None or accepted > drafted:
        return {}
    if k is not None and (
        drafted > steps * k or (output_tokens is not None and accepted + steps > output_tokens + k)
    ):
        return {}
    told_histogram = told.get("acceptance_histogram")
    histogram = None
    if isinstance(told_histogram, list):
        counts = [count(value) for value in told_histogram]
        histogram = tuple(value for value in counts if value is not None)
        if len(histogram) != len(counts) or sum(histogram) != steps:
            return {}
        if sum(i * n for i, n in enumerate(histogram)) != accepted:
            return {}
    return {
        "accepted_tokens": accepted,
        "drafted_tokens": drafted,
        "spec_steps": steps,
        "acceptance_histogram": histogram,
    }


def mapping(value: Any) -> Mapping[str, Any]:
    """`value` where it is a mapping, else an empty one."""
    return value if isinstance(value, Mapping) else {}
