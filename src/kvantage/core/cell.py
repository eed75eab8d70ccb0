"""A cell is the unit of a table: one arm, boot, phase, workload and concurrency."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Gate = Literal[
    "drafts_moved",
    "cache_cold",
    "cache_warm",
    "no_queue",
    "no_retraction",
    "effective_concurrency",
    "client_on_time",
    "clock_steady",
    "not_simulated",
    "foreign_traffic",
    "nonempty_output",
    "counted_tokens",
    "requests_ok",
]


@dataclass(frozen=True, slots=True, order=True)
class CellKey:
    """Names a cell. `block` counts boots of the same arm from 0; `concurrency` is requests in flight."""

    arm: str
    block: int
    phase: str
    workload: str
    concurrency: int


@dataclass(frozen=True, slots=True)
class CellStatus:
    """`ok`, or `void` with the gates that voided it and why, each as `gate: reason`.

    A void cell's speed is not reported. `finding` keeps what it shows all the same: an eviction in a pool
    that is too small is a capacity finding.
    """

    status: Literal["ok", "void"]
    reasons: tuple[str, ...] = ()
    finding: str | None = None

    def __post_init__(self) -> None:
        if (self.status == "void") != bool(self.reasons):
            raise ValueError("a cell is void exactly when there are reasons")
