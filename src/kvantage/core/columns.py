"""The ledger read back as columns: what analysis is given. Plain data, no I/O."""

from __future__ import annotations

from collections.abc import Mapping
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
Bools = NDArray[np.bool_]


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
    chunk_tokens: Ints
    histograms: tuple[tuple[int, ...] | None, ...]
    content: tuple[str, ...]
    reasoning: tuple[str, ...]
    checks: tuple[Mapping[str, Any], ...]

    def __len__(self) -> int:
        return len(self.arm)


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
