"""A clock that changes its level inside a cell, what is not such a change, and the energy of a token."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvantage.analysis.clocks import CellClocks, Clocks, DeviceUse, energy_by_arm, step_in
from kvantage.analysis.looks import CellLooks, Looks, joules, per_token
from kvantage.analysis.steps import SIDE, find_step
from kvantage.core.cell import CellKey
from kvantage.core.reading import Reading
from kvantage.core.telemetry import MACHINE, WatchedDevice, WatchedHost

SECOND = 10**9


def numbers(*values: float) -> Any:
    return np.array(values, dtype=np.float64)


def times(*seconds: float) -> Any:
    return np.array([round(second * SECOND) for second in seconds], dtype=np.int64)


def device(clock: Any, *, start: float = 0.0, name: str = "0", **changes: Any) -> Looks:
    """One look a second from `start` on; 400 W and 60 degrees unless told otherwise."""
    number = len(clock)
    blank = np.full(number, np.nan)
    given = {
        "at_ns": times(*(start + place for place in range(number))),
        "sm_mhz": np.asarray(clock, dtype=np.float64),
        "power_w": np.full(number, 400.0),
        "temperature_c": np.full(number, 60.0),
        "reasons": np.zeros(number, dtype=np.int64),
        "memory_used_bytes": np.full(number, 2.0**33),
        "cpu_mhz": blank,
        "load": blank,
        "memory_available_bytes": blank,
        **changes,
    }
    return Looks("spark1", name, "NVIDIA H200", True, **given)


def cell(
    *each: Looks,
    sent: tuple[float, ...] = (0.0,),
    first: tuple[float, ...] = (0.1,),
    ended: tuple[float, ...] = (60.0,),
    tokens: float = 1000.0,
    hosts: tuple[WatchedHost, ...] = (),
) -> CellLooks:
    return CellLooks(
        each,
        hosts,
        int(min(sent) * SECOND),
        int(max(ended) * SECOND),
        tokens,
        times(*sent),
        times(*first),
        times(*ended),
    )


STEPPED = [1980.0] * 30 + [1410.0] * 30


def test_a_step_is_found_where_it_is() -> None:
    step = find_step(numbers(*STEPPED), 0.05)
    assert step is not None
    assert (step.place, step.before, step.after) == (30, 1980.0, 1410.0)
    assert round(step.share, 3) == -0.288


@given(
    before=st.integers(2 * SIDE, 40),
    after=st.integers(2 * SIDE, 40),
    level=st.floats(800, 2600),
    share=st.floats(0.08, 0.6),
    falls=st.booleans(),
    noise=st.floats(0, 0.004),
    seed=st.integers(0, 2**31),
)
@settings(max_examples=200, deadline=None)
def test_every_step_well_above_the_noise_is_found(
    before: int, after: int, level: float, share: float, falls: bool, noise: float, seed: int
) -> None:
    low = level * (1 - share)
    levels = [level] * before + [low] * after if falls else [low] * before + [level] * after
    made = numbers(*levels) + np.random.default_rng(seed).normal(0, noise * level, before + after)
    step = find_step(made, 0.05)
    assert step is not None
    assert abs(step.place - before) <= SIDE
    assert (step.share < 0) == falls


@given(st.integers(0, 400), st.floats(800, 2600), st.floats(0, 0.012), st.integers(0, 2**31))
@settings(max_examples=200, deadline=None)
def test_a_clock_that_dithers_is_no_step(number: int, level: float, noise: float, seed: int) -> None:
    made = level + np.random.default_rng(seed).normal(0, noise * level, number)
    assert find_step(made, 0.05) is None


@pytest.mark.parametrize("number", [10, 15, 40, 200])
def test_a_clock_that_dithers_by_two_percent_voids_one_cell_in_hundreds_at_most(number: int) -> None:
    draw = np.random.default_rng(number)
    raised = sum(find_step(2000 * (1 + draw.normal(0, 0.02, number)), 0.05) is not None for _ in range(1000))
    assert raised <= 5


@settings(deadline=None)
@given(st.integers(0, 400), st.floats(800, 2600), st.floats(-0.3, 0.3))
def test_a_slow_drift_is_no_step(number: int, level: float, change: float) -> None:
    made = level * (1 + change * np.linspace(0, 1, max(number, 60)))
    assert find_step(made, 0.05) is None


@settings(deadline=None)
@given(st.integers(0, 55), st.integers(1, 2), st.floats(0, 3000))
def test_a_look_or_two_that_stick_out_are_no_step(place: int, width: int, value: float) -> None:
    made = numbers(*[1980.0] * 60)
    made[place : place + width] = value
    assert find_step(made, 0.05) is None


def test_a_dip_of_some_seconds_is_two_steps() -> None:
    assert find_step(numbers(*[1980.0] * 20, *[1500.0] * 8, *[1980.0] * 20), 0.05) is not None


def test_fewer_than_ten_looks_tell_nothing() -> None:
    assert find_step(numbers(*[1980.0] * 5, *[1000.0] * 4), 0.05) is None
    assert step_in(cell(device([1980.0] * 9), ended=(8.0,)))[0] == "not judged"


def test_a_stepped_cell_says_which_clock_when_and_why() -> None:
    reasons = np.array([0] * 30 + [0x20] * 30, dtype=np.int64)
    clock, words = step_in(cell(device(STEPPED, reasons=reasons)))
    assert clock == "stepped"
    assert words == (
        "the SM clock of GPU 0 of spark1 went from 1,980 to 1,410 MHz (-29%) 30 s into the cell"
        " (held down by: software thermal slowdown)"
    )


def test_a_steady_cell_is_steady() -> None:
    assert step_in(cell(device([1980.0] * 60))) == ("steady", None)


@settings(deadline=None)
@given(st.integers(0, 30), st.floats(0, 0.9))
def test_the_rise_from_idle_before_the_first_request_is_no_step(idle: int, share: float) -> None:
    clock = [1980.0 * share] * idle + [1980.0] * 60
    looked = device(clock, start=-idle)
    assert step_in(cell(looked))[0] == "steady"


@settings(deadline=None)
@given(st.lists(st.integers(12, 30), min_size=2, max_size=5), st.integers(2, 20), st.floats(0.1, 0.9))
def test_idle_between_waves_is_no_step(waves: list[int], pause: int, share: float) -> None:
    sent, ended, clock, now = [], [], [], 0
    for length in waves:
        sent.append(float(now))
        ended.append(float(now + length))
        clock += [1980.0] * (length + 1) + [1980.0 * share] * (pause - 1)
        now += length + pause
    first = tuple(at + 0.1 for at in sent)
    assert step_in(cell(device(clock), sent=tuple(sent), first=first, ended=tuple(ended)))[0] == "steady"


def test_a_long_prompt_may_be_read_at_another_clock() -> None:
    clock = [1500.0] * 20 + [1980.0] * 40
    assert step_in(cell(device(clock), first=(19.5,)))[0] == "steady"
    assert step_in(cell(device(clock), first=(0.2,)))[0] == "stepped"


def test_a_device_that_does_not_serve_is_not_judged() -> None:
    other = replace(device(STEPPED, name="1"), serves=False)
    assert step_in(cell(device([1980.0] * 60), other))[0] == "steady"


def test_without_devices_the_processor_is_judged_and_its_boost_forgiven() -> None:
    blank = np.full(60, np.nan)

    def machine(clock: list[float]) -> Looks:
        return device(blank, name=MACHINE, power_w=blank, cpu_mhz=numbers(*clock))

    assert step_in(cell(machine([4700.0] * 30 + [4300.0] * 30)))[0] == "steady"
    assert step_in(cell(machine([4700.0] * 30 + [2900.0] * 30)))[0] == "stepped"


def h200() -> tuple[Looks, Any]:
    """A real boot on an H200, seen through NVML: 130 s of start-up, mostly at 345 MHz, then 389 requests."""
    told = json.loads((Path(__file__).parents[1] / "data/telemetry/h200.json").read_text())
    columns = {
        "at_ns": times(*told["at_s"]),
        "power_w": numbers(*told["power_w"]),
        "temperature_c": numbers(*told["temperature_c"]),
        "reasons": np.array(told["reasons"], dtype=np.int64),
        "memory_used_bytes": numbers(*told["memory_used_mib"]) * 2**20,
    }
    return device(told["sm_mhz"], **columns), np.array(told["requests"]) * SECOND


def test_a_real_gpu_comes_up_from_idle_and_its_work_is_steady() -> None:
    looked, requests = h200()
    sent, first, ended = (tuple(column / SECOND) for column in requests.T)
    risen = find_step(looked.sm_mhz, 0.05)
    assert risen is not None
    assert (risen.before, risen.after) == (345.0, 1980.0)
    whole = cell(looked, sent=sent, first=first, ended=ended)
    assert whole.working(looked.at_ns).sum() > 60
    assert step_in(whole) == ("steady", None)


def test_a_real_gpu_s_power_gives_a_plausible_energy() -> None:
    looked, requests = h200()
    sent, first, ended = (tuple(column / SECOND) for column in requests.T)
    found = joules(cell(looked, sent=sent, first=first, ended=ended))
    assert found.value is not None
    seconds = max(ended) - min(sent)
    assert 78 * seconds < found.value < 129 * seconds


def test_a_cell_too_short_for_two_looks_has_no_energy() -> None:
    short = cell(device([1980.0] * 60), sent=(3.1,), first=(3.2,), ended=(3.9,))
    assert joules(short).missing == "the cell's 0.8 s hold fewer than 2 looks"


# energy


def test_the_energy_is_the_integral_of_all_devices_between_send_and_answer() -> None:
    one, two = device([1980.0] * 61), device([1980.0] * 61, name="1", power_w=np.linspace(0, 600, 61))
    looks = cell(one, two, sent=(10.0,), ended=(50.0,), first=(10.1,), tokens=2000.0)
    found = joules(looks)
    assert found.value == pytest.approx(40 * 400 + 40 * 300)
    assert found.note == "2 GPUs together"
    each, per_joule = per_token(looks)
    assert each.value == pytest.approx(14.0)
    assert per_joule.value == pytest.approx(1 / 14.0)
    assert each.unit == "J/token"
    assert "idle power not taken off" in (each.note or "")


@settings(deadline=None)
@given(st.floats(0.5, 700), st.floats(0, 0.99), st.floats(5, 50))
def test_a_constant_power_gives_power_times_time(power: float, start: float, length: float) -> None:
    looked = device([1980.0] * 61, power_w=np.full(61, power))
    found = joules(cell(looked, sent=(start,), ended=(start + length,)))
    assert found.value == pytest.approx(power * length, rel=1e-6)


def test_power_that_is_not_told_is_missing_and_not_zero() -> None:
    untold = device([1980.0] * 60, power_w=np.full(60, np.nan), name="1")
    found = joules(cell(device([1980.0] * 60), untold))
    assert found.value is None
    assert found.missing == "GPU 1 of spark1 does not tell its power"
    holes = device([1980.0] * 60, at_ns=times(*range(30), *range(40, 70)))
    assert joules(cell(holes)).missing == "GPU 0 of spark1 was not looked at for seconds while the cell ran"
    none = cell(hosts=(WatchedHost("here", (), "no NVML (not found)"),))
    assert per_token(none)[0].missing == "no device told its power: no NVML (not found)"


def test_energy_of_an_arm_over_its_boots_and_against_the_control() -> None:
    def of(arm: str, block: int, value: float) -> tuple[CellKey, Reading]:
        return CellKey(arm, block, "short", "code", 1), Reading.of(value, "J/token", "device")

    cells = [of("none", 0, 2.0), of("none", 1, 2.2), of("mtp", 0, 1.0), of("mtp", 1, 1.1), of("mtp", 2, 9.0)]
    none, mtp = energy_by_arm(cells, ["none", "mtp"], "none")
    assert none.joules_per_token.value == pytest.approx(2.1)
    assert (none.joules_per_token.low, none.joules_per_token.high) == (2.0, 2.2)
    assert none.to_control.missing == "it is the control"
    assert mtp.to_control.value == pytest.approx(0.5)
    assert mtp.to_control.note == "over 2 boots, paired by block"


def used(arm: str, block: int, clock: float) -> CellClocks:
    seen = Reading.of(clock, "MHz", "device", low=clock, high=clock)
    gone = Reading.absent("not told")
    use = DeviceUse("spark1", "0", "NVIDIA GB10", seen, gone, gone, gone, {})
    return CellClocks(CellKey(arm, block, "short", "code", 1), "steady", None, (use,), (), gone)


def test_an_arm_whose_clock_differs_from_the_control_s_is_named() -> None:
    cells = (used("none", 0, 2400), used("mtp", 0, 2050), used("none", 1, 2400), used("mtp", 1, 2390))
    assert Clocks((), cells, (), "none").unequal == (
        "mtp, boot 0: short code at 1: GPU 0 of spark1 ran at 2,050 MHz, in the control's boot at 2,400"
        " (-15%)",
    )
    assert Clocks((), cells[2:], (), "none").unequal == ()


def test_what_is_not_told_is_said_once_each() -> None:
    gb10 = WatchedHost("spark1", (WatchedDevice("0", "NVIDIA GB10", {"memory_used_bytes": "NVML: N/A"}),))
    bare = WatchedHost("box", (), "no NVML (not found)", {"cpu_mhz": "the system tells no processor clock"})
    assert Clocks((gb10, bare), (), (), "none").absences == (
        "GPU 0 of spark1: memory in use not told: NVML: N/A",
        "box: no device was looked at: no NVML (not found)",
        "box: processor clock not told: the system tells no processor clock",
    )
