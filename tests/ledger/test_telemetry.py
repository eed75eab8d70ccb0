"""Looks at machines come back as they were written; a ledger from before there were any is gone on with."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvantage.core.telemetry import MACHINE, Sample, WatchedDevice, WatchedHost
from kvantage.ledger import Ledger, read_study
from tests.ledger.test_ledger import open_study, start

FLOATS = ("sm_mhz", "power_w", "temperature_c", "cpu_mhz", "load")
maybe = st.none() | st.floats(0, 1e6)
whole = st.none() | st.integers(0, 2**48)
samples = st.builds(
    Sample,
    at_ns=st.integers(0, 2**62),
    host=st.text(min_size=1, max_size=5, alphabet="ab1"),
    device=st.sampled_from([MACHINE, "0", "7"]),
    sm_mhz=maybe,
    power_w=maybe,
    temperature_c=maybe,
    reasons=st.none() | st.integers(0, 2**62),
    memory_used_bytes=whole,
    cpu_mhz=maybe,
    load=maybe,
    memory_available_bytes=whole,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25, deadline=None)
@given(st.lists(samples, min_size=1, max_size=20, unique_by=lambda each: each.at_ns))
def test_samples_come_back_in_the_order_of_time_and_missing_is_not_zero(
    tmp_path_factory: Any, given_samples: list[Sample]
) -> None:
    folder = tmp_path_factory.mktemp("ledger")
    with open_study(folder) as ledger:
        boot, _ = start(ledger)
        ledger.add_samples(boot, given_samples)
    read = read_study(folder).telemetry
    assert read is not None
    ordered = sorted(given_samples, key=lambda each: each.at_ns)
    assert read.at_ns.tolist() == [each.at_ns for each in ordered]
    assert read.device.tolist() == [each.device for each in ordered]
    assert set(read.boot.tolist()) == {boot.id}
    for name in FLOATS:
        for value, sample in zip(getattr(read, name), ordered, strict=True):
            wanted = getattr(sample, name)
            assert np.isnan(value) if wanted is None else value == wanted
    assert read.reasons.tolist() == [-1 if each.reasons is None else each.reasons for each in ordered]


def test_what_was_looked_at_comes_back_by_boot(tmp_path: Path) -> None:
    host = WatchedHost("spark1", (WatchedDevice("0", "NVIDIA GB10", {"memory_used_bytes": "NVML: N/A"}),))
    with open_study(tmp_path) as ledger:
        boot, _ = start(ledger)
        ledger.event("telemetry", arm="none", block=0, boot=boot.id, hosts=[host.to_json()])
    assert read_study(tmp_path).watched == {boot.id: (host,)}


def test_a_ledger_from_before_there_were_looks_is_read_and_gone_on_with(tmp_path: Path) -> None:
    with open_study(tmp_path) as ledger:
        start(ledger)
    with sqlite3.connect(tmp_path / "ledger.sqlite") as db:
        db.execute("DROP TABLE telemetry")
    db.close()
    assert read_study(tmp_path).telemetry is None
    with Ledger.resume(tmp_path) as ledger:
        boot, _ = start(ledger)
        ledger.add_samples(boot, [Sample(5, "here", load=1.0)])
    read = read_study(tmp_path).telemetry
    assert read is not None
    assert read.load.tolist() == [1.0]
