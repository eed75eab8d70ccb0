"""What one step of the simulated engine did."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Step:
    """What one step did, for logs and counters."""

    kind: str
    started: float
    seconds: float
    new_tokens: int
    cached_tokens: int
    running: int
    waiting: int
    emitted: int
    accepted: int
    drafted: int
