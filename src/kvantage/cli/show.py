"""From a ledger to the reports, the charts and the terminal."""

from __future__ import annotations

from pathlib import Path

import click

from kvantage.analysis import analyse
from kvantage.analysis.findings import Findings
from kvantage.ledger import read_study
from kvantage.report import show_terminal, write_reports
from kvantage.report.blocks import figures as figures_of
from kvantage.report.charts.drawing import write_pictures
from kvantage.report.html import read_sections


def show(folder: Path) -> None:
    """Analyse what the ledger holds and show the tables; writes nothing."""
    show_terminal(analyse(read_study(folder)))


def write_and_show(folder: Path) -> Findings:
    """Analyse what the ledger holds, write the reports beside it, show the tables, and return it."""
    findings = analyse(read_study(folder))
    written = write_reports(findings, folder)
    show_terminal(findings)
    click.echo("\n" + "\n".join(map(str, written)))
    return findings


def draw(findings: Findings, folder: Path) -> None:
    """Write every chart of the report as SVG and PNG into `folder`, and say how many."""
    figures = [figure for section in read_sections(findings) for figure in figures_of(section.blocks)]
    written = write_pictures(figures, folder)
    click.echo(f"{folder}: {len(figures)} charts, {len(written)} files")
