"""`kvantage inspect FILE...`: what a log, a metrics dump, a capture, a response or a config says."""

from __future__ import annotations

import json
from pathlib import Path

import click

from kvantage.inspection import inspect, to_json, to_text


@click.command(short_help="Say what a server's log, metrics, answers or config mean.")
@click.argument("files", type=click.Path(path_type=Path), nargs=-1, required=True, metavar="FILE...")
@click.option("--json", "as_json", is_flag=True, help="As JSON: see docs/inspect.md.")
def command(files: tuple[Path, ...], as_json: bool) -> None:
    """Say what files of a server mean: its readings, where each is from, and what follows.

    A boot log, a dump of /metrics, a captured stream, a response, /server_info, /props, a config.json, or a
    folder of them, from SGLang, vLLM or llama.cpp. Each is recognised by what stands in it.

    \b
      kvantage inspect server.log
      kvantage inspect metrics.txt response.json --json
    """
    found = inspect(files)
    click.echo(json.dumps(to_json(found), indent=2, allow_nan=False) if as_json else to_text(found))
