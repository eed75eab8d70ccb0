"""/metrics in the common words."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from kvantage.core import Snapshot

COUNTERS = {
    "vllm:spec_decode_num_drafts_total": "drafts",
    "vllm:spec_decode_num_draft_tokens_total": "drafted_tokens",
    "vllm:spec_decode_num_accepted_tokens_total": "accepted_tokens",
    "vllm:prefix_cache_queries_total": "prefix_queries",
    "vllm:prefix_cache_hits_total": "prefix_hits",
    "vllm:gpu_prefix_cache_queries_total": "prefix_queries",
    "vllm:gpu_prefix_cache_hits_total": "prefix_hits",
    "vllm:num_preemptions_total": "preemptions",
    "vllm:prompt_tokens_total": "prompt_tokens",
    "vllm:generation_tokens_total": "generation_tokens",
    "vllm:request_success_total": "requests_finished",
    "vllm:request_queue_time_seconds_sum": "queue_s",
    "vllm:inter_token_latency_seconds_count": "decode_steps",
    "vllm:time_per_output_token_seconds_count": "decode_steps",
}
"""Summed over engines and labels. Of two names of one word (older and newer) the larger sum counts."""

GAUGES = {
    "vllm:num_requests_running": "running",
    "vllm:num_requests_waiting": "waiting",
    "vllm:kv_cache_usage_perc": "pool_usage",
    "vllm:gpu_cache_usage_perc": "pool_usage",
    "process_start_time_seconds": "started_at",
}
"""Summed over engines, but the fullest engine's `pool_usage` counts, and the latest start."""

PER_POSITION = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
CACHE_CONFIG = "vllm:cache_config_info"

_WANTED = (*COUNTERS, *GAUGES, PER_POSITION, CACHE_CONFIG)
_FARTHEST = 1024
"""A position beyond this is no draft position."""


def samples(text: str) -> Iterator[Sample]:
    """The samples that are read here. A line that is not in Prometheus' form is passed over."""
    for line in map(with_colon, text.split("\n")):
        if line.startswith(_WANTED):
            try:
                for family in text_string_to_metric_families(line + "\n"):
                    yield from family.samples
            except (ValueError, IndexError, KeyError):
                continue


def with_colon(line: str) -> str:
    """A line under vLLM's own name: Ray and other exporters write `ray_vllm_x` or `vllm_x` for `vllm:x`."""
    plain = line.removeprefix("ray_")
    return f"vllm:{plain[5:]}" if plain.startswith(("vllm_", "vllm:")) else line


def snapshot(text: str, taken_ns: int | None = None) -> Snapshot:
    """Counters and gauges now; what is not reported, or is no number, is not a key."""
    sums: dict[str, float] = {}
    positions: dict[int, float] = {}
    peaks: dict[str, float] = {}
    for sample in samples(text):
        if not math.isfinite(sample.value) or sample.value < 0:
            continue
        if sample.name == PER_POSITION:
            place = sample.labels.get("position", "")
            if place.isdecimal() and int(place) < _FARTHEST:
                positions[int(place)] = positions.get(int(place), 0.0) + sample.value
        elif sample.name in COUNTERS or sample.name in GAUGES:
            sums[sample.name] = sums.get(sample.name, 0.0) + sample.value
            peaks[sample.name] = max(peaks.get(sample.name, 0.0), sample.value)
    gauges = worded(GAUGES, sums) | {
        word: value for word, value in worded(GAUGES, peaks).items() if word in ("pool_usage", "started_at")
    }
    length = max(positions, default=-1) + 1
    return Snapshot(
        taken_ns=time.monotonic_ns() if taken_ns is None else taken_ns,
        counters=worded(COUNTERS, sums),
        gauges=gauges,
        accepted_per_position=tuple(positions.get(i, 0.0) for i in range(length)) if positions else None,
    )


_LOOK = {
    b"vllm:num_requests_running": "running",
    b"vllm:num_requests_waiting": "waiting",
    b"vllm:kv_cache_usage_perc": "pool_usage",
    b"vllm:generation_tokens_total": "generation_tokens",
    b"vllm:spec_decode_num_drafts_total": "drafts",
    b"vllm:spec_decode_num_accepted_tokens_total": "accepted_tokens",
}


def look(text: bytes) -> dict[str, float]:
    """Gauges, generated tokens, drafts and accepted ones, by a scan for their lines without a parser."""
    found: dict[str, float] = {}
    for name, word in _LOOK.items():
        start = text.find(b"\n" + name + b"{")
        while start >= 0:
            end = text.find(b"\n", start + 1)
            try:
                value = float(text[start : end if end > 0 else len(text)].rpartition(b" ")[2])
            except ValueError:
                value = math.nan
            if math.isfinite(value) and value >= 0:
                before = found.get(word, 0.0)
                found[word] = max(before, value) if word == "pool_usage" else before + value
            start = text.find(b"\n" + name + b"{", start + 1)
    return found


def worded(words: Mapping[str, str], values: Mapping[str, float]) -> dict[str, float]:
    """Values under their common words."""
    found: dict[str, float] = {}
    for name, value in values.items():
        if name in words:
            found[words[name]] = max(found.get(words[name], 0.0), value)
    return found


def cache_config(text: str) -> list[dict[str, str]]:
    """The labels of cache_config_info, one set an engine; 'None' values left out."""
    return [
        {name: value for name, value in sample.labels.items() if value != "None"}
        for sample in samples(text)
        if sample.name == CACHE_CONFIG
    ]
