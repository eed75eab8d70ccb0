"""`kvantage report DIR`: analyse and report again from the ledger. Measures nothing."""

from __future__ import annotations

from pathlib import Path

import click

from kvantage.cli.show import write_and_show


@click.command(short_help="Report again from what was measured.")
@click.argument("folder", type=click.Path(path_type=Path))
def command(folder: Path) -> None:
    """Report again from what was measured: the tables, report.md and report.json.

    FOLDER is where `run` wrote to. It also works while a study is running.

    \b
      kvantage report runs/quickstart
    """
    write_and_show(folder)
