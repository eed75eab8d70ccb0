"""One file that was read: what it is, whose it is, what it says, and what follows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from kvantage.core import Reading

Kind = Literal["log", "metrics", "stream", "response", "server", "config", "help", "unknown"]

NAMES = (
    "acceptance_length",
    "draft_acceptance_rate",
    "drafted_tokens",
    "accepted_tokens",
    "spec_steps",
    "draft_tokens_per_step",
    "kv_pool_tokens",
    "kv_pool_bytes",
    "draft_kv_pool_bytes",
    "state_cache_bytes",
    "kv_bytes_per_token",
    "effective_max_running",
    "requested_max_running",
    "prompt_tokens",
    "completion_tokens",
    "reasoning_tokens",
    "cached_tokens",
    "ttft_s",
    "decode_tok_s",
    "queue_depth",
)
"""The documented quantities, beside the list `per_position_acceptance`. Each engine's further readings keep
their own names."""


@dataclass(frozen=True, slots=True)
class Document:
    """What one file says. `readings` may hold a missing one, with the reason.

    `per_position[i]` is the share of drafting steps that accepted the draft at position i, or a later one.
    `details` is further plain data that is shown in JSON only.
    """

    name: str
    kind: Kind
    engine: str | None = None
    engine_version: str | None = None
    readings: Mapping[str, Reading] = field(default_factory=dict)
    per_position: tuple[float, ...] | None = None
    warnings: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
