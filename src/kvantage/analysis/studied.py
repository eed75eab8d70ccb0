"""Every arm's cells measured, its pools read: what the verdict and the looks of a study start from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kvantage.analysis.capacity import Pool, read_pool
from kvantage.analysis.cells import group_cells
from kvantage.analysis.compare import METRICS
from kvantage.analysis.measure import MeasuredCell, measure_cell
from kvantage.core.arm import ArmSettings
from kvantage.core.cell import CellKey
from kvantage.core.columns import StudyData
from kvantage.core.facts import Facts


@dataclass(frozen=True)
class Studied:
    """By arm: its settings, what its boots said of themselves, its cells and its pool."""

    settings: Mapping[str, ArmSettings]
    facts: Mapping[tuple[str, int], Facts]
    booted: Mapping[str, list[Facts]]
    measured: dict[str, tuple[MeasuredCell, ...]]
    pools: dict[str, Pool]

    @property
    def boots(self) -> int:
        """The most boots in which an arm's speed was measured: one that only closed the study is none."""
        return most_boots({arm: [each.cell.key for each in cells] for arm, cells in self.measured.items()})


def most_boots(cells: Mapping[str, Iterable[CellKey]]) -> int:
    """The most blocks in which an arm has a cell of speed."""
    blocks = ({key.block for key in keys if key.phase in METRICS} for keys in cells.values())
    return max((len(each) for each in blocks), default=0)


def measure_arms(data: StudyData) -> Studied:
    """Judge and measure every cell of every arm, in the order of the study."""
    facts = {(boot.arm, boot.block): boot.facts for boot in data.boots if boot.facts is not None}
    settings = {arm.name: arm for arm in data.arms}
    cells = group_cells(data)
    measured = {
        arm.name: tuple(
            measure_cell(data, cell, settings[arm.name], facts.get((arm.name, cell.key.block)))
            for cell in cells
            if cell.key.arm == arm.name
        )
        for arm in data.arms
    }
    booted = {
        arm.name: [boot.facts for boot in data.boots if boot.arm == arm.name and boot.facts is not None]
        for arm in data.arms
    }
    pools = {
        arm.name: read_pool(booted[arm.name], booted.get(data.control, ()), arm.name == data.control)
        for arm in data.arms
    }
    return Studied(settings, facts, booted, measured, pools)
