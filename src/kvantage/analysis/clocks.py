"""Clocks, heat, power and memory of the machines under each cell, and the energy of an output token."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from kvantage.analysis.looks import CellLooks, Looks
from kvantage.analysis.stats import ratio_interval
from kvantage.analysis.steps import SIDE, Step, find_step
from kvantage.core.cell import CellKey
from kvantage.core.columns import Bools, Floats
from kvantage.core.reading import Reading
from kvantage.core.telemetry import REASONS, WatchedHost

DEVICE_STEP = 0.05
"""A device's clock that changes its level by so much inside a cell voids it."""
PROCESSOR_STEP = 0.15
"""The same of a processor's fastest core, where no device serves: its boost alone moves by a tenth."""
HELD = 0.5
"""A reason is named for a step when it stood in so many of the looks after it."""

WITHOUT_ENERGY = ("probes", "ttft")
"""Phases whose answers are short and of any length: their energy is that of reading prompts."""

Steadiness = Literal["steady", "stepped", "not judged"]


@dataclass(frozen=True)
class DeviceUse:
    """A device over one cell, from its first send to its last answer. `low` and `high` are the least and most
    that were seen. `held_down` gives, by NVML's reason, in what share of the looks its clock was held down.
    """

    host: str
    device: str
    name: str
    sm_mhz: Reading
    power_w: Reading
    temperature_c: Reading
    memory_used_bytes: Reading
    held_down: Mapping[str, float]


@dataclass(frozen=True)
class MachineUse:
    """A machine over one cell. `low` and `high` are the least and most that were seen."""

    host: str
    cpu_mhz: Reading
    load: Reading
    memory_available_bytes: Reading


@dataclass(frozen=True)
class CellClocks:
    """What was looked at while a cell ran. `clock` says whether its clock kept one level, `words` how it did
    not, or why that was not judged.
    """

    key: CellKey
    clock: Steadiness
    words: str | None
    devices: tuple[DeviceUse, ...]
    machines: tuple[MachineUse, ...]
    joules_per_token: Reading


@dataclass(frozen=True)
class ArmEnergy:
    """Energy of an output token of an arm in one kind of cell, over its sound boots; `low` and `high` are the
    least and most of the boots. `to_control` is the ratio to the control's, paired by block.
    """

    arm: str
    phase: str
    workload: str
    concurrency: int
    joules_per_token: Reading
    to_control: Reading


@dataclass(frozen=True)
class Clocks:
    """All that was looked at in a study: the machines (with what they do not tell), cells, energy by arm."""

    hosts: tuple[WatchedHost, ...]
    cells: tuple[CellClocks, ...]
    energy: tuple[ArmEnergy, ...]
    control: str

    @property
    def judged(self) -> str:
        """In how many of the cells that tell a speed the clock was judged, as a sentence."""
        mine = [cell for cell in self.cells if cell.key.phase not in WITHOUT_ENERGY]
        told = sum(cell.clock != "not judged" for cell in mine)
        rest = "" if told == len(mine) else f"; the others hold fewer than {2 * SIDE} looks at work"
        return f"clock_steady judged {told} of {len(mine)} cells{rest}."

    @property
    def unequal(self) -> tuple[str, ...]:
        """Cells whose clock stood elsewhere than the control's in the same block, a sentence each: heat from
        the evening, or a load that holds the device down by itself.
        """
        levels = {
            (cell.key, use.host, use.device): use.sm_mhz.value
            for cell in self.cells
            for use in cell.devices
            if use.sm_mhz.value
        }
        found = []
        for (key, host, device), level in levels.items():
            theirs = levels.get((replace(key, arm=self.control), host, device))
            if theirs is None or abs(level - theirs) < DEVICE_STEP * max(level, theirs):
                continue
            place = f"{key.arm}, boot {key.block}: {key.phase} {key.workload} at {key.concurrency}"
            found.append(
                f"{place}: GPU {device} of {host} ran at {level:,.0f} MHz,"
                f" in the control's boot at {theirs:,.0f} ({(level - theirs) / max(level, theirs):+.0%})"
            )
        return tuple(found)

    @property
    def absences(self) -> tuple[str, ...]:
        """What is not told, and why, a sentence each."""
        found: dict[str, None] = {}
        for host in self.hosts:
            if host.missing:
                found[f"{host.host}: no device was looked at: {host.missing}"] = None
            untold = [(f"GPU {each.device} of {host.host}", each.missing) for each in host.devices]
            for label, fields in (*untold, (host.host, host.unseen)):
                for field, why in fields.items():
                    found[f"{label}: {WORDS[field]} not told: {why}"] = None
        return tuple(found)


WORDS: Mapping[str, str] = {
    "sm_mhz": "SM clock",
    "power_w": "power",
    "temperature_c": "temperature",
    "reasons": "reasons for a slower clock",
    "memory_used_bytes": "memory in use",
    "cpu_mhz": "processor clock",
    "load": "load average",
    "memory_available_bytes": "available memory",
}


def step_in(looks: CellLooks) -> tuple[Steadiness, str | None]:
    """Whether the clocks under a cell kept one level, and in words how one did not.

    Judged while requests are at work and no long prompt is read. Of devices that serve, the SM clock; where
    there is none, the clock of the machine's fastest core.
    """
    devices = [one for one in looks.devices if np.isfinite(one.sm_mhz).any()]
    judged = [(one, one.sm_mhz, DEVICE_STEP, "SM clock") for one in devices]
    if not looks.devices:
        clocked = [one for one in looks.machines if np.isfinite(one.cpu_mhz).any()]
        judged = [(one, one.cpu_mhz, PROCESSOR_STEP, "processor clock") for one in clocked]
    if not judged:
        return "not judged", "no clock is told"
    enough = False
    for one, clock, share, what in judged:
        usable = looks.steady(one.at_ns) & np.isfinite(clock)
        enough = enough or int(usable.sum()) >= 2 * SIDE
        step = find_step(clock[usable], share)
        if step is not None:
            return "stepped", _told(one, what, step, usable, looks.start_ns)
    return ("steady", None) if enough else ("not judged", f"fewer than {2 * SIDE} looks while it was at work")


def _told(one: Looks, what: str, step: Step, usable: Bools, start_ns: int) -> str:
    at = one.at_ns[usable]
    after = one.reasons[usable][step.place : step.place + SIDE]
    held = [word for bit, word in REASONS.items() if np.mean((after > 0) & (after & bit > 0)) >= HELD]
    why = f" (held down by: {', '.join(held)})" if held else ""
    return (
        f"the {what} of {one.label} went from {step.before:,.0f} to {step.after:,.0f} MHz"
        f" ({step.share:+.0%}) {(at[step.place] - start_ns) * 1e-9:,.0f} s into the cell{why}"
    )


def cell_clocks(key: CellKey, looks: CellLooks, joules_per_token: Reading) -> CellClocks:
    """What was looked at while a cell ran."""
    clock, words = step_in(looks)
    return CellClocks(
        key,
        clock,
        words,
        tuple(_device(one, looks.inside(one.at_ns)) for one in looks.devices),
        tuple(_machine(one, looks.inside(one.at_ns)) for one in looks.machines),
        joules_per_token,
    )


def _device(one: Looks, inside: Bools) -> DeviceUse:
    reasons = one.reasons[inside]
    told = reasons[reasons >= 0]
    held = {word: float(np.mean(told & bit > 0)) for bit, word in REASONS.items() if told.size}
    return DeviceUse(
        one.host,
        one.device,
        one.name,
        _seen(one.sm_mhz[inside], "MHz", "median"),
        _seen(one.power_w[inside], "W", "mean"),
        _seen(one.temperature_c[inside], "°C", "most"),
        _seen(one.memory_used_bytes[inside], "bytes", "most"),
        {word: share for word, share in held.items() if share > 0},
    )


def _machine(one: Looks, inside: Bools) -> MachineUse:
    return MachineUse(
        one.host,
        _seen(one.cpu_mhz[inside], "MHz", "median"),
        _seen(one.load[inside], "processes", "mean"),
        _seen(one.memory_available_bytes[inside], "bytes", "least"),
    )


_SUMS: Mapping[str, Callable[[Floats], Any]] = {
    "median": np.median,
    "mean": np.mean,
    "most": np.max,
    "least": np.min,
}


def _seen(values: Floats, unit: str, how: str) -> Reading:
    known = values[np.isfinite(values)]
    if not known.size:
        return Reading.absent("not told while the cell ran")
    value = float(_SUMS[how](known))
    note = f"{how} of {known.size} looks; least and most"
    return Reading.of(value, unit, "device", low=float(known.min()), high=float(known.max()), note=note)


def gather(
    cells: Sequence[tuple[CellClocks, bool]],
    watched: Mapping[int, Sequence[WatchedHost]],
    arms: Sequence[str],
    control: str,
) -> Clocks | None:
    """All that was looked at: cells, each with whether it is sound, and the machines of every boot by its
    number. None where no boot was looked at.
    """
    hosts = tuple(dict.fromkeys(_frozen(host) for of in watched.values() for host in of))
    if not hosts:
        return None
    told = {key: host for of in watched.values() for host in of for key in [_frozen(host)]}
    sound = [
        (cell.key, cell.joules_per_token)
        for cell, is_sound in cells
        if is_sound and cell.key.phase not in WITHOUT_ENERGY
    ]
    return Clocks(
        tuple(told[key] for key in hosts),
        tuple(cell for cell, _ in cells),
        energy_by_arm(sound, arms, control),
        control,
    )


def _frozen(host: WatchedHost) -> str:
    return repr(host.to_json())


def energy_by_arm(
    cells: Sequence[tuple[CellKey, Reading]], arms: Sequence[str], control: str
) -> tuple[ArmEnergy, ...]:
    """Energy of a token by arm and kind of cell, from the sound cells' readings."""
    told: dict[tuple[str, str, int], dict[str, dict[int, float]]] = {}
    for key, reading in cells:
        if reading.value is not None:
            kind = told.setdefault((key.phase, key.workload, key.concurrency), {})
            kind.setdefault(key.arm, {})[key.block] = reading.value
    return tuple(
        ArmEnergy(
            arm,
            *kind,
            _over_boots(of[arm]),
            Reading.absent("it is the control")
            if arm == control
            else _to_control(of[arm], of.get(control, {})),
        )
        for kind, of in told.items()
        for arm in arms
        if arm in of
    )


def _over_boots(of: Mapping[int, float]) -> Reading:
    values = np.array(list(of.values()))
    number = len(values)
    if number == 1:
        return Reading.of(float(values[0]), "J/token", "device", note="one boot")
    note = f"mean of {number} boots; least and most"
    ends = {"low": float(values.min()), "high": float(values.max())}
    return Reading.of(float(values.mean()), "J/token", "device", note=note, **ends)


def _to_control(mine: Mapping[int, float], theirs: Mapping[int, float]) -> Reading:
    both = sorted(set(mine) & set(theirs))
    if not both:
        return Reading.absent("the control has no sound cell in the same block")
    logs: Floats = np.log(np.array([mine[block] / theirs[block] for block in both]))
    found = ratio_interval(logs)
    level = f"over {len(both)} boots, paired by block" if len(both) > 1 else "one boot: no interval"
    return Reading.of(found.mean, "ratio", "computed", low=found.low, high=found.high, note=level)
