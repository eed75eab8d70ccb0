"""Clocks, heat, power and memory of the machines as tables and as JSON, and the energy of a token."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from kvantage.analysis.clocks import CellClocks, Clocks, DeviceUse
from kvantage.analysis.findings import Findings
from kvantage.core.reading import Reading
from kvantage.report.figures import DASH, Notes, number, size, times
from kvantage.report.tables import Table

T = TypeVar("T")

RANGE = "Each figure is over all of the arm's cells, with the least and the most that was seen in brackets."


def devices_table(findings: Findings) -> Table:
    """An arm and a device a row."""
    rows = []
    for arm, cells in _by_arm(findings):
        for uses in _same(cells, lambda cell: cell.devices, lambda use: (use.host, use.device)):
            first = uses[0]
            rows.append(
                (
                    arm,
                    f"{first.host}: GPU {first.device}" + (f" ({first.name})" if first.name else ""),
                    _range(uses, lambda use: use.sm_mhz, ",.0f"),
                    _range(uses, lambda use: use.power_w, ",.0f"),
                    _most(uses, lambda use: use.temperature_c, lambda value: f"{value:.0f}"),
                    _most(uses, lambda use: use.memory_used_bytes, _bytes),
                    _held(uses),
                )
            )
    columns = (
        "Arm",
        "device",
        "SM clock (MHz)",
        "power (W)",
        "hottest (°C)",
        "memory in use",
        "held down by",
    )
    said = (
        f"{RANGE} Looked at once a second while requests were at work; held down by: the driver's reason for"
        " a slower clock, with the share of looks in which it stood."
    )
    return Table("Clocks and heat", columns, tuple(rows), (2, 3, 4, 5), (said, *_judged(findings)))


def unequal(findings: Findings) -> list[tuple[str, str]]:
    """Cells whose clock stood elsewhere than the control's, as (arm and boot, what)."""
    said = findings.clocks.unequal if findings.clocks else ()
    return [(where, what) for where, _, what in (sentence.partition(": ") for sentence in said)]


def machines_table(findings: Findings) -> Table:
    """An arm and a machine a row."""
    rows = []
    for arm, cells in _by_arm(findings):
        for uses in _same(cells, lambda cell: cell.machines, lambda use: (use.host,)):
            rows.append(
                (
                    arm,
                    uses[0].host,
                    _range(uses, lambda use: use.cpu_mhz, ",.0f"),
                    _range(uses, lambda use: use.load, ".1f"),
                    _least(uses, lambda use: use.memory_available_bytes, _bytes),
                )
            )
    columns = ("Arm", "machine", "processor clock (MHz)", "load average", "least memory available")
    bare = () if devices_table(findings).rows else _judged(findings)
    return Table("The machines", columns, tuple(rows), (2, 3, 4), (RANGE, *bare))


def _judged(findings: Findings) -> tuple[str, ...]:
    return (findings.clocks.judged,) if findings.clocks else ()


def absences(findings: Findings) -> list[tuple[str, str]]:
    """What was not looked at or not told, as (where, what and why)."""
    said = findings.clocks.absences if findings.clocks else ()
    return [(where, why) for where, _, why in (sentence.partition(": ") for sentence in said)]


def energy_table(findings: Findings) -> Table:
    """An arm and a kind of cell a row."""
    rows, notes = [], Notes()
    for each in findings.clocks.energy if findings.clocks else ():
        is_control = each.arm == findings.study.control
        ratio = "control" if is_control else notes.mark(times(each.to_control), each.to_control)
        value = each.joules_per_token
        text = "" if value.value is None else f"{value.value:.3g}"
        if value.low is not None and value.high is not None:
            text += f" ({value.low:.3g} to {value.high:.3g})"
        place = f"{each.phase} {each.workload}, {each.concurrency} at once"
        rows.append((each.arm, place, notes.mark(text, value), ratio))
    said = (
        "Joules an output token: power of every GPU of every machine that serves, from a cell's first send to"
        " its last answer, the reading of prompts included, idle power not taken off. In brackets the least"
        " and the most of the boots."
    )
    columns = ("Arm", "cell", "J/token", "to control")
    return Table("Energy", columns, tuple(rows), (2, 3), (said, *notes.lines()))


def clocks_json(clocks: Clocks | None) -> dict[str, Any] | None:
    """The block `clocks` of report.json; None where nothing was looked at."""
    if clocks is None:
        return None
    return {
        "absences": list(clocks.absences),
        "unequal": list(clocks.unequal),
        "machines": [
            {
                "host": host.host,
                "devices": [{"device": each.device, "name": each.name} for each in host.devices],
            }
            for host in clocks.hosts
        ],
        "cells": [_cell_json(cell) for cell in clocks.cells],
        "energy": [
            {
                "arm": each.arm,
                "phase": each.phase,
                "workload": each.workload,
                "concurrency": each.concurrency,
                "joules_per_token": number(each.joules_per_token),
                "to_control": number(each.to_control),
            }
            for each in clocks.energy
        ],
    }


def _cell_json(cell: CellClocks) -> dict[str, Any]:
    key = cell.key
    return {
        "arm": key.arm,
        "block": key.block,
        "phase": key.phase,
        "workload": key.workload,
        "concurrency": key.concurrency,
        "clock": cell.clock,
        "words": cell.words,
        "joules_per_token": number(cell.joules_per_token),
        "devices": [
            {
                "host": use.host,
                "device": use.device,
                "sm_clock": number(use.sm_mhz),
                "power": number(use.power_w),
                "temperature": number(use.temperature_c),
                "memory_used": number(use.memory_used_bytes),
                "held_down": dict(use.held_down),
            }
            for use in cell.devices
        ],
        "machines": [
            {
                "host": use.host,
                "processor_clock": number(use.cpu_mhz),
                "load": number(use.load),
                "memory_available": number(use.memory_available_bytes),
            }
            for use in cell.machines
        ],
    }


def _by_arm(findings: Findings) -> list[tuple[str, list[CellClocks]]]:
    cells = findings.clocks.cells if findings.clocks else ()
    made = [(arm.name, [cell for cell in cells if cell.key.arm == arm.name]) for arm in findings.arms]
    return [(arm, of) for arm, of in made if of]


def _same(
    cells: Sequence[CellClocks], uses: Callable[[CellClocks], Sequence[T]], key: Callable[[T], Any]
) -> list[list[T]]:
    """The uses of each device (or machine) over the cells."""
    found: dict[Any, list[T]] = {}
    for cell in cells:
        for use in uses(cell):
            found.setdefault(key(use), []).append(use)
    return list(found.values())


def _known(uses: Sequence[T], of: Callable[[T], Reading]) -> list[Reading]:
    return [reading for reading in map(of, uses) if reading.value is not None]


def _range(uses: Sequence[T], of: Callable[[T], Reading], form: str) -> str:
    known = _known(uses, of)
    if not known:
        return DASH
    middle = sorted(reading.value or 0.0 for reading in known)[len(known) // 2]
    low = min(reading.low for reading in known if reading.low is not None)
    high = max(reading.high for reading in known if reading.high is not None)
    return f"{middle:{form}} ({low:{form}} to {high:{form}})"


def _most(uses: Sequence[T], of: Callable[[T], Reading], show: Callable[[float], str]) -> str:
    known = _known(uses, of)
    return show(max(reading.high or 0.0 for reading in known)) if known else DASH


def _least(uses: Sequence[T], of: Callable[[T], Reading], show: Callable[[float], str]) -> str:
    known = _known(uses, of)
    return show(min(reading.low or 0.0 for reading in known)) if known else DASH


def _bytes(value: float) -> str:
    return size(Reading.of(value, "bytes", "device"))


def _held(uses: Sequence[DeviceUse]) -> str:
    """Each reason with its mean share over the cells."""
    words = dict.fromkeys(word for use in uses for word in use.held_down)
    shares = {word: sum(use.held_down.get(word, 0.0) for use in uses) / len(uses) for word in words}
    return ", ".join(f"{word} {share:.0%}" for word, share in shares.items()) or "nothing"
