"""What to take away: a line to cite it by, and the table to paste."""

from __future__ import annotations

from kvantage.analysis.findings import Findings
from kvantage.report.blocks import Listing, Section
from kvantage.report.html.places import short_name
from kvantage.report.summary import summary_markdown


def section(findings: Findings) -> Section:
    """Both as text with a button that copies it."""
    return Section(
        "paste",
        "Cite this, paste this",
        (
            Listing("Cite this", cite(findings), copies=True),
            Listing("The table, in Markdown", summary_markdown(findings), copies=True),
        ),
    )


def cite(findings: Findings) -> str:
    """One line that says what was measured, on what, with what, and when."""
    study = findings.study
    versions = sorted({arm.engine_version for arm in findings.arms if arm.engine_version})
    stamps = sorted(cell.measured_at for arm in findings.arms for cell in arm.cells if cell.measured_at)
    when = f", {stamps[0][:10]}" if stamps else ""
    name = study.declared.get("name")
    told = [
        f"kvantage {findings.kvantage_version}",
        f"study {name}" if name else "",
        f"{short_name(study.model)} on {study.engine} {', '.join(versions)}".strip(),
        f"arms {', '.join(arm.name for arm in findings.arms)} (control {study.control})",
    ]
    line = "; ".join(part for part in told if part) + when
    return f"SIMULATED: {line}." if findings.simulated else f"{line}."
