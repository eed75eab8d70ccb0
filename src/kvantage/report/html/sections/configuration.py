"""What differs between the arms' servers: declared, and resolved by the servers themselves."""

from __future__ import annotations

from kvantage.analysis.findings import Findings
from kvantage.report import tables
from kvantage.report.blocks import Block, Bullets, Folded, Rows, Section
from kvantage.report.html.places import against_control
from kvantage.report.tables import Table


def section(findings: Findings) -> Section:
    """The arms as declared; a setting a row and an arm a column, only those that differ from the control."""
    blocks: list[Block] = [Rows(tables.arms(findings))]
    differing = _matrix(findings)
    if differing.rows:
        blocks.append(Rows(differing))
    told = tables.differences(findings).notes
    if told:
        blocks.append(Folded("What only one of two servers tells", (Bullets(told),)))
    return Section("configuration", "What differs between the arms", tuple(blocks))


def _matrix(findings: Findings) -> Table:
    comparisons = against_control(findings)
    found: dict[str, dict[str, str]] = {}
    control: dict[str, str] = {}
    for arm, comparison in comparisons.items():
        for each in comparison.differs:
            if not each.one_sided:
                found.setdefault(each.setting, {})[arm] = each.arm
                control[each.setting] = each.baseline
    rows = tuple(
        (setting, control[setting], *(mine.get(arm, "as the control") for arm in comparisons))
        for setting, mine in sorted(found.items())
    )
    name = findings.study.control
    return Table(
        f"What the servers resolved otherwise than {name}",
        ("Setting", name, *comparisons),
        rows,
        notes=("Read back from the servers, the declared change included.",),
    )
