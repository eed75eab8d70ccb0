"""`kvantage engines`: the study's vocabulary against each engine's own flags."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

import click

from kvantage.engines.vocabulary import ENGINES, PINS, SETTINGS, SPECULATION

SECTIONS = {"settings": SETTINGS, "speculation": SPECULATION, "pinned in every arm": PINS}


@click.command(short_help="Show the study's words against each engine's flags.")
@click.option("--json", "as_json", is_flag=True, help="The table as JSON.")
def command(as_json: bool) -> None:
    """Show the study's words against each engine's own flags, and what is pinned in every arm.

    A word without a flag is refused on that engine, with what would work. `openai` attaches to a server that
    runs: it has no flags.

    \b
      kvantage engines
      kvantage engines --json
    """
    if as_json:
        click.echo(json.dumps(SECTIONS, indent=2))
        return
    for title, words in SECTIONS.items():
        click.echo("\n".join([*_table(title, words), ""]))


def _table(title: str, words: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """Columns as wide as their longest entry: a flag is never broken over lines."""
    rows = [
        (title, *ENGINES),
        *((word, *(flags[one] or "-" for one in ENGINES)) for word, flags in words.items()),
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
