"""vLLM's scheduler as rules: one budget of tokens a step, hashed blocks, the newest request gives way."""

from __future__ import annotations

from kvantage.planner.memory import Demand, Pool
from kvantage.planner.pools.vllm import PREFILL
from kvantage.sim.rules import Rules

RUNNING = 256
DROPS_A_BLOCK = ("mtp", "eagle3", "dflash")
"""Drafters that need the hidden state before a hit's end: the last block of every hit is computed again."""


def rules(demand: Demand, pool: Pool) -> Rules:
    """How this arm would schedule."""
    return Rules(
        running=demand.settings.max_running_requests or RUNNING,
        chunk=demand.settings.chunked_prefill or PREFILL,
        mixed=True,
        page=pool.block_tokens,
        drafts=demand.drafts,
        drop_block=demand.speculation.method in DROPS_A_BLOCK,
        newest_first=True,
        prefix_caching=demand.settings.prefix_caching is not False,
    )
