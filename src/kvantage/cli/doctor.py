"""`kvantage doctor [STUDY|URL]`: what is installed, reachable, too old; and what to do."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import click

from kvantage.cli.health import BAD, Finding, State, health
from kvantage.core import ExitCode

SIGNS: dict[State, tuple[str, str]] = {
    "ok": ("✓", "green"),
    "note": ("!", "yellow"),
    "missing": ("·", "bright_black"),
    "too old": ("✗", "red"),
    "fault": ("✗", "red"),
}


@click.command(short_help="Say what is installed, reachable or too old, and what to do.")
@click.argument("target", required=False, metavar="[STUDY|URL]")
@click.option("--out", type=click.Path(path_type=Path), default=Path("runs"), help="Where results would go.")
@click.option("--json", "as_json", is_flag=True, help="As JSON: a list of {what, state, said, todo}.")
def command(target: str | None, out: Path, as_json: bool) -> int:
    """Say what is installed, reachable or too old, and what to do about it. Starts and changes nothing.

    With a study file, its arms, servers and machines are looked at too; with an address, the server there.
    Exits with 2 when something must be mended; what is only missing is for who wants it.

    \b
      kvantage doctor
      kvantage doctor study.yaml
      kvantage doctor http://spark1:30000
    """
    found = list(health(out))
    if target is not None:
        from kvantage.cli.reach import reach

        found += asyncio.run(reach(target))
    if as_json:
        click.echo(json.dumps([asdict(one) for one in found], indent=2))
    else:
        for line in lines(found):
            click.echo(line)
    return int(ExitCode.USAGE) if any(one.state in BAD for one in found) else 0


def lines(found: Sequence[Finding]) -> Iterator[str]:
    """A line each, and under it what to do."""
    width = max(len(one.what) for one in found)
    plain = bool(os.environ.get("NO_COLOR"))
    for one in found:
        sign, colour = SIGNS[one.state]
        yield f"{sign if plain else click.style(sign, fg=colour)} {one.what:<{width}}  {one.said}"
        if one.todo:
            yield f"  {'':<{width}}    {one.todo}"
    bad = sum(one.state in BAD for one in found)
    yield ""
    yield f"{bad} to mend" if bad else "nothing to mend"
