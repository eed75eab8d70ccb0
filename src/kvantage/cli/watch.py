"""`kvantage watch DIR`: a run that is at work in another shell, as that shell sees it."""

from __future__ import annotations

import contextlib
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from kvantage.cli.board import Told
    from kvantage.cli.feed import Follower, View

PERIOD_S = 0.25


@click.command(short_help="Look at a run that is at work in another shell.")
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option("--plain", is_flag=True, help="Plain lines instead of a live view.")
def command(folder: Path, plain: bool) -> int:
    """Look at a run that is at work in another shell: the same grid, until it ends, then its tables.

    DIR is where `run` writes to. Watching reads, and disturbs nothing: leave it by Ctrl-C, and the run goes
    on. Where nothing is at work, it says so, and what is there. The exit code is that of the run.

    \b
      kvantage watch runs/study
      kvantage watch runs/study --plain > watch.log
    """
    from kvantage.cli.feed import Follower
    from kvantage.core import LedgerError
    from kvantage.ledger import FILE, at_work

    if not (folder / FILE).is_file():
        raise LedgerError(
            "there is no study here", where=str(folder), hint="name the folder that `run` writes"
        )
    with Follower(folder) as feed:
        told = list(feed.new())
        if not at_work(folder):
            click.echo(_idle(folder, told))
            return 0
        end = _follow(folder, feed, told, plain)
    if end is None:
        click.echo(
            f"the run in {folder} ended without a word: it was killed, or its machine went down."
            f" What was finished is kept; go on by `kvantage run STUDY --out {folder} --resume`.",
            err=True,
        )
        return 0
    code: int = end.fields["code"]
    if "error" in end.fields:
        click.echo(f"the run ended by an error: {end.fields['error']}", err=True)
        return code
    from kvantage.cli.show import show

    show(folder)
    return code


def _follow(folder: Path, feed: Follower, told: list[Told], plain: bool) -> Told | None:
    """Show events until the run ends; returns its last one, None where there was none."""
    from kvantage.cli.measure import view
    from kvantage.ledger import at_work

    begin = next((one for one in told if one.kind == "begin"), None)
    title = str(begin.fields.get("title", "kvantage")) if begin else f"kvantage: {folder}"
    shown: View = view(title, folder, plain, begin.at if begin else None)
    with shown:
        while True:
            alive = at_work(folder)  # before the look, so that the last events are seen
            told += feed.new()
            for one in told:
                shown.take(one)
                if one.kind == "end":
                    return one
            told.clear()
            if not alive:
                return None
            time.sleep(PERIOD_S)


def _idle(folder: Path, told: list[Told]) -> str:
    """What to say where nothing is at work."""
    from kvantage.cli.plain import clock
    from kvantage.core import LedgerError
    from kvantage.ledger import whole_chains

    end = told[-1] if told and told[-1].kind == "end" else None
    lines = [f"nothing is at work in {folder}."]
    if end is not None:
        ago = clock(time.time() - end.at)
        when = datetime.fromtimestamp(end.at).strftime("%Y-%m-%d %H:%M")
        lines.append(f"The last run ended at {when} ({ago} ago) with exit code {end.fields['code']}.")
    elif told:
        lines.append("The last run was broken off.")
    with contextlib.suppress(LedgerError):
        held = whole_chains(folder)
        arms = dict.fromkeys(arm for arm, _, _ in held)
        lines.append(f"It holds {len(held)} whole chains of {len(arms)} arms: kvantage report {folder}")
    return "\n".join(lines)
