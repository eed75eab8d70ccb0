"""What an analysis found: frozen, complete, and ready to be shown. Every figure is a Reading."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from kvantage.analysis.attribution import Attribution
from kvantage.analysis.capacity import Pool, Sessions
from kvantage.analysis.clocks import Clocks
from kvantage.analysis.compare import Comparison
from kvantage.analysis.decide import Verdict
from kvantage.analysis.drift import Drift
from kvantage.analysis.exactness.judge import Exactness
from kvantage.analysis.foretold import Foresight
from kvantage.analysis.ladder import Ladder
from kvantage.analysis.measure import CellFindings
from kvantage.analysis.memory import Memory
from kvantage.analysis.probes import ProbeResult, Recall
from kvantage.analysis.sweep import Sweep
from kvantage.analysis.trade import Trade
from kvantage.analysis.waves import Wave
from kvantage.core.arm import Speculation
from kvantage.core.reading import Reading

ArmStatus = Literal["measured", "partial", "failed", "not measured"]


@dataclass(frozen=True)
class BootFindings:
    """One start of an arm's server."""

    block: int
    status: Literal["running", "ok", "failed", "interrupted"]
    started_at: str
    ready_s: Reading
    pool_tokens: Reading
    pool_bytes: Reading
    reason: str | None = None
    log_lines: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    provenance: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class SkippedFindings:
    """Something that was not run in an arm, and why."""

    block: int
    phase: str
    workload: str
    reason: str


@dataclass(frozen=True)
class ArmFindings:
    """Everything about one arm. `reason` and `log_lines` say why a failed one failed.

    `speculation` is as declared, `as_served` what the server says of it in its own words.
    """

    name: str
    control: bool
    speculation: Speculation
    status: ArmStatus
    reason: str | None
    log_lines: tuple[str, ...]
    pool: Pool
    boots: tuple[BootFindings, ...]
    cells: tuple[CellFindings, ...]
    sessions: tuple[Sessions, ...]
    probes: tuple[ProbeResult, ...]
    recall: tuple[Recall, ...]
    skipped: tuple[SkippedFindings, ...]
    as_served: Mapping[str, Any] = field(default_factory=dict)
    engine_version: str | None = None

    def cell(self, phase: str, workload: str | None, concurrency: int | None) -> tuple[CellFindings, ...]:
        """The arm's cells of that description, one a block; None takes any."""
        return tuple(
            cell
            for cell in self.cells
            if cell.key.phase == phase
            and workload in (None, cell.key.workload)
            and concurrency in (None, cell.key.concurrency)
        )


@dataclass(frozen=True)
class Event:
    """Something that happened and that a reader wants to know: a warning, the proof of a cache."""

    at: str
    kind: str
    arm: str | None
    text: str


@dataclass(frozen=True)
class StudyFindings:
    """What was studied, in the study's own words."""

    model: str
    revision: str | None
    engine: str
    control: str
    document_tokens: Reading
    concurrency: tuple[int, ...]
    declared: Mapping[str, Any]


@dataclass(frozen=True)
class Findings:
    """The whole study. `notice` stands first in every report; `limits` say what is not shown here."""

    study: StudyFindings
    arms: tuple[ArmFindings, ...]
    comparisons: tuple[Comparison, ...]
    trades: tuple[Trade, ...]
    verdict: Verdict
    drift: tuple[Drift, ...]
    events: tuple[Event, ...]
    notice: str | None
    simulated: bool
    limits: tuple[str, ...]
    method: tuple[str, ...]
    kvantage_version: str
    ladders: tuple[Ladder, ...] = ()
    sweeps: tuple[Sweep, ...] = ()
    clocks: Clocks | None = None
    attributions: tuple[Attribution, ...] = ()
    memory: tuple[Memory, ...] = ()
    waves: tuple[Wave, ...] = ()
    exactness: Exactness | None = None
    foresight: Foresight = field(default_factory=Foresight)

    def arm(self, name: str) -> ArmFindings:
        """The arm of that name. Raises KeyError when there is none."""
        for arm in self.arms:
            if arm.name == name:
                return arm
        raise KeyError(name)
