"""The prefix cache of the slots: emptied on demand, and what a sound one serves."""

from __future__ import annotations

from typing import Any

from kvantage.core import CacheFlush, Facts, Server
from kvantage.engines.answers import json_of
from kvantage.engines.http import ask
from kvantage.engines.numbers import count


async def flush_cache(server: Server) -> CacheFlush:
    """POST /slots/N?action=erase for every slot. Raises OSError without an answer.

    It needs --slot-save-path, and --cache-ram 0: a prompt that was put aside in main memory comes back.
    """
    slots = await json_of(f"{server.url}/slots")
    if not isinstance(slots, list) or not slots:
        return CacheFlush(False, "the server has no /slots")
    erased = 0
    for slot in slots:
        number = slot.get("id") if isinstance(slot, dict) else None
        answer = await ask(f"{server.url}/slots/{number}?action=erase", method="POST", body={}, timeout_s=30)
        tokens = erased_tokens(answer.status, answer.json())
        if tokens is None:
            return CacheFlush(False, f"{answer.status} {answer.body.strip()[:200]}".strip())
        erased += tokens
    return CacheFlush(True, f"{erased} tokens erased in {len(slots)} slots")


def erased_tokens(status: int, told: Any) -> int | None:
    """What a slot says that it erased; None where it does not say so with status 200."""
    return count(told.get("n_erased")) if status == 200 and isinstance(told, dict) else None


def expected_cached(prefix_tokens: int, facts: Facts) -> tuple[int, int]:
    """(low, high): tokens of a resident prefix of that length that a sound cache serves.

    Any length but the last token of the very same prompt. With sliding windows or recurrent states only
    what a checkpoint holds comes back, and its places are not told: `low` is 0 there. A cold prompt
    reports one cached token, its BOS.
    """
    if facts.prefix_caching is False or prefix_tokens <= 0:
        return 0, min(1, max(0, prefix_tokens))
    checkpoints = any(facts.reading(name).known for name in ("sliding_pool_tokens", "state_cache_bytes"))
    known = facts.reading("kv_pool_bytes").known
    return (max(0, prefix_tokens - 1) if known and not checkpoints else 0), prefix_tokens
