"""Where a figure of a study belongs, and which ratio speaks for an arm."""

from __future__ import annotations

from kvantage.analysis import wording
from kvantage.analysis.compare import Comparison, Ratio
from kvantage.analysis.findings import Findings


def against_control(findings: Findings) -> dict[str, Comparison]:
    """Each arm's comparison with the control."""
    return {each.arm: each for each in findings.comparisons if each.against_control}


def place(phase: str, workload: str, concurrency: int) -> str:
    """'code at one stream', 'repeats at four streams'."""
    return f"{wording.work(phase, workload)} at {wording.streams(concurrency)}"


def headline(findings: Findings, arm: str) -> Ratio | None:
    """The ratio to the control that speaks for an arm."""
    return next((trade.headline for trade in findings.trades if trade.arm == arm), None)


def short_name(path: str) -> str:
    """The last part of a path or of a repository's name."""
    return path.rstrip("/").rsplit("/", 1)[-1] or path
