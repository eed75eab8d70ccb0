"""One file an engine: its scheduler as rules, and what it says over HTTP and in its log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kvantage.core import UsageError
from kvantage.planner.memory import Demand, Pool
from kvantage.sim.dialects import sglang, vllm
from kvantage.sim.front import Front, Served
from kvantage.sim.rules import Rules


@dataclass(frozen=True)
class Dialect:
    """One engine's rules and words."""

    rules: Callable[[Demand, Pool], Rules]
    front: Callable[[Served, Rules], Front]


DIALECTS: dict[str, Dialect] = {
    "sglang": Dialect(sglang.rules, sglang.Front),
    "vllm": Dialect(vllm.rules, vllm.Front),
}


def dialect(engine: str) -> Dialect:
    """The dialect of an engine. Raises UsageError for an engine that is not simulated."""
    if engine not in DIALECTS:
        raise UsageError(f"`{engine}` is not simulated; {' and '.join(sorted(DIALECTS))} are")
    return DIALECTS[engine]
