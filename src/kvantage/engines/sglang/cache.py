"""The prefix cache: emptied on demand, and what a sound one serves."""

from __future__ import annotations

import asyncio

from kvantage.core import CacheFlush, Facts, Server
from kvantage.engines.http import ask

TRIES = 6
BETWEEN_TRIES_S = 0.5
"""A flush is refused while a request runs; one that has just ended is gone within a moment."""

_DONE = "Cache flushed"


async def flush_cache(server: Server) -> CacheFlush:
    """POST /flush_cache, tried again while the server is not idle. Raises OSError without an answer.

    SGLang zeroes its lifetime acceptance counts with it: read them before.
    """
    flush = CacheFlush(False, "not tried")
    for attempt in range(TRIES):
        if attempt:
            await asyncio.sleep(BETWEEN_TRIES_S)
        answer = await ask(f"{server.url}/flush_cache", method="POST", body={}, timeout_s=30)
        flush = judged(answer.status, answer.body)
        if flush.believed or answer.status in (401, 403, 404):
            return flush
    return flush


def judged(status: int, body: str) -> CacheFlush:
    """Believed on status 200 whose body says so."""
    words = f"{status} {body.strip()[:200]}".strip()
    return CacheFlush(status == 200 and _DONE in body, words)


def expected_cached(prefix_tokens: int, facts: Facts) -> tuple[int, int]:
    """(low, high): tokens of a resident prefix of that length that a sound cache serves.

    Whole pages, and never the last token of the very same prompt, which is always computed. A drafter
    whose prefix keys are pairs of tokens serves one token less, which may cost a page. Hybrids serve only
    up to a kept recurrent state, of which /server_info does not tell the places: `low` is 0 there.
    """
    if facts.prefix_caching is False or prefix_tokens <= 0:
        return 0, 0
    page = int(facts.reading("kv_block_tokens").value or 0)
    if page < 1:
        return 0, prefix_tokens
    shorter = int(facts.reading("dropped_blocks").value or 0)
    high = prefix_tokens // page * page
    low = max(0, prefix_tokens - 1 - shorter) // page * page
    hybrid = facts.reading("state_cache_bytes").known
    return (0 if hybrid else low), high
