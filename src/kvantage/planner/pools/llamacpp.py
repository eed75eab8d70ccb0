"""The cache as llama.cpp allocates it: whole, at the start, for `n_ctx` cells in every layer."""

from __future__ import annotations

from collections.abc import Sequence

from kvantage.planner.dtypes import KvDtype, kv_dtype
from kvantage.planner.layers import Heads
from kvantage.planner.memory import Demand, Left, Pool, Rank, smallest

BATCH = 512
PAD = 256
"""Cells are allocated in multiples of this."""


def left(demand: Demand, ranks: Sequence[Rank]) -> Left:
    """Free memory less the weights: nothing is measured, the context asked for is allocated or it is not."""
    rank = smallest(ranks)

    def at(free: int) -> int:
        return max(0, free - rank.weights - rank.draft_weights)

    return Left(
        at(rank.free),
        at(rank.free_low or rank.free),
        at(rank.free_high or rank.free),
        False,
        "free memory less the weights; compute buffers are not in it",
    )


def cells(tokens: int, window: int | None, sequences: int, batch: int = BATCH) -> int:
    """Cells of a layer: the context, or for a windowed layer its window a sequence and one batch, padded."""
    if window is None:
        return tokens
    wanted = min(tokens, window * sequences + batch)
    return -(-wanted // PAD) * PAD


def cache_bytes(demand: Demand, tokens: int) -> int:
    """Bytes of the target's cache for a context of that many cells."""
    sequences = demand.settings.max_running_requests or int(demand.flag("parallel", "np", "-np") or 1)
    keys, values = kv_types(demand)
    total = 0
    for layer in demand.target.layers:
        count = cells(tokens, layer.window, sequences)
        if isinstance(layer.attention, Heads):
            heads = layer.attention
            total += count * (
                keys.bytes(heads.kv_heads * heads.head_dim) + values.bytes(heads.kv_heads * heads.v_head_dim)
            )
        elif layer.attention:
            total += count * layer.token_bytes(keys, scaled=False)
    return total


def kv_types(demand: Demand) -> tuple[KvDtype, KvDtype]:
    """The types of keys and of values: F16 unless asked for."""
    asked = demand.settings.kv_dtype
    both = kv_dtype("fp16" if asked in (None, "auto") else str(asked))
    keys, values = demand.flag("cache-type-k", "ctk", "-ctk"), demand.flag("cache-type-v", "ctv", "-ctv")
    return kv_dtype(str(keys)) if keys else both, kv_dtype(str(values)) if values else both


def predict(demand: Demand, rest: int) -> Pool:
    """The context asked for (or the longest of the model), or what fits where it does not."""
    sequences = demand.settings.max_running_requests or int(demand.flag("parallel", "np", "-np") or 1)
    state = (demand.target.state_bytes() or 0) * sequences * (1 + demand.drafts)
    asked = demand.settings.context_length or demand.target.max_length or 4096
    if demand.settings.pool_tokens:
        asked = demand.settings.pool_tokens
    draft_type = kv_dtype(demand.speculation.draft_kv_dtype or "fp16")
    draft = demand.drafter.kv_bytes_per_token(draft_type) if demand.drafter and demand.speculation.on else 0

    def size(tokens: int) -> int:
        return cache_bytes(demand, tokens) + draft * tokens + state

    tokens, capped = -(-asked // PAD) * PAD, None
    if size(tokens) > rest:
        low, high = 0, tokens // PAD
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if size(middle * PAD) <= rest else (low, middle - 1)
        tokens, capped = low * PAD, "memory: the context asked for would not start"
    keys, _ = kv_types(demand)
    per_token = (cache_bytes(demand, tokens + PAD) - cache_bytes(demand, tokens)) // PAD
    return Pool(
        tokens=tokens,
        block_tokens=1,
        token_bytes=per_token or demand.target.kv_bytes_per_token(keys, scaled=False),
        draft_bytes=draft,
        ideal_tokens=max(0, rest - state) // max(1, per_token + draft),
        state_slots=sequences * (1 + demand.drafts) if state else 0,
        state_slot_bytes=demand.target.state_bytes() or 0,
        max_running=sequences,
        windows=demand.target.window_bytes_per_token(keys),
        capped_by=capped,
        notes=(f"allocated whole: {size(tokens):,} bytes for {tokens:,} cells",),
    )
