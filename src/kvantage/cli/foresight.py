"""After a run: what was predicted of it and what came of it, kept for the planner's own error."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from pathlib import Path

from kvantage.analysis.findings import ArmFindings, Findings
from kvantage.analysis.foretold import Foretold
from kvantage.planner.history import Past, note


def keep_errors(findings: Findings, folder: Path) -> None:
    """Add a run to the history of this machine; a simulated one is none, and a full disk costs only that."""
    if findings.simulated:
        return
    with contextlib.suppress(OSError):
        note(list(_rows(findings, folder)))


def _rows(findings: Findings, folder: Path) -> Iterator[Past]:
    boots = [boot.started_at for arm in findings.arms for boot in arm.boots]
    if not boots:
        return
    at = min(boots)
    run = f"{hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:12]} {at}"
    for told in findings.foresight.arms:
        if not told.machine:
            continue
        yield from _of_arm(findings, findings.arm(told.arm), told, told.machine, run, at)


def _of_arm(
    findings: Findings, arm: ArmFindings, told: Foretold, machine: str, run: str, at: str
) -> Iterator[Past]:
    spec = arm.speculation
    for row in (*told.find("pool"), *told.find("speed")):
        if not row.measured.value:
            continue
        acceptance, length = None, None
        if row.phase is not None:
            cells = [one for one in arm.cell(row.phase, row.workload, row.concurrency) if one.sound]
            for cell in cells[:1]:
                acceptance = cell.acceptance.length.value
                prompt, output = cell.prompt_tokens.value, cell.output_tokens.value
                if prompt is not None and output is not None and cell.requests.value:
                    length = round((prompt + output / 2) / cell.requests.value)
        yield Past(
            run=run,
            at=at,
            machine=machine,
            engine=findings.study.engine,
            model=findings.study.model,
            arm=told.arm,
            kind="pool" if row.kind == "pool" else "speed",
            quantity=row.name,
            predicted=row.predicted.value,
            measured=row.measured.value,
            method=spec.method,
            draft=spec.draft,
            drafts=spec.drafts,
            acceptance=acceptance if spec.on else None,
            length=length,
        )
