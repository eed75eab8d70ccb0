"""What to change in a running server's flags so that it can be measured well, in each engine's own words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Lacks:
    """What a server did not tell or do; None where it could not be told. `per_request` is acceptance."""

    metrics: bool
    settings: bool
    cached_tokens: bool
    repeat_hits: bool | None
    drafts: bool | None
    per_request: bool
    pool: bool = False


_METRICS = {"sglang": "--enable-metrics", "llamacpp": "--metrics"}
_CACHED = {"sglang": "--enable-cache-report", "vllm": "--enable-prompt-tokens-details"}
_CACHING = {
    "sglang": "leave --disable-radix-cache out",
    "vllm": "--enable-prefix-caching",
    "llamacpp": "leave --no-cache-prompt out",
}


def advice(engine: str | None, lacks: Lacks, resolved: Mapping[str, Any]) -> tuple[str, ...]:
    """Sentences, most useful first; none for a server that tells everything."""
    return tuple(_advice(engine or "", lacks, resolved))


def _advice(engine: str, lacks: Lacks, resolved: Mapping[str, Any]) -> Iterator[str]:
    if lacks.metrics:
        flag = _METRICS.get(engine)
        yield (
            f"{flag}: counters, without which acceptance and somebody else's requests cannot be told"
            if flag
            else "no /metrics: acceptance and somebody else's requests cannot be told from counters"
        )
    if lacks.cached_tokens:
        flag = _CACHED.get(engine)
        yield (
            f"{flag}: cached tokens of each request, without which cold and warm cells cannot be told apart"
            if flag
            else "cached tokens are not reported: cold and warm cells cannot be told apart by request"
        )
    if lacks.repeat_hits is False:
        what = _CACHING.get(engine, "turn prefix caching on")
        yield f"{what}: a repeated prompt was computed again, so the phase `repeat` would measure no cache"
    if lacks.settings and engine == "vllm":
        yield (
            "VLLM_SERVER_DEV_MODE=1 in its environment (on a network that you trust): it then tells its"
            " resolved settings, and how it drafts"
        )
    if lacks.pool and engine == "llamacpp":
        yield "--verbosity 4, and its log to kvantage (--logs FILE): its KV pool, in tokens and bytes"
    if lacks.settings and engine == "llamacpp":
        yield "--slots: each slot then says whether it speculates"
    if lacks.per_request and lacks.drafts and engine == "vllm":
        yield (
            "--enable-per-request-metrics --per-request-spec-decode-metrics summary (0.32 and later):"
            " acceptance of each request"
        )
    if resolved.get("decode_log_interval", 1) != 1:
        yield "--decode-log-interval 1: a log line for each step, so that short cells have some"
    if engine == "sglang" and resolved.get("max_running_requests") in (None, 48):
        yield "--max-running-requests the same in every arm: speculation alone sets it to 48"
