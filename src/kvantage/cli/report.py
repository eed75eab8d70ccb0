"""`kvantage report DIR`: analyse and report again from the ledger. Measures nothing."""

from __future__ import annotations

from pathlib import Path

import click


@click.command(short_help="Report again from what was measured.")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--charts",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Also write each chart of report.html as SVG and PNG into DIR.",
)
def command(folder: Path, charts: Path | None) -> None:
    """Report again from what was measured: the tables, report.html, report.md and report.json.

    FOLDER is where `run` wrote to. It also works while a study is running.

    \b
      kvantage report runs/quickstart
      kvantage report runs/quickstart --charts charts/
    """
    from kvantage.cli.show import draw, write_and_show

    findings = write_and_show(folder)
    if charts is not None:
        draw(findings, charts)
