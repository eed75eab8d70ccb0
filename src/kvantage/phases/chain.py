"""A chain is a piece of work that is kept whole or run again; each phase says which chains it has."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from kvantage.phases.bench import Bench
from kvantage.study import Study


@dataclass(frozen=True, slots=True)
class Load:
    """Requests alike, for an estimate of the time: `waves` times `concurrency` at once."""

    phase: str
    workload: str
    waves: int
    concurrency: int
    prompt_tokens: int
    output_tokens: int
    prompt_is_cached: bool = False


@dataclass(frozen=True)
class ChainPlan:
    """What is run as one: its name in the ledger, the study's phases that it rests on, its load.

    One that comes `after_boot` is run before anything else is asked of the server, the proof of its cache
    included.
    """

    name: str
    phases: tuple[str, ...]
    loads: tuple[Load, ...]
    run: Callable[[Bench], Awaitable[None]]
    workload: str | None = None
    flush_first: bool = False
    after_boot: bool = False

    def fingerprint(self, study: Study) -> str:
        """Changes when anything that it measures changes; results are kept under it."""
        return "+".join(study.phase_fingerprint(phase, self.workload) for phase in self.phases)

    @property
    def requests(self) -> int:
        """How many requests it sends."""
        return sum(load.waves * load.concurrency for load in self.loads)
