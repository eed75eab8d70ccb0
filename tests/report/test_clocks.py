"""Clocks, heat and energy through the whole analysis into every report."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np

from kvantage.analysis import analyse
from kvantage.core.columns import StudyData, TelemetryColumns
from kvantage.core.telemetry import MACHINE, WatchedDevice, WatchedHost
from kvantage.report import report_markdown
from kvantage.report.html.sections import clocks as section
from tests.report.test_report import full, valid

SECOND = 10**9
HOSTS = (
    WatchedHost("spark1", (WatchedDevice("0", "NVIDIA GB10", {"memory_used_bytes": "NVML: N/A"}),)),
    WatchedHost("spark2", (WatchedDevice("0", "NVIDIA GB10", {"memory_used_bytes": "NVML: N/A"}),)),
)


def watched(data: StudyData, falls_in: str | None = None) -> StudyData:
    """The study on two GB10s, looked at ten times a second, 30 W each; in one arm a clock falls midway."""
    numbers = {arm.name: place + 1 for place, arm in enumerate(data.arms)}
    ends = {arm: int(data.requests.end_ns[data.requests.arm == arm].max(initial=0)) for arm in numbers}
    rows: list[dict[str, Any]] = []
    for arm, boot in numbers.items():
        for at in range(-5 * SECOND, ends[arm] + 5 * SECOND, SECOND // 10):
            for host in ("spark1", "spark2"):
                falls = arm == falls_in and host == "spark2" and at > ends[arm] / 2
                device = {"sm_mhz": 1500.0 if falls else 2400.0, "power_w": 30.0, "temperature_c": 61.0}
                device["reasons"] = 0x40 if falls else 0
                rows.append({"boot": boot, "at_ns": at, "host": host, "device": "0", **device})
                machine = {"load": 2.0, "memory_available_bytes": 40.0 * 2**30}
                rows.append({"boot": boot, "at_ns": at, "host": host, "device": MACHINE, **machine})

    def column(name: str) -> Any:
        if name in ("boot", "at_ns"):
            return np.array([row[name] for row in rows], dtype=np.int64)
        if name in ("host", "device"):
            return np.array([row[name] for row in rows], dtype=np.str_)
        if name == "reasons":
            return np.array([row.get(name, -1) for row in rows], dtype=np.int64)
        return np.array([row.get(name, np.nan) for row in rows], dtype=np.float64)

    columns = TelemetryColumns(**{name: column(name) for name in TelemetryColumns.__dataclass_fields__})
    return replace(
        data,
        telemetry=columns,
        watched=dict.fromkeys(numbers.values(), HOSTS),
        windows=tuple(replace(window, boot=numbers[window.key.arm]) for window in data.windows),
    )


def test_energy_sums_the_gpus_of_all_machines_and_is_held_against_the_control() -> None:
    findings = analyse(watched(full().data()))
    assert findings.clocks is not None
    cell = next(
        each for each in findings.clocks.cells if (each.key.arm, each.key.workload) == ("none", "code")
    )
    assert cell.clock == "steady"
    rows = full().data().requests
    mine = (rows.arm == "none") & (rows.phase == "short") & (rows.workload == "code") & ~rows.warmup
    spent = 60 * (rows.end_ns[mine].max() - rows.sent_ns[mine].min()) * 1e-9
    value = cell.joules_per_token.value
    assert value is not None
    assert abs(value - spent / rows.output_tokens[mine].sum()) < 1e-6 * value
    assert cell.joules_per_token.note == "2 GPUs of 2 machines together; idle power not taken off"
    short = [each for each in findings.clocks.energy if each.workload == "code"]
    assert [each.arm for each in short] == ["none", "mtp"]
    assert short[1].to_control.note == "one boot: no interval"
    figure = next(each for each in findings.arm("none").cells if each.key == cell.key).tokens_per_joule
    assert figure.value is not None
    assert abs(figure.value * value - 1) < 1e-9


def test_a_clock_that_falls_voids_its_cells_and_says_where() -> None:
    sound, fallen = analyse(watched(full().data())), analyse(watched(full().data(), "mtp"))
    reasons = [reason for each in fallen.arm("mtp").cells for reason in each.status.reasons]
    told = [reason for reason in reasons if reason.startswith("clock_steady")]
    assert told
    assert "clock_steady: the SM clock of GPU 0 of spark2 went from 2,400 to 1,500 MHz (-38%)" in told[0]
    assert "held down by: hardware thermal slowdown" in told[0]
    steady = [reason for each in sound.arm("mtp").cells for reason in each.status.reasons]
    assert not [reason for reason in steady if reason.startswith("clock_steady")]


def test_every_report_tells_of_clocks_and_what_is_not_told() -> None:
    data = watched(full().data())
    block = valid(data)["clocks"]
    assert block["absences"] == [
        "GPU 0 of spark1: memory in use not told: NVML: N/A",
        "GPU 0 of spark2: memory in use not told: NVML: N/A",
    ]
    device = block["cells"][0]["devices"][0]
    assert device["sm_clock"]["value"] == 2400.0
    assert device["memory_used"] == {"missing": "not told while the cell ran"}
    text = report_markdown(analyse(data))
    assert re.search(r"clock.*steady judged [0-9]+ of [0-9]+ cells", text)
    for words in ("## Energy", "## Clocks and heat", "## The machines", "40.0 GiB", "NVIDIA GB10"):
        assert words in text
    made = section.section(analyse(data))
    assert made is not None
    assert {block.kind for block in made.blocks} >= {"prose", "figure", "rows", "bullets"}


def test_a_machine_that_is_not_reached_is_said() -> None:
    gone = WatchedHost("far", missing="the server runs on far, into which kvantage does not look")
    data = replace(full().data(), watched={1: (gone,)})
    assert valid(data)["clocks"]["absences"] == [
        "far: no device was looked at: the server runs on far, into which kvantage does not look"
    ]
    assert "into which kvantage does not look" in report_markdown(analyse(data))


def test_without_looks_nothing_is_claimed() -> None:
    assert valid(full().data())["clocks"] is None
    assert section.section(analyse(full().data())) is None
