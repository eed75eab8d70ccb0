"""Whether the answers are right: probes alone and in a crowd."""

from __future__ import annotations

from kvantage.analysis.findings import Findings
from kvantage.report.answers import probes
from kvantage.report.blocks import Rows, Section


def section(findings: Findings) -> Section | None:
    """The probes, an arm a column."""
    table = probes(findings)
    return Section("answers", "Right answers", (Rows(table),)) if table.rows else None
