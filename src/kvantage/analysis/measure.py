"""One cell measured: its gates first, then its figures. A void cell has no speed."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from kvantage.analysis import asked
from kvantage.analysis.acceptance import Acceptance, measure_acceptance, no_acceptance
from kvantage.analysis.cells import Cell
from kvantage.analysis.clocks import CellClocks, cell_clocks
from kvantage.analysis.evidence import Evidence
from kvantage.analysis.first_token import first_token_speed, uncached
from kvantage.analysis.gates import judge_cell
from kvantage.analysis.looks import looks_of, per_token
from kvantage.analysis.loop import measure_loop
from kvantage.analysis.queueing import measured_queue
from kvantage.analysis.speed import Speed, absent_speed, first_of_shape, measure_speed
from kvantage.analysis.timing import Timing, time_requests
from kvantage.core.arm import ArmSettings
from kvantage.core.cell import CellKey, CellStatus
from kvantage.core.columns import Bools, Floats, StudyData
from kvantage.core.facts import Facts
from kvantage.core.reading import Reading

SPEEDLESS = ("probes",)
"""Phases that ask for right answers, not for speed."""


@dataclass(frozen=True)
class CellFindings:
    """One cell: its status, and what it measured. A void cell's speeds are missing, with the reason.

    Token counts are sums over the measured requests. `queue` says why a closed loop measured a queue: its
    figures are those of the queue, and it takes part in no ratio.
    """

    key: CellKey
    status: CellStatus
    requests: Reading
    warmups: Reading
    speed: Speed
    acceptance: Acceptance
    prompt_tokens: Reading
    output_tokens: Reading
    cached_tokens: Reading
    expected_cached_tokens: Reading
    missed_requests: Reading
    client_lag_s: Reading
    measured_at: str = ""
    notes: tuple[str, ...] = ()
    queue: str | None = None
    tokens_per_joule: Reading = field(default_factory=lambda: Reading.absent("no device told its power"))

    @property
    def sound(self) -> bool:
        """True when it may be compared: nothing voids it, and it did not measure a queue."""
        return self.ok and self.queue is None

    def figure(self, metric: str) -> Reading:
        """The cell's figure of that metric: one of the ratios' metrics."""
        if metric == "tok_per_joule":
            return self.tokens_per_joule
        found: Reading = {
            "decode_tok_s": self.speed.decode,
            "steady_tok_s": self.speed.steady,
            "e2e_tok_s": self.speed.end_to_end,
            "ttft_s": self.speed.ttft,
        }[metric]
        return found

    @property
    def ok(self) -> bool:
        """True when nothing voids it."""
        return self.status.status == "ok"


@dataclass(frozen=True)
class MeasuredCell:
    """A cell with the times of its requests at hand, for pairing with another arm's."""

    cell: Cell
    findings: CellFindings
    timing: Timing
    kept: Bools
    clocks: CellClocks | None = None


def drafts(arm: ArmSettings, facts: Facts | None) -> bool:
    """True when the arm speculates: as declared, or as the server says where its own flags were given."""
    if arm.speculation.on:
        return True
    method = facts.speculation.get("method") if facts else None
    return method not in (None, "", "none")


def measure_cell(data: StudyData, cell: Cell, arm: ArmSettings, facts: Facts | None) -> MeasuredCell:
    """Judge and measure one cell."""
    requests = data.requests
    timing = time_requests(requests, cell.rows)
    drafting = drafts(arm, facts)
    acceptance = (
        no_acceptance("nothing drafts in this arm")
        if not drafting
        else no_acceptance("a few tokens tell no acceptance")
        if cell.key.phase == "ttft"
        else measure_acceptance(requests, cell, _drafts_a_step(arm, facts))
    )
    looks = looks_of(data, cell)
    joules_per_token, tokens_per_joule = per_token(looks)
    evidence = Evidence(
        cell=cell,
        requests=requests,
        timing=timing,
        arm=arm,
        drafting=drafting,
        facts=facts,
        acceptance=acceptance,
        asked=asked.output_tokens(data.study, cell.key.phase),
        looks=looks,
    )
    status = judge_cell(evidence, simulation_allowed=data.simulated)
    if status.status == "void":
        tokens_per_joule = Reading.absent("void: " + "; ".join(status.reasons))
    kept = np.zeros(len(timing), dtype=np.bool_)
    queue: str | None = None
    if status.status == "void":
        speed = absent_speed("void: " + "; ".join(status.reasons))
        if any(_voids_acceptance(reason) for reason in status.reasons):
            acceptance = no_acceptance("void: " + "; ".join(status.reasons))
    elif cell.key.phase in SPEEDLESS:
        speed = absent_speed("this phase measures no speed")
    elif cell.key.phase == "ttft":
        kept = uncached(requests, timing)
        speed = first_token_speed(requests, timing, kept)
    elif cell.key.phase == "sweep":
        kept = ~first_of_shape(requests, timing)
        queue = measured_queue(evidence)
        timing, speed = measure_loop(requests, cell)
    else:
        speed = measure_speed(requests, cell)
        kept = ~first_of_shape(requests, timing)
    findings = CellFindings(
        key=cell.key,
        status=status,
        requests=Reading.of(len(cell.rows), "requests", "client"),
        warmups=Reading.of(len(cell.warmups), "requests", "client"),
        speed=speed,
        acceptance=acceptance,
        prompt_tokens=_total(evidence.column("prompt_tokens"), "prompt tokens"),
        output_tokens=_total(evidence.column("output_tokens"), "output tokens"),
        cached_tokens=_total(evidence.column("cached_tokens"), "cached tokens"),
        expected_cached_tokens=_expected(evidence),
        missed_requests=_missed(evidence),
        client_lag_s=_lag(evidence),
        measured_at=min((window.measured_at for window in cell.windows), default=""),
        notes=_notes(cell, speed, acceptance),
        queue=queue,
        tokens_per_joule=tokens_per_joule,
    )
    clocks = cell_clocks(cell.key, looks, joules_per_token) if looks is not None else None
    return MeasuredCell(cell, findings, timing, kept, clocks)


def _drafts_a_step(arm: ArmSettings, facts: Facts | None) -> int | None:
    if arm.speculation.drafts is not None:
        return arm.speculation.drafts
    told = facts.speculation if facts else {}
    drafts_told = told.get("drafts", told.get("num_speculative_tokens"))
    return int(drafts_told) if isinstance(drafts_told, int | float) else None


def _voids_acceptance(reason: str) -> bool:
    gate = reason.partition(":")[0]
    return gate in (
        "requests_ok",
        "drafts_moved",
        "not_simulated",
        "nonempty_output",
        "counted_tokens",
        "foreign_traffic",
    )


def _total(values: Floats, what: str) -> Reading:
    if not len(values):
        return Reading.absent("no measured request")
    untold = int(np.isnan(values).sum())
    if untold:
        return Reading.absent(f"the server did not report {what} for {untold} of {len(values)} requests")
    return Reading.of(float(values.sum()), "tokens", "request", note=f"sum over {len(values)} requests")


def _expected(evidence: Evidence) -> Reading:
    low, high = evidence.column("expected_low"), evidence.column("expected_high")
    if not len(low) or np.isnan(low).any() or np.isnan(high).any():
        return Reading.absent("no expected hit was recorded")
    least, most = float(low.sum()), float(high.sum())
    return Reading.of(
        most, "tokens", "computed", low=least, high=most, note="range that a sound prefix cache may serve"
    )


def _missed(evidence: Evidence) -> Reading:
    cached, low = evidence.column("cached_tokens"), evidence.column("expected_low")
    if not len(low) or np.isnan(low).any():
        return Reading.absent("no expected hit was recorded")
    if np.isnan(cached).any():
        return Reading.absent("the server did not report cached tokens")
    return Reading.of(int((cached < low).sum()), "requests", "computed", note="served less than expected")


def _lag(evidence: Evidence) -> Reading:
    lag = evidence.client_lag_s()
    if lag is None:
        return Reading.absent("no measured request")
    return Reading.of(lag, "s", "client", note="p99")


def _notes(cell: Cell, speed: Speed, acceptance: Acceptance) -> tuple[str, ...]:
    notes = [note for window in cell.windows for note in window.notes]
    notes += [f"{len(cell.broken)} attempts broken off and not used"] if cell.broken and cell.windows else []
    notes += speed.notes
    notes += [f"acceptance refused, {reason}" for reason in acceptance.refused]
    return tuple(dict.fromkeys(notes))
