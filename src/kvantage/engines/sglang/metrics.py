"""SGLang's /metrics in the common words."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping

from prometheus_client.samples import Sample

from kvantage.core import Snapshot
from kvantage.engines import prometheus

COUNTERS = {
    "sglang:spec_verify_calls_total": "drafts",
    "sglang:prompt_tokens_total": "prompt_tokens",
    "sglang:cached_tokens_total": "prefix_hits",
    "sglang:generation_tokens_total": "generation_tokens",
    "sglang:num_requests_total": "requests_finished",
    "sglang:num_retracted_requests_total": "preemptions",
    "sglang:queue_time_seconds_sum": "queue_s",
    "sglang:inter_token_latency_seconds_count": "decode_steps",
}
"""Summed over all labels. Verification calls, steps that drafted, are counted when a request ends."""

GAUGES = {
    "sglang:num_running_reqs": "running",
    "sglang:num_queue_reqs": "waiting",
    "sglang:num_requests_running": "running",
    "sglang:num_requests_waiting": "waiting",
    "sglang:token_usage": "pool_usage",
    "sglang:full_token_usage": "pool_usage",
    "sglang:swa_token_usage": "pool_usage",
    "sglang:mamba_usage": "pool_usage",
    "process_start_time_seconds": "started_at",
}
"""running and waiting are summed over data-parallel ranks; of `pool_usage` the fullest pool counts."""

_SUMMED = frozenset({"running", "waiting"})

_SUMMED_FACTS = frozenset({"kv_pool_tokens", "effective_max_running", "generation_tok_s"})

FACTS = {
    "sglang:max_total_num_tokens": "kv_pool_tokens",
    "sglang:max_running_requests": "effective_max_running",
    "sglang:context_len": "context_length",
    "sglang:page_size": "kv_block_tokens",
    "sglang:kv_cache_memory_usage_gb": "kv_pool_gb",
    "sglang:weight_memory_usage_gb": "weights_gb",
    "sglang:spec_accept_length": "acceptance_length",
    "sglang:spec_accept_rate": "draft_acceptance_rate",
    "sglang:spec_num_draft_tokens": "width",
    "sglang:gen_throughput": "generation_tok_s",
}
"""Gauges that say what the server is, or how its last report was."""

OF_ONE = frozenset({"acceptance_length", "draft_acceptance_rate"})
"""Means of one replica's last report."""

PREFIXES = ("sglang:", "process_start_time_seconds")


def read_samples(text: str) -> list[Sample]:
    """SGLang's samples, and the process's start. A dump without an end keeps its last line out."""
    return [sample for sample in prometheus.samples(text, PREFIXES) if sample.value >= 0]


def snapshot(text: str, taken_ns: int | None = None) -> Snapshot:
    """Counters and gauges now; what is not reported is not a key."""
    found = read_samples(text)
    counters: dict[str, float] = {}
    for name, word in COUNTERS.items():
        values = [sample.value for sample in found if sample.name == name]
        if word == "prefix_hits":
            values = _once(found, name)
        if values:
            counters[word] = counters.get(word, 0.0) + sum(values)
    if "prompt_tokens" in counters and "prefix_hits" in counters:
        counters["prefix_queries"] = counters["prompt_tokens"]
    gauges: dict[str, float] = {}
    for name, word in GAUGES.items():
        if (value := _gauge(found, name, summed=word in _SUMMED)) is not None:
            gauges[word] = max(gauges.get(word, value), value)
    return Snapshot(time.monotonic_ns() if taken_ns is None else taken_ns, counters, gauges)


def facts_of(text: str) -> dict[str, float]:
    """What the gauges of FACTS say, under their words; pool and requests are summed over replicas.

    Acceptance of replicas that differ is left out: without their steps there is no mean of them.
    """
    found = read_samples(text)
    told = {}
    for name, word in FACTS.items():
        if word in OF_ONE and len({value for value in _by_replica(found, name).values() if value}) > 1:
            continue
        value = _gauge(found, name, summed=word in _SUMMED_FACTS)
        if value is not None:
            told[word] = value
    return told


def replicas_of(text: str, name: str) -> list[float]:
    """What each data-parallel replica's gauge says, the largest of its own ranks."""
    return list(_by_replica(read_samples(text), name).values())


def _gauge(found: Iterable[Sample], name: str, *, summed: bool) -> float | None:
    """One gauge over its ranks: the largest within a data-parallel replica, then their sum or the largest.

    With priorities on, the same requests are told again by priority: those samples are left out.
    """
    replicas = _by_replica(found, name)
    if not replicas:
        return None
    return sum(replicas.values()) if summed else max(replicas.values())


def _once(found: Iterable[Sample], name: str) -> list[float]:
    """Cached tokens by their source. A `total` that is the sum of the others tells the same tokens again."""
    by_source: dict[str, float] = {}
    for sample in found:
        if sample.name == name:
            source = sample.labels.get("cache_source", "")
            by_source[source] = by_source.get(source, 0.0) + sample.value
    parts = sum(value for source, value in by_source.items() if source != "total")
    if parts and by_source.get("total") == parts:
        del by_source["total"]
    return list(by_source.values())


def _by_replica(found: Iterable[Sample], name: str) -> dict[str, float]:
    """By worker behind a router, and by data-parallel rank."""
    replicas: dict[str, float] = {}
    for sample in found:
        if sample.name == name and not sample.labels.get("priority"):
            replica = "/".join(sample.labels.get(label) or "" for label in ("worker_addr", "dp_rank"))
            replicas[replica] = max(replicas.get(replica, 0.0), sample.value)
    return replicas


_LOOK: Mapping[bytes, str] = {
    b"sglang:num_running_reqs": "running",
    b"sglang:num_queue_reqs": "waiting",
    b"sglang:token_usage": "pool_usage",
    b"sglang:generation_tokens_total": "generation_tokens",
}


def look(body: bytes) -> dict[str, float]:
    """running, waiting, pool_usage and generation_tokens by a scan for their lines, without a parser."""
    found: dict[str, float] = {}
    text = b"\n" + body
    for name, word in _LOOK.items():
        start = text.find(b"\n" + name + b"{")
        while start >= 0:
            end = text.find(b"\n", start + 1)
            line = text[start : end if end > 0 else len(text)]
            try:
                value = float(line.rpartition(b" ")[2])
            except ValueError:
                value = math.nan
            by_priority = b'priority="' in line and b'priority=""' not in line
            if math.isfinite(value) and value >= 0 and not by_priority:
                before = found.get(word, 0.0)
                found[word] = max(before, value) if word == "pool_usage" else before + value
            start = text.find(b"\n" + name + b"{", start + 1)
    return found
