"""The ledger read back as columns: what analysis is given. Plain data, no I/O."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from kvantage.core.arm import ArmSettings
from kvantage.core.cell import CellKey
from kvantage.core.engine import LogReadings
from kvantage.core.exactness import ExactnessData
from kvantage.core.facts import CounterDelta, Facts
from kvantage.core.telemetry import WatchedHost

Strings = NDArray[np.str_]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Counts = NDArray[np.signedinteger[Any]]
"""Small whole numbers, of whatever width holds them."""
Bools = NDArray[np.bool_]


class Texts(Sequence[str]):
    """Answers that are fetched when they are asked for; `filled` says which are more than space."""

    filled: Bools


@dataclass(frozen=True)
class ChunkSummary:
    """What the chunks of each request tell together, an entry a request.

    first_ns, last_ns  when its first and its last chunk came, -1 without one
    told               every chunk says how many tokens it carried
    tokens             in all chunks that say so
    opening            tokens in its first chunk, -1 where not told
    widest             most tokens in one chunk, 0 where none says
    """

    first_ns: Ints
    last_ns: Ints
    told: Bools
    tokens: Floats
    opening: Ints
    widest: Ints


@dataclass(frozen=True)
class RequestColumns:
    """One array a field, one row a request, in the order in which the requests were committed.

    Counts that the server may leave out are float64 with NaN for 'not reported'. Times are int64
    nanoseconds of one monotonic clock a boot, -1 where there is none. The chunks of request i are
    `chunk_ns[chunk_offsets[i]:chunk_offsets[i + 1]]`; `chunk_tokens` is -1 where not told.
    """

    arm: Strings
    fingerprint: Strings
    block: Ints
    phase: Strings
    workload: Strings
    concurrency: Ints
    chain: Strings
    attempt: Ints
    repeat: Ints
    stream: Ints
    prompt_id: Strings
    warmup: Bools
    ok: Bools
    error: Strings
    finish_reason: Strings
    intended_ns: Ints
    sent_ns: Ints
    first_ns: Ints
    first_content_ns: Ints
    end_ns: Ints
    prompt_tokens: Floats
    output_tokens: Floats
    reasoning_tokens: Floats
    cached_tokens: Floats
    accepted_tokens: Floats
    drafted_tokens: Floats
    spec_steps: Floats
    queue_s: Floats
    retractions: Floats
    expected_low: Floats
    expected_high: Floats
    client_lag_ns: Ints
    chunk_offsets: Ints
    chunk_ns: Ints
    chunk_tokens: Counts
    histograms: tuple[tuple[int, ...] | None, ...]
    content: Sequence[str]
    reasoning: Sequence[str]
    checks: tuple[Mapping[str, Any], ...]

    def __len__(self) -> int:
        return len(self.arm)

    def answered(self, rows: Ints) -> Bools:
        """Which of these requests have content or reasoning that is more than space."""
        return _filled(self.content, rows) | _filled(self.reasoning, rows)

    def code(self, column: Literal["arm", "phase", "workload", "chain", "prompt_id"]) -> Ints:
        """A whole number for each distinct text of a column, in order of first appearance; kept."""
        if column not in self._codes:
            self._codes[column] = number_words(getattr(self, column))
        return self._codes[column]

    @functools.cached_property
    def _codes(self) -> dict[str, Ints]:
        return {}

    @functools.cached_property
    def chunks(self) -> ChunkSummary:
        """Each request's chunks summed up, once for all that ask."""
        return _sum_up(self.chunk_offsets, self.chunk_ns, self.chunk_tokens)


@dataclass(frozen=True)
class TelemetryColumns:
    """Looks at devices and machines, ordered by boot and time: see `telemetry.Sample`. NaN, and -1 in
    `reasons`, is 'not told'. `boot` is the boot's number in the ledger, `device` is empty for the machine.
    """

    boot: Ints
    at_ns: Ints
    host: Strings
    device: Strings
    sm_mhz: Floats
    power_w: Floats
    temperature_c: Floats
    reasons: Ints
    memory_used_bytes: Floats
    cpu_mhz: Floats
    load: Floats
    memory_available_bytes: Floats

    def __len__(self) -> int:
        return len(self.boot)


@dataclass(frozen=True)
class CellWindow:
    """One attempt at a cell: when it ran, what the counters moved by, what the log said meanwhile.

    `running_max` and `waiting_max` are the highest gauges sampled inside it, None where not reported.
    `lag_p99_ns` is the client's own delay that 99 % of the cell's time stayed at or under.
    `own_cpu_s` is the processor time that kvantage's own process took meanwhile.
    `boot` is the number of its boot in the ledger, -1 where it is not known.
    `complete` is False for an attempt that was broken off; it is shown and not used.
    """

    key: CellKey
    chain: str
    attempt: int
    started_ns: int
    ended_ns: int
    complete: bool
    delta: CounterDelta | None = None
    log: LogReadings | None = None
    running_max: float | None = None
    waiting_max: float | None = None
    pool_usage_max: float | None = None
    measured_at: str = ""
    own_prompt_tokens: int | None = None
    lag_p99_ns: int | None = None
    own_cpu_s: float | None = None
    notes: tuple[str, ...] = ()
    boot: int = -1


@dataclass(frozen=True)
class BootRow:
    """One start of a server with one arm. `reason` and `log_lines` say why a failed one failed.

    An `interrupted` one was broken off (kvantage ended, or was stopped); what it had finished counts.
    """

    arm: str
    fingerprint: str
    block: int
    status: Literal["running", "ok", "failed", "interrupted"]
    started_at: str
    ready_s: float | None = None
    reason: str | None = None
    log_lines: tuple[str, ...] = ()
    facts: Facts | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class SkippedPhase:
    """A phase (or a part of one) that was not run in an arm, and why."""

    arm: str
    block: int
    phase: str
    workload: str
    reason: str


@dataclass(frozen=True)
class StudyData:
    """Everything that a study's ledger holds, for the arms as they are now (by fingerprint).

    `study` is the study as loaded (plain JSON, the schema of the study file with defaults filled in).
    `simulated` is True when any figure came from a simulator or from simulated acceptance.
    `watched` says what `telemetry` looked at, by the boot's number in the ledger.
    """

    study: Mapping[str, Any]
    control: str
    arms: tuple[ArmSettings, ...]
    boots: tuple[BootRow, ...]
    windows: tuple[CellWindow, ...]
    requests: RequestColumns
    skipped: tuple[SkippedPhase, ...] = ()
    events: tuple[Mapping[str, Any], ...] = ()
    simulated: bool = False
    kvantage_version: str = ""
    telemetry: TelemetryColumns | None = None
    watched: Mapping[int, tuple[WatchedHost, ...]] = field(default_factory=dict)
    exactness: ExactnessData = field(default_factory=ExactnessData)


def number_words(column: Strings) -> Ints:
    """A whole number for each distinct text, in order of first appearance."""
    seen: dict[str, int] = {}
    return np.fromiter(
        (seen.setdefault(text, len(seen)) for text in column.tolist()), dtype=np.int64, count=len(column)
    )


def _filled(texts: Sequence[str], rows: Ints) -> Bools:
    if isinstance(texts, Texts):
        return texts.filled[rows]
    return np.fromiter((bool(texts[row].strip()) for row in rows.tolist()), dtype=np.bool_, count=len(rows))


BLOCK = 65_536
"""Requests that are summed up at a time, so that what is made on the way stays small."""


def _sum_up(offsets: Ints, times: Ints, tokens: Counts) -> ChunkSummary:
    """By one pass over the chunks; requests without a chunk are left out of it."""
    number = len(offsets) - 1
    some = np.flatnonzero(np.diff(offsets) > 0)
    first, last = np.full(number, -1, dtype=np.int64), np.full(number, -1, dtype=np.int64)
    told, total = np.zeros(number, dtype=np.bool_), np.zeros(number)
    opening, widest = np.full(number, -1, dtype=np.int64), np.zeros(number, dtype=np.int64)
    first[some], last[some] = times[offsets[some]], times[offsets[some + 1] - 1]
    opening[some] = tokens[offsets[some]]
    for start in range(0, len(some), BLOCK):
        rows = some[start : start + BLOCK]
        low, high = offsets[rows[0]], offsets[rows[-1] + 1]
        starts, own = offsets[rows] - low, tokens[low:high]
        told[rows] = np.minimum.reduceat(own, starts) >= 0
        known = np.maximum(own, 0)
        total[rows] = np.add.reduceat(known, starts, dtype=np.int64)
        widest[rows] = np.maximum.reduceat(known, starts)
    return ChunkSummary(first, last, told, total, opening, widest)
