"""What this study does not show, in plain words."""

from __future__ import annotations

from kvantage.analysis.findings import Findings
from kvantage.report.blocks import Bullets, Section


def section(findings: Findings) -> Section:
    """The limits, most important first."""
    return Section("limits", "The limits of this study", (Bullets(findings.limits),))
