"""Fields that a measured chat request carries beside its messages and samplers."""

from __future__ import annotations

from typing import Any


def request_extras(output_tokens: int | None) -> dict[str, Any]:
    """Token ids in every chunk, the usage at the end, and an exact output length where one is asked.

    `ignore_eos` with `max_tokens` gives the exact length. `min_tokens` is not sent: it works by masking
    logits, which another arm's drafter may handle in another way.
    """
    extras: dict[str, Any] = {"stream_options": {"include_usage": True}, "return_token_ids": True}
    if output_tokens is not None:
        extras |= {"max_tokens": output_tokens, "ignore_eos": True}
    return extras
