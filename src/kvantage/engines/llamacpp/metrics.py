"""llama-server's /metrics in the common words."""

from __future__ import annotations

import time

from kvantage.core import Snapshot
from kvantage.engines import prometheus

PREFIXES = ("llamacpp:",)

COUNTERS = {
    "llamacpp:spec_decode_num_drafts_total": "drafts",
    "llamacpp:spec_decode_num_draft_tokens_total": "drafted_tokens",
    "llamacpp:spec_decode_num_accepted_tokens_total": "accepted_tokens",
    "llamacpp:prompt_tokens_cached_total": "prefix_hits",
    "llamacpp:tokens_predicted_total": "generation_tokens",
}

GAUGES = {
    "llamacpp:requests_processing": "running",
    "llamacpp:requests_deferred": "waiting",
    "llamacpp:kv_cache_usage_ratio": "pool_usage",
}

COMPUTED = "llamacpp:prompt_tokens_total"
"""Prompt tokens that were computed: those from the cache are counted apart, where a build counts them."""

PER_POSITION = "llamacpp:spec_decode_num_accepted_tokens_per_pos_total"
_FARTHEST = 1024


def snapshot(text: str, taken_ns: int | None = None) -> Snapshot:
    """Counters and gauges now; what is not reported is not a key."""
    counters: dict[str, float] = {}
    gauges: dict[str, float] = {}
    positions: dict[int, float] = {}
    computed: float | None = None
    for sample in prometheus.samples(text, PREFIXES):
        if sample.value < 0:
            continue
        place = sample.labels.get("position", "")
        if sample.name in COUNTERS:
            counters[COUNTERS[sample.name]] = sample.value
        elif sample.name in GAUGES:
            gauges[GAUGES[sample.name]] = sample.value
        elif sample.name == COMPUTED:
            computed = sample.value
        elif sample.name == PER_POSITION and place.isdecimal() and int(place) < _FARTHEST:
            positions[int(place)] = sample.value
    if computed is not None:
        counters["prompt_tokens"] = computed + counters.get("prefix_hits", 0.0)
        if "prefix_hits" in counters:
            counters["prefix_queries"] = counters["prompt_tokens"]
    length = max(positions, default=-1) + 1
    return Snapshot(
        time.monotonic_ns() if taken_ns is None else taken_ns,
        counters,
        gauges,
        tuple(positions.get(i, 0.0) for i in range(length)) if positions else None,
    )


_LOOK = {
    b"\nllamacpp:requests_processing ": "running",
    b"\nllamacpp:requests_deferred ": "waiting",
    b"\nllamacpp:tokens_predicted_total ": "generation_tokens",
}


def look(body: bytes) -> dict[str, float]:
    """running, waiting and generation_tokens by a scan for their lines, without a parser."""
    found: dict[str, float] = {}
    for mark, word in _LOOK.items():
        start = body.find(mark)
        end = body.find(b"\n", start + 1)
        if start >= 0 and end > start:
            try:
                found[word] = float(body[start + len(mark) : end])
            except ValueError:
                continue
    return {word: value for word, value in found.items() if 0 <= value < float("inf")}
