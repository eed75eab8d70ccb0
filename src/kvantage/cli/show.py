"""From a ledger to report.json, report.md and the terminal."""

from __future__ import annotations

from pathlib import Path

import click

from kvantage.analysis import analyse
from kvantage.ledger import read_study
from kvantage.report import show_terminal, write_reports


def show(folder: Path) -> None:
    """Analyse what the ledger holds and show the tables; writes nothing."""
    show_terminal(analyse(read_study(folder)))


def write_and_show(folder: Path) -> None:
    """Analyse what the ledger holds, write the reports beside it, and show the tables."""
    findings = analyse(read_study(folder))
    written = write_reports(findings, folder)
    show_terminal(findings)
    click.echo("\n" + "\n".join(map(str, written)))
