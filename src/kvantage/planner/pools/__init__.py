"""One file an engine: how it turns memory into a pool."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

from kvantage.core import UsageError
from kvantage.planner.memory import Demand, Left, PoolPrediction, Rank
from kvantage.planner.pools import llamacpp, sglang, vllm

ENGINES: dict[str, ModuleType] = {"sglang": sglang, "vllm": vllm, "llamacpp": llamacpp}
DEFAULT = "vllm"


def find(engine: str) -> ModuleType:
    """The arithmetic of an engine. Raises UsageError that lists the known ones."""
    if engine not in ENGINES:
        raise UsageError(f"the planner knows no engine `{engine}`; it knows {', '.join(ENGINES)}")
    return ENGINES[engine]


def predict(engine: str, demand: Demand, room: Sequence[Rank] | Left) -> PoolPrediction:
    """An arm's pool, from the devices it runs on or from memory that is known."""
    arithmetic = find(engine)
    left: Left = room if isinstance(room, Left) else arithmetic.left(demand, room)
    at = arithmetic.predict(demand, left.bytes)
    low = getattr(arithmetic, "predict_least", arithmetic.predict)(demand, left.low)
    high = getattr(arithmetic, "predict_most", arithmetic.predict)(demand, left.high)
    return PoolPrediction(at, low, high, left)
