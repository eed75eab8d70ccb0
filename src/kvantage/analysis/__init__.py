"""Ledger columns in, findings out. Pure functions: no I/O, no engine's name."""

from kvantage.analysis.analyse import analyse
from kvantage.analysis.findings import Findings

__all__ = ["Findings", "analyse"]
