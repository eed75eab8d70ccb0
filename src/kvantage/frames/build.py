"""A study's columns and findings as polars frames, by the dictionary."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kvantage.analysis.findings import Findings
from kvantage.analysis.measure import CellFindings
from kvantage.core import CellKey, Reading, UsageError
from kvantage.core.columns import Bools, Floats, Ints, StudyData
from kvantage.frames.dictionary import Kind, table

if TYPE_CHECKING:
    import polars as pl

MISSING = "tables need polars, which is not installed"
INSTALL = "install it with: pip install 'kvantage[frames]'"
NEVER = -1


def frames_library() -> Any:
    """The polars module. Raises UsageError with how to install it where it is missing."""
    try:
        import polars
    except ImportError:
        raise UsageError(MISSING, hint=INSTALL) from None
    return polars


def frame(name: str, data: StudyData, findings: Findings) -> pl.DataFrame:
    """The table of that name. Raises KeyError for one that there is not, UsageError without polars."""
    library = frames_library()
    types = _types(library)
    asked = table(name)
    columns = _BUILDERS[name](data, findings)
    assert list(columns) == [one.name for one in asked.columns], f"{name} is not as its dictionary says"
    made: pl.DataFrame = library.DataFrame(
        [_series(library, one.name, columns[one.name], types[one.kind]) for one in asked.columns]
    )
    return made


@dataclass(frozen=True)
class Gaps:
    """Numbers, of which those that are `gone` were not reported."""

    numbers: Ints | Floats
    gone: Bools


def _series(library: Any, name: str, values: Any, kind: Any) -> Any:
    """A column. Of numbers in an array no Python object is made: there may be millions."""
    if isinstance(values, Gaps):
        held = library.Series(name, values.numbers, dtype=kind)
        gone = np.flatnonzero(values.gone)
        return held.scatter(gone, None) if gone.size else held
    return library.Series(name, values, dtype=kind)


def _types(library: Any) -> dict[Kind, Any]:
    return {
        "text": library.String,
        "integer": library.Int64,
        "number": library.Float64,
        "truth": library.Boolean,
        "texts": library.List(library.String),
        "integers": library.List(library.Int64),
    }


Columns = dict[str, Any]


def _requests(data: StudyData, _: Findings) -> Columns:
    rows = data.requests
    plain = ("arm", "block", "phase", "workload", "concurrency", "chain", "attempt", "repeat", "stream")
    counts = ("prompt", "output", "reasoning", "cached", "accepted", "drafted")
    return {
        "request": np.arange(len(rows)),
        **{name: _list(getattr(rows, name)) for name in (*plain, "prompt_id", "warmup")},
        "simulated": [data.simulated] * len(rows),
        "ok": _list(rows.ok),
        "error": _words(rows.error),
        "finish_reason": _words(rows.finish_reason),
        "intended_ns": rows.intended_ns,
        "sent_ns": rows.sent_ns,
        "first_ns": _times(rows.first_ns),
        "first_content_ns": _times(rows.first_content_ns),
        "end_ns": rows.end_ns,
        **{f"{name}_tokens": _counts(getattr(rows, f"{name}_tokens")) for name in counts},
        "spec_steps": _counts(rows.spec_steps),
        "histogram": [list(one) if one is not None else None for one in rows.histograms],
        "queue_s": Gaps(rows.queue_s, np.isnan(rows.queue_s)),
        "retractions": _counts(rows.retractions),
        "expected_low": _counts(rows.expected_low),
        "expected_high": _counts(rows.expected_high),
        "client_lag_ns": rows.client_lag_ns,
        "content": list(rows.content),
        "reasoning": list(rows.reasoning),
        "checks": [json.dumps(dict(one), default=str) for one in rows.checks],
    }


def _chunks(data: StudyData, _: Findings) -> Columns:
    rows = data.requests
    sizes = np.diff(rows.chunk_offsets)
    first = np.repeat(rows.chunk_offsets[:-1], sizes)
    return {
        "request": np.repeat(np.arange(len(rows)), sizes),
        "chunk": np.arange(len(rows.chunk_ns)) - first,
        "time_ns": rows.chunk_ns,
        "tokens": _times(rows.chunk_tokens),
    }


_FIGURES: Mapping[str, Callable[[CellFindings], Reading]] = {
    "decode_tok_s": lambda cell: cell.speed.decode,
    "steady_tok_s": lambda cell: cell.speed.steady,
    "e2e_tok_s": lambda cell: cell.speed.end_to_end,
    "ttft_s": lambda cell: cell.speed.ttft,
    "itl_chunk_s": lambda cell: cell.speed.itl_chunk,
    "itl_token_s": lambda cell: cell.speed.itl_token,
}
_SUMS = ("prompt_tokens", "output_tokens", "cached_tokens")


def _cells(data: StudyData, findings: Findings) -> Columns:
    cells = _every_cell(findings)
    return {
        **_keys(cell.key for cell in cells),
        "status": [cell.status.status for cell in cells],
        "reasons": [list(cell.status.reasons) for cell in cells],
        "finding": [cell.status.finding for cell in cells],
        "queue": [cell.queue for cell in cells],
        "simulated": [data.simulated] * len(cells),
        "measured_at": [cell.measured_at or None for cell in cells],
        "requests": [_whole(cell.requests) for cell in cells],
        "warmups": [_whole(cell.warmups) for cell in cells],
        **{name: [read(cell).value for cell in cells] for name, read in _FIGURES.items()},
        "acceptance_length": [cell.acceptance.length.value for cell in cells],
        "acceptance_source": [cell.acceptance.length.source for cell in cells],
        "acceptance_rate": [cell.acceptance.rate.value for cell in cells],
        **{name: [_whole(getattr(cell, name)) for cell in cells] for name in _SUMS},
        "client_lag_s": [cell.client_lag_s.value for cell in cells],
        "notes": [list(cell.notes) for cell in cells],
    }


def _gates(_: StudyData, findings: Findings) -> Columns:
    failed = [
        (cell.key, *reason.partition(": ")[::2])
        for cell in _every_cell(findings)
        for reason in cell.status.reasons
    ]
    return {
        **_keys(key for key, _, _ in failed),
        "gate": [gate for _, gate, _ in failed],
        "reason": [reason for _, _, reason in failed],
    }


def _windows(data: StudyData, _: Findings) -> Columns:
    rows = data.windows
    named = ("chain", "attempt", "complete", "started_ns", "ended_ns", "running_max", "waiting_max")
    return {
        "window": list(range(len(rows))),
        **_keys(row.key for row in rows),
        **{name: [getattr(row, name) for row in rows] for name in named},
        **{
            name: [getattr(row, name) for row in rows]
            for name in ("pool_usage_max", "lag_p99_ns", "own_cpu_s")
        },
    }


def _counters(data: StudyData, _: Findings) -> Columns:
    moved = [
        (number, name, value)
        for number, row in enumerate(data.windows)
        if row.delta is not None and not row.delta.reset
        for name, value in row.delta.counters.items()
    ]
    return {
        "window": [number for number, _, _ in moved],
        "name": [name for _, name, _ in moved],
        "value": [float(value) for _, _, value in moved],
    }


def _boots(data: StudyData, _: Findings) -> Columns:
    rows, facts = data.boots, [boot.facts for boot in data.boots]
    named = ("arm", "block", "fingerprint", "status", "started_at", "ready_s")
    return {
        **{name: [getattr(row, name) for row in rows] for name in named},
        "engine": [one.engine if one else None for one in facts],
        "engine_version": [one.engine_version if one else None for one in facts],
        "prefix_caching": [one.prefix_caching if one else None for one in facts],
        "simulated": [data.simulated] * len(rows),
        "reason": [row.reason for row in rows],
        "log_lines": [list(row.log_lines) for row in rows],
        "provenance": [json.dumps(dict(row.provenance), default=str) for row in rows],
    }


def _facts(data: StudyData, _: Findings) -> Columns:
    told = [
        (boot, name, reading)
        for boot in data.boots
        if boot.facts is not None
        for name, reading in boot.facts.readings.items()
    ]
    return {
        "arm": [boot.arm for boot, _, _ in told],
        "block": [boot.block for boot, _, _ in told],
        "name": [name for _, name, _ in told],
        "value": [_number(reading.value) for _, _, reading in told],
        "unit": [reading.unit or None for _, _, reading in told],
        "source": [reading.source for _, _, reading in told],
        "low": [_number(reading.low) for _, _, reading in told],
        "high": [_number(reading.high) for _, _, reading in told],
        "note": [reading.note for _, _, reading in told],
        "missing": [reading.missing for _, _, reading in told],
    }


def _settings(data: StudyData, _: Findings) -> Columns:
    told = [
        (boot, name, value)
        for boot in data.boots
        if boot.facts is not None
        for name, value in boot.facts.resolved.items()
    ]
    return {
        "arm": [boot.arm for boot, _, _ in told],
        "block": [boot.block for boot, _, _ in told],
        "name": [str(name) for _, name, _ in told],
        "value": [json.dumps(value, default=str) for _, _, value in told],
    }


_BUILDERS: Mapping[str, Callable[[StudyData, Findings], Columns]] = {
    "requests": _requests,
    "chunks": _chunks,
    "cells": _cells,
    "gates": _gates,
    "windows": _windows,
    "counters": _counters,
    "boots": _boots,
    "facts": _facts,
    "settings": _settings,
}


def _every_cell(findings: Findings) -> list[CellFindings]:
    return [cell for arm in findings.arms for cell in arm.cells]


def _keys(keys: Iterable[CellKey]) -> Columns:
    held = list(keys)
    names = ("arm", "block", "phase", "workload", "concurrency")
    return {name: [getattr(key, name) for key in held] for name in names}


def _list(values: Any) -> list[Any]:
    return list(values.tolist())


def _words(values: Any) -> list[str | None]:
    """The ledger's columns hold '' for none."""
    return [one or None for one in values.tolist()]


def _times(values: Ints) -> Gaps:
    return Gaps(values, values == NEVER)


def _counts(values: Floats) -> Gaps:
    gone = np.isnan(values)
    return Gaps(np.where(gone, 0, values).astype(np.int64), gone)


def _whole(reading: Reading) -> int | None:
    return None if reading.value is None else int(reading.value)


def _number(value: float | None) -> float | None:
    return None if value is None else float(value)


def names() -> Sequence[str]:
    """The tables that there are."""
    return tuple(_BUILDERS)
