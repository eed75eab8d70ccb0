"""SGLang's scheduler as rules: prefill before decode, a prefix tree, and for hybrids states in it."""

from __future__ import annotations

from kvantage.planner.memory import Demand, Pool
from kvantage.planner.pools.sglang import SPECULATIVE_RUNNING, slots_a_request
from kvantage.sim.rules import Rules

CHUNK = 8192


def rules(demand: Demand, pool: Pool) -> Rules:
    """How this arm would schedule. The share of an answer that is reserved is the scheduler's first guess."""
    hybrid = bool(demand.target.state_layers)
    chunk = demand.settings.chunked_prefill or CHUNK
    return Rules(
        running=pool.max_running or demand.settings.max_running_requests or SPECULATIVE_RUNNING,
        chunk=chunk if chunk > 0 else 10**9,
        page=pool.block_tokens,
        drafts=demand.drafts,
        reserve=0.7,
        states=pool.state_slots if hybrid and pool.state_slots else None,
        states_running=slots_a_request(demand) if hybrid else 1,
        prefix_caching=demand.settings.prefix_caching is not False,
    )
