"""A chain is a piece of work that is kept whole or run again; each phase says which chains it has."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from kvantage.ledger import CLOSING
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

    One that is `closing` is run once a study and on the control alone, when every arm of every block has
    been measured: on the control's last boot where that is the study's last, else on one more boot of it.
    Its name begins with `closing:`. Its `run(bench)` finds what all arms answered, in all blocks, by
    `read_study(bench.ledger.folder)`: all that was committed until then. It is run again when a chain of
    one of its `phases` was measured after it (an arm or a boot was added), and its last whole run counts,
    whatever that run's block.
    """

    name: str
    phases: tuple[str, ...]
    loads: tuple[Load, ...]
    run: Callable[[Bench], Awaitable[None]]
    workload: str | None = None
    flush_first: bool = False
    after_boot: bool = False
    closing: bool = False

    def __post_init__(self) -> None:
        assert self.closing == self.name.startswith(CLOSING), "the ledger tells closing chains by name"

    def fingerprint(self, study: Study) -> str:
        """Changes when anything that it measures changes; results are kept under it."""
        return "+".join(study.phase_fingerprint(phase, self.workload) for phase in self.phases)

    @property
    def requests(self) -> int:
        """How many requests it sends."""
        return sum(load.waves * load.concurrency for load in self.loads)
