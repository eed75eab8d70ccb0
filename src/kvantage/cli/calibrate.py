"""`kvantage calibrate`: prove how exactly this machine times a stream."""

from __future__ import annotations

import asyncio
import json
import sys

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from kvantage.calibrate import FULL, QUICK, Calibration, Load, Row, Spread, calibrate, store
from kvantage.session import ahead


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON and nothing else.")
@click.option("--quick", is_flag=True, help="Two loads in ten seconds, instead of twelve in two minutes.")
def command(as_json: bool, quick: bool) -> None:
    """Measure this machine's own error before it measures a server.

    The client times streams of a server whose every write is logged, at 1 to 1,024 streams. The result is
    stored and every report quotes it. Run it on a quiet machine.

    \b
      kvantage calibrate
      kvantage calibrate --quick --json
    """
    loads = QUICK if quick else FULL
    said = Console(stderr=True)

    def on_row(place: int, load: Load, row: Row | None) -> None:
        if row is None and said.is_terminal:
            said.print(
                f"{place + 1}/{len(loads)}  {load.streams:,} streams, {load.tokens_per_chunk} tokens a chunk",
                highlight=False,
            )

    with ahead():
        calibration = asyncio.run(calibrate(loads, on_row=on_row))
    path = store(calibration)
    if as_json:
        json.dump(calibration.to_json(), sys.stdout, indent=1)
        sys.stdout.write("\n")
        return
    console = Console()
    console.print(table(calibration))
    console.print(calibration.advice, highlight=False, soft_wrap=True)
    console.print(f"stored in {path}", highlight=False, soft_wrap=True)


def _spread(spread: Spread, unit: float = 1) -> str:
    return "/".join(_short(each * unit) for each in (spread.median, spread.p99))


def _short(value: float) -> str:
    """To a thousandth, and to no more than three digits."""
    return f"{value:.{3 if value < 1 else 2 if value < 10 else 1 if value < 100 else 0}f}"


def table(calibration: Calibration) -> Table:
    """The rows as a table for the terminal."""
    made = Table(
        title="The client's own error: median/p99, against what the server wrote",
        title_justify="left",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    for name in ("streams", "tok", "TTFT ms", "ITL ms", "rate %", "CPU", "lag", "chunks", "late"):
        made.add_column(name, justify="right", no_wrap=True)
    for row in calibration.rows:
        rate = row.decode_rate_error
        made.add_row(
            f"{row.streams:,}",
            str(row.tokens_per_chunk),
            _spread(row.ttft_error_ms),
            _spread(row.itl_error_ms),
            "-" if rate is None else _spread(rate, 100),
            _short(row.cpu_ms_per_1000_chunks),
            _short(row.server_lag_ms),
            f"{row.chunks_per_s:.0f}",
            f"{row.late}",
        )
    made.caption = "tok, chunks: tokens a chunk, chunks a second. CPU: ms a 1,000. lag: server, p99."
    made.caption_justify = "left"
    return made
