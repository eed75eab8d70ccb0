"""From a ledger to report.json, report.md and the terminal."""

from __future__ import annotations

from pathlib import Path

import click

from kvantage.analysis import analyse
from kvantage.ledger import read_study
from kvantage.report import show_terminal, write_json, write_markdown


def show(folder: Path) -> None:
    """Analyse what the ledger holds and show the tables; writes nothing."""
    show_terminal(analyse(read_study(folder)))


def write_and_show(folder: Path) -> None:
    """Analyse what the ledger holds, write both files beside it, and show the tables."""
    findings = analyse(read_study(folder))
    json_path, markdown_path = folder / "report.json", folder / "report.md"
    write_json(findings, json_path)
    write_markdown(findings, markdown_path)
    show_terminal(findings)
    click.echo(f"\n{markdown_path}\n{json_path}")
