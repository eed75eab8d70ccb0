"""From what the client saw and what the server counted to the record that the ledger keeps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvantage.client.exchange import Exchange
from kvantage.client.stream import StreamReading, read_exchange
from kvantage.core import RequestKey, RequestRecord, Usage


def record(
    key: RequestKey,
    exchange: Exchange,
    usage: Usage | None = None,
    *,
    reading: StreamReading | None = None,
    expected_cached: tuple[int, int] | None = None,
    checks: Mapping[str, Any] | None = None,
) -> RequestRecord:
    """One request's record.

        reading = read_exchange(exchange)
        record(key, exchange, engine.read_usage(reading.final), reading=reading)

    `usage` are the engine's counts of this answer; None leaves every count 'not reported'. `reading` is
    read from the exchange when not given.
    """
    seen = reading if reading is not None else read_exchange(exchange)
    counts = usage if usage is not None else Usage()
    raw = seen.final.get("usage")
    return RequestRecord(
        key=key,
        status=seen.status,
        intended_ns=exchange.intended_ns,
        sent_ns=exchange.sent_ns,
        end_ns=exchange.end_ns,
        first_ns=seen.first_ns,
        first_content_ns=seen.first_content_ns,
        chunks=seen.chunks,
        prompt_tokens=counts.prompt_tokens,
        output_tokens=counts.output_tokens,
        reasoning_tokens=counts.reasoning_tokens,
        cached_tokens=counts.cached_tokens,
        accepted_tokens=counts.accepted_tokens,
        drafted_tokens=counts.drafted_tokens,
        spec_steps=counts.spec_steps,
        acceptance_histogram=counts.acceptance_histogram,
        queue_s=counts.queue_s,
        retractions=counts.retractions,
        finish_reason=seen.finish_reason,
        content=seen.content,
        reasoning=seen.reasoning,
        tool_calls=seen.tool_calls,
        token_ids=seen.token_ids,
        expected_cached=expected_cached,
        client_lag_ns=exchange.lag_ns,
        http_status=exchange.http_status,
        error=seen.error,
        checks=dict(checks or {}),
        raw_usage=dict(raw) if isinstance(raw, Mapping) else {},
    )
