"""How it was measured: rules, versions, machine, commands, every boot and every cell."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import get_args

from kvantage.analysis.findings import Findings
from kvantage.core.cell import Gate
from kvantage.report import tables
from kvantage.report.blocks import Block, Bullets, Folded, Listing, Rows, Section

GATES = (
    "Gates, each of which voids a cell: "
    + ", ".join(get_args(Gate))
    + ". docs/report.md says what each looks at."
)


def section(findings: Findings) -> Section:
    """What somebody needs to believe it, and to do it again."""
    said = (*findings.method, *_order(findings), GATES, *_versions(findings), *_machine(findings))
    blocks: list[Block] = [Bullets(said)]
    boots = tables.boots(findings)
    if boots.rows:
        blocks.append(Rows(boots))
    if excluded := tuple(_excluded(findings)):
        blocks.append(Bullets(excluded, "Left out of the speeds by rule:"))
    if told := tuple(dict.fromkeys(_told(findings))):
        blocks.append(Folded(f"Notes and warnings ({len(told)})", (Bullets(told),)))
    if commands := tuple(_commands(findings)):
        blocks.append(Folded("The exact command of each arm", commands))
    cells = tables.cells(findings)
    if cells.rows:
        blocks.append(Folded(f"Every cell, the void ones too ({len(cells.rows)})", (Rows(cells),)))
    return Section("method", "How it was measured", tuple(blocks))


def _order(findings: Findings) -> Iterator[str]:
    """The seed and the order of boots, as declared."""
    declared = findings.study.declared
    if "seed" in declared:
        yield f"Seed {declared['seed']}: documents and every random choice follow from it."
    if "order" in declared:
        yield f"Order of boots: {declared['order']}, {declared.get('boots', 1)} asked for of each arm."


def _versions(findings: Findings) -> Iterator[str]:
    versions = sorted({arm.engine_version for arm in findings.arms if arm.engine_version})
    yield f"kvantage {findings.kvantage_version}; {findings.study.engine} {', '.join(versions)}".strip() + "."
    revision = f", revision {findings.study.revision}" if findings.study.revision else ""
    yield f"Model: {findings.study.model}{revision}."


def _machine(findings: Findings) -> Iterator[str]:
    seen = dict.fromkeys(
        ", ".join(f"{name} {value}" for name, value in boot.provenance["hardware"].items())
        for arm in findings.arms
        for boot in arm.boots
        if boot.provenance and isinstance(boot.provenance.get("hardware"), Mapping)
    )
    for text in seen:
        yield f"Hardware: {text}."


def _excluded(findings: Findings) -> Iterator[str]:
    for arm in findings.arms:
        for cell in arm.cells:
            for gone in cell.speed.excluded:
                yield (
                    f"{arm.name}, {cell.key.phase} {cell.key.workload} at {cell.key.concurrency}: "
                    f"{gone.prompt_id}, {gone.why}."
                )


def _told(findings: Findings) -> Iterator[str]:
    for arm in findings.arms:
        for cell in arm.cells:
            for note in cell.notes:
                yield f"{arm.name}, {cell.key.phase} {cell.key.workload} at {cell.key.concurrency}: {note}"
    for event in findings.events:
        yield f"{event.arm or 'study'}, {event.kind}: {event.text}"
    for arm in findings.arms:
        for boot in arm.boots:
            for warning in boot.warnings:
                yield f"{arm.name}: {warning}"


def _commands(findings: Findings) -> Iterator[Listing]:
    """As its first boot had it."""
    for arm in findings.arms:
        for boot in arm.boots[:1]:
            provenance = boot.provenance or {}
            command, env = provenance.get("command"), provenance.get("env")
            if isinstance(command, list | tuple) and command:
                given = [f"{name}={value}" for name, value in env.items()] if isinstance(env, Mapping) else []
                yield Listing(arm.name, shlex.join([*given, *map(str, command)]), copies=True)
