"""What was void, and why; and the arms that were not measured whole."""

from __future__ import annotations

from kvantage.analysis.findings import Findings
from kvantage.report import tables
from kvantage.report.blocks import Block, Listing, Prose, Rows, Section


def section(findings: Findings) -> Section:
    """Every void cell with its gate; a failed arm with its log's own words."""
    table = tables.void(findings)
    blocks: list[Block] = [Rows(table)] if table.rows else [Prose("Nothing: every cell passed its gates.")]
    for arm in findings.arms:
        if arm.status in ("failed", "partial"):
            blocks.append(Prose(f"{arm.name}: {arm.status}. {arm.reason or 'No reason was told.'}"))
            if arm.log_lines:
                blocks.append(Listing(f"The log of {arm.name}, in its own words", "\n".join(arm.log_lines)))
    if (skipped := tables.skipped(findings)).rows:
        blocks.append(Rows(skipped))
    return Section("void", "What was void, and why", tuple(blocks))
