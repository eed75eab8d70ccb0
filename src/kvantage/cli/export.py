"""`kvantage export DIR`: the measurements as tables, for other programs."""

from __future__ import annotations

from pathlib import Path

import click

FORMATS = ("parquet", "csv", "json")


@click.command(short_help="Write what was measured as Parquet, CSV or JSON tables.")
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option(
    "--format", "form", type=click.Choice(FORMATS), default="parquet", show_default=True, help="Of the files."
)
@click.option("--out", type=click.Path(path_type=Path), help="Where they go. [default: DIR/export]")
def command(folder: Path, form: str, out: Path | None) -> None:
    """Write requests, chunks, cells, gates, counters, facts and boots as tables, each with its dictionary.

    DIR is where `run` wrote to. A field that is null was not reported: it is never zero. Needs
    `kvantage[frames]`.

    \b
      kvantage export runs/quickstart
      kvantage export runs/quickstart --format csv --out tables
    """
    from kvantage import frames
    from kvantage.analysis import analyse
    from kvantage.ledger import read_study

    chosen = next(one for one in frames.FORMATS if one == form)
    data = read_study(folder)
    place = out or folder / "export"
    rows = frames.export(data, analyse(data), place, chosen)
    for name, count in rows.items():
        click.echo(f"{count:>10,}  {place / name}.{form}")
    click.echo(f"{'':>10}  {place / 'dictionary.md'}")
    click.echo(f"{'':>10}  {place / 'dictionary.json'}")
