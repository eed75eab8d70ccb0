"""Samples of devices and machines in the ledger: a row a look, read back as columns."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import astuple, fields
from typing import Any

import numpy as np

from kvantage.core.columns import TelemetryColumns
from kvantage.core.telemetry import Sample, WatchedHost

TELEMETRY_TABLE = """
CREATE TABLE IF NOT EXISTS telemetry (
    id INTEGER PRIMARY KEY,
    boot INTEGER NOT NULL REFERENCES boots (id),
    at_ns INTEGER NOT NULL,
    host TEXT NOT NULL,
    device TEXT NOT NULL,
    sm_mhz REAL,
    power_w REAL,
    temperature_c REAL,
    reasons INTEGER,
    memory_used_bytes INTEGER,
    cpu_mhz REAL,
    load REAL,
    memory_available_bytes INTEGER
) STRICT
"""
COLUMNS = ("boot", *(field.name for field in fields(Sample)))


def insert(db: sqlite3.Connection, boot: int, samples: Sequence[Sample]) -> None:
    """Append the samples of a boot."""
    marks = ", ".join("?" * len(COLUMNS))
    sql = f"INSERT INTO telemetry ({', '.join(COLUMNS)}) VALUES ({marks})"
    db.executemany(sql, [(boot, *astuple(sample)) for sample in samples])


def read_telemetry(db: sqlite3.Connection) -> TelemetryColumns | None:
    """All samples, ordered by boot and time; None where the ledger has none, or is from before there were."""
    try:
        rows = db.execute(f"SELECT {', '.join(COLUMNS)} FROM telemetry ORDER BY boot, at_ns").fetchall()
    except sqlite3.OperationalError:
        return None
    if not rows:
        return None
    columns: Mapping[str, Sequence[Any]] = dict(
        zip(COLUMNS, zip(*map(tuple, rows), strict=True), strict=True)
    )

    def floats(name: str) -> np.ndarray[Any, np.dtype[np.float64]]:
        return np.array([np.nan if one is None else one for one in columns[name]], dtype=np.float64)

    return TelemetryColumns(
        boot=np.array(columns["boot"], dtype=np.int64),
        at_ns=np.array(columns["at_ns"], dtype=np.int64),
        host=np.array(columns["host"], dtype=np.str_),
        device=np.array(columns["device"], dtype=np.str_),
        sm_mhz=floats("sm_mhz"),
        power_w=floats("power_w"),
        temperature_c=floats("temperature_c"),
        reasons=np.array([-1 if one is None else one for one in columns["reasons"]], dtype=np.int64),
        memory_used_bytes=floats("memory_used_bytes"),
        cpu_mhz=floats("cpu_mhz"),
        load=floats("load"),
        memory_available_bytes=floats("memory_available_bytes"),
    )


def watched(events: Sequence[Mapping[str, Any]]) -> dict[int, tuple[WatchedHost, ...]]:
    """What was looked at in each boot, by the boot's number in the ledger."""
    return {
        int(event["boot"]): tuple(WatchedHost.from_json(host) for host in event["hosts"])
        for event in events
        if event["kind"] == "telemetry"
    }
