"""Fields that a measured chat request carries beside its messages and samplers."""

from __future__ import annotations

from typing import Any


def request_extras(output_tokens: int | None) -> dict[str, Any]:
    """Usage with every chunk, prefix hits and acceptance of the request, and an exact output length.

    `continuous_usage_stats` tells how many tokens each chunk carried. Token ids are not asked for: SGLang
    refuses `return_token_ids` in a streamed chat. Versions that do not know a field ignore it.
    """
    extras: dict[str, Any] = {
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        "return_cached_tokens_details": True,
        "return_spec_tokens_details": True,
    }
    if output_tokens is not None:
        extras |= {"max_tokens": output_tokens, "ignore_eos": True}
    return extras
