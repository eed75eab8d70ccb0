"""One file an engine: its scheduler as rules."""

from __future__ import annotations

from collections.abc import Callable

from kvantage.core import UsageError
from kvantage.planner.memory import Demand, Pool
from kvantage.sim.dialects import sglang, vllm
from kvantage.sim.rules import Rules

DIALECTS: dict[str, Callable[[Demand, Pool], Rules]] = {"sglang": sglang.rules, "vllm": vllm.rules}


def rules_of(engine: str, demand: Demand, pool: Pool) -> Rules:
    """The rules of an engine for one arm. Raises UsageError for an engine that is not simulated."""
    if engine not in DIALECTS:
        raise UsageError(f"`{engine}` is not simulated; {' and '.join(sorted(DIALECTS))} are")
    return DIALECTS[engine](demand, pool)
