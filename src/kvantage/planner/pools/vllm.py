"""The pool as vLLM computes it (0.26 to 0.33): blocks shared by all layers, a drafter's layers among them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from math import ceil

from kvantage.planner.layers import Latent
from kvantage.planner.memory import GIB, Demand, Left, Pool, Rank, smallest

FRACTION = 0.92
OTHER_BYTES = int(0.22 * GIB)
"""Memory outside of torch, as every boot on one H200 printed it."""
ACTIVATION = (int(0.1 * GIB), int(0.8 * GIB), int(2.2 * GIB))
"""Peak activation at the end of profiling: least, middle and most of the boots seen (0.13 to 1.75 GiB)."""
PREFILL = 2048


def left(demand: Demand, ranks: Sequence[Rank]) -> Left:
    """total * fraction - weights - peak activation - captured graphs, or the bytes that are pinned."""
    if demand.settings.pool_bytes:
        return Left.exactly(demand.settings.pool_bytes, "pinned in bytes")
    rank = smallest(ranks)
    fraction = demand.settings.memory_fraction
    fraction = FRACTION if fraction is None else fraction
    base = int(rank.total * fraction) - rank.weights - rank.draft_weights - OTHER_BYTES
    low, middle, high = (max(0, base - part) for part in reversed(ACTIVATION))
    return Left(
        middle,
        low,
        high,
        False,
        f"{fraction:.2f} of the device, less weights, activation (0.1 to 2.2 GiB) and what is not torch's",
    )


def block_tokens(demand: Demand) -> int:
    """Tokens in one block: as asked for, 128 on a CPU, 64 under sparse attention, else 16."""
    if demand.settings.page_size:
        return demand.settings.page_size
    if demand.processor:
        return 128
    if any(isinstance(layer.attention, Latent) for layer in demand.target.layers):
        return 64
    return 16


def predict(demand: Demand, rest: int) -> Pool:
    """The pool in `rest` bytes of one rank.

    One kind of layer: blocks of the sum of the layers' pages, and tokens = blocks * tokens in a block.
    Several kinds (full, windowed, recurrent): groups of equally many layers share the blocks, and the tokens
    printed are derived: the concurrency at the longest request, times its length.
    """
    target, draft = demand.target_bytes(), demand.draft_bytes()
    block = block_tokens(demand)
    window, states = demand.window_bytes(), demand.target.state_layers
    if demand.target.state_problem:
        demand.state_bytes()
    if not window and not states:
        per_block = (target + draft) * block
        blocks = rest // per_block if per_block else 0
        pool = Pool(
            tokens=blocks * block,
            block_tokens=block,
            token_bytes=target,
            draft_bytes=draft,
            ideal_tokens=rest // (target + draft) if target + draft else 0,
            max_running=demand.settings.max_running_requests,
            blocks=blocks,
            notes=("one block is never used",),
        )
    else:
        pool = _mixed(demand, rest, block, draft)
    ceiling = demand.settings.pool_tokens
    if ceiling is not None and ceiling < pool.tokens:
        return replace(pool, tokens=ceiling // block * block, capped_by="the ceiling asked for")
    return pool


def _mixed(demand: Demand, rest: int, block: int, draft: int) -> Pool:
    """Groups: each kind of layer is cut into groups of as many layers as the rarest kind has."""
    tp, kv = demand.tp, demand.kv
    attention = [layer.token_bytes(kv, tp) for layer in demand.target.layers if layer.attention]
    widest = max(attention) if attention else 1
    states = [layer.state.bytes(conv_size=demand.target.conv_size, ssm_size=demand.target.ssm_size, tp=tp)
              for layer in demand.target.layers if layer.state]  # fmt: skip
    if states and widest * block < max(states):
        block = ceil(max(states) / widest / 16) * 16  # a block holds a state: the page is padded to match
    kinds: Counter[str] = Counter()
    for layer in demand.target.layers:
        if layer.attention:
            kinds[f"window {layer.window}" if layer.window else "full"] += 1
        if layer.state:
            kinds["state"] += 1
    extra = len(demand.drafter.layers) if demand.drafter else len(demand.target.mtp.layers) if draft else 0
    if draft and extra:
        kinds["full"] += extra
    smallest_kind, largest = min(kinds.values()), max(kinds.values())
    size = largest if largest < smallest_kind * 1.25 else smallest_kind
    groups = {kind: ceil(count / size) for kind, count in kinds.items()}
    per_block = size * widest * block
    blocks = rest // per_block if per_block else 0
    length = demand.settings.context_length or demand.target.max_length or block
    chunk = demand.settings.chunked_prefill or PREFILL

    def needed(tokens: int) -> int:
        total = 0
        for kind, count in groups.items():
            if kind == "full":
                total += ceil(tokens / block) * count
            elif kind == "state":
                total += (1 + demand.drafts) * count
            else:
                kept = min(int(kind.split()[1]) - 1 + chunk, tokens)
                total += (ceil(kept / block) + 1) * count
        return total

    concurrency = blocks / needed(length)
    own = demand.target_bytes() + draft
    fixed = demand.target.kv_bytes_per_sequence(kv, tp) + (demand.target.state_bytes(tp) or 0)
    ideal = int(max(0, rest - fixed * max(1.0, concurrency)) / own) if own else 0
    return Pool(
        tokens=int(concurrency * length),
        block_tokens=block,
        token_bytes=demand.target_bytes(),
        draft_bytes=draft,
        ideal_tokens=ideal,
        state_slots=0,
        state_slot_bytes=sum(states),
        max_running=demand.settings.max_running_requests,
        blocks=blocks,
        per_request_blocks=needed(length),
        windows=demand.window_bytes(),
        notes=(
            f"the tokens are derived: {concurrency:.2f} requests of {length:,} tokens at once; "
            "not comparable with another engine's",
            "one block is never used",
        ),
    )
