"""The prefix cache: emptied on demand, and what a sound one serves."""

from __future__ import annotations

import asyncio
from typing import Any

from kvantage.core import CacheFlush, Facts, Server
from kvantage.engines.http import ask
from kvantage.engines.vllm.facts import SMALLEST

TRIES = 6
BETWEEN_TRIES_S = 0.5
"""A reset fails while blocks are held; a request that has just ended lets go of them within a step."""

_DONE = "Successfully reset prefix cache"


async def flush_cache(server: Server) -> CacheFlush:
    """POST /reset_prefix_cache, tried again while blocks are held. Raises OSError without an answer."""
    flush = CacheFlush(False, "not tried")
    for attempt in range(TRIES):
        if attempt:
            await asyncio.sleep(BETWEEN_TRIES_S)
        before = log_count(server)
        answer = await ask(f"{server.url}/reset_prefix_cache", method="POST", body={}, timeout_s=30)
        if answer.status == 404:
            return CacheFlush(
                False, "the server has no /reset_prefix_cache (it needs VLLM_SERVER_DEV_MODE=1)"
            )
        flush = judged(answer.status, answer.json(), answer.body, log_count(server) - before)
        if flush.believed:
            return flush
    return flush


def judged(status: int, told: Any, body: str, logged: int) -> CacheFlush:
    """Believed on status 200 with `success` true, or (versions that say nothing) with the log's own word."""
    words = f"{status} {body.strip()[:200]}".strip()
    if status != 200:
        return CacheFlush(False, words)
    if isinstance(told, dict) and "success" in told:
        return CacheFlush(told["success"] is True, words)
    return CacheFlush(logged > 0, f"{words}; log: {_DONE if logged else 'nothing'}")


def log_count(server: Server) -> int:
    """How often the log says that the cache was emptied."""
    return sum(_DONE in line for line in server.process.log_lines()) if server.process else 0


def expected_cached(prefix_tokens: int, facts: Facts) -> tuple[int, int]:
    """(low, high): tokens of a resident prefix of that length that a sound cache serves.

    Whole blocks only. `high` is for a longer prompt that starts with the prefix; `low` for the very
    same prompt again, of which the last token is always computed. A drafter that reads hidden states
    costs one more block of either. Where layers have blocks of several sizes, hits align to a size
    that is not told, so that `low` is 0.
    """
    size = facts.reading("kv_block_tokens")
    if facts.prefix_caching is False or prefix_tokens <= 0:
        return 0, 0
    if size.value is None or size.value < 1:
        return 0, prefix_tokens
    block = int(size.value)
    lost = block * int(facts.reading("dropped_blocks").value or 0)
    high = max(0, prefix_tokens // block * block - lost)
    low = max(0, (prefix_tokens - 1) // block * block - lost)
    return (0 if size.note == SMALLEST else low), high
