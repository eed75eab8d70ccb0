"""kvantage's client as a tool among the others: the same load, and what it measured as JSON."""

from __future__ import annotations

import asyncio
import gc
import json
import sys
from pathlib import Path

from kvantage.client import ChatRequest, Client, decode_rate, read_exchange, run_closed
from kvantage.client.job import allow_sockets


async def main(url: str, streams: int, requests: int, tokens: int, out: Path, counts: bool) -> None:
    """`counts` has the server tell in each chunk how many tokens there were so far."""
    body = {
        "model": "golden",
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": counts},
        "messages": [{"role": "user", "content": "Count, please. " * 8}],
        "max_tokens": tokens,
    }
    async with Client() as client:
        exchanges = await run_closed(
            client, [ChatRequest(f"{url}/v1/chat/completions", body)] * requests, streams
        )
    readings = [read_exchange(each) for each in exchanges]
    told = [int(each.final["usage"]["completion_tokens"]) for each in readings]
    pairs = list(zip(exchanges, readings, strict=True))
    ttft = [(each.first_ns - sent.sent_ns) / 1e9 for sent, each in pairs if each.first_ns is not None]
    rates = [
        decode_rate(each.chunks.times_ns, each.chunks.tokens, count)[0]
        for each, count in zip(readings, told, strict=True)
    ]
    itl = [1 / rate for rate in rates if rate is not None]
    said = {
        "ttft_ms": sum(ttft) / len(ttft) * 1e3,
        "itl_ms": sum(itl) / len(itl) * 1e3,
        "tokens": sum(told),
        "requests": sum(each.status == "ok" for each in readings),
    }
    (out / "ours.json").write_text(json.dumps(said))


if __name__ == "__main__":
    allow_sockets()
    gc.freeze()  # as `kvantage run` does
    url, streams, requests, tokens, out, counts = sys.argv[1:]
    asyncio.run(main(url, int(streams), int(requests), int(tokens), Path(out), counts == "counts"))
