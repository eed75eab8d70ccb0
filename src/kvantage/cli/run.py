"""`kvantage run STUDY`: the main job."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from kvantage.cli.names import completes, names


@click.command(short_help="Run a study: every arm, the same work, a report.")
@click.argument("study", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="Where results go. [default: runs/STUDY'S NAME]")
@click.option("--dry-run", "dry", is_flag=True, help="Print commands, phases and an estimate; start nothing.")
@click.option("--resume", is_flag=True, help="Go on with what is in --out; what was measured is kept.")
@click.option(
    "--arms", callback=names, metavar="A,B", shell_complete=completes("arms"),
    help="Only these arms, and the control.",
)  # fmt: skip
@click.option(
    "--phases", callback=names, metavar="X,Y", shell_complete=completes("phases"), help="Only these phases."
)
@click.option(
    "--load-workers", type=click.IntRange(1), metavar="N",
    help="Processes that send. [default: as few as are exact, by `kvantage calibrate`]",
)  # fmt: skip
@click.option("--load", metavar="ray://...", help="Send from a Ray cluster: ray://HOST:10001, auto or local.")
@click.option("--allow-simulated", is_flag=True, help="Measure made-up acceptance, and mark all of it.")
@click.option("--plain", is_flag=True, help="Plain lines instead of a live view.")
def command(
    study: Path,
    out: Path | None,
    dry: bool,
    resume: bool,
    arms: tuple[str, ...] | None,
    phases: tuple[str, ...] | None,
    load_workers: int | None,
    load: str | None,
    allow_simulated: bool,
    plain: bool,
) -> int:
    """Run a study: start each arm's server, give all the same work, report.

    Results stay in --out, arm by arm: after a change of the study, --resume measures only what changed.
    Ctrl-C ends the server and keeps what was finished; a second one ends it at once.

    \b
      kvantage run study.yaml --dry-run
      kvantage run study.yaml
      kvantage run study.yaml --resume --arms none,mtp
    """
    from kvantage.cli.dry import dry_run
    from kvantage.cli.measure import measure
    from kvantage.hosts.local import LocalHost
    from kvantage.runner import Selection, prepare
    from kvantage.runner.seen import recognised
    from kvantage.session import senders
    from kvantage.study import load_study

    asked = load_study(study)
    if allow_simulated:
        asked = asked.allowing_simulated()
    host = LocalHost()
    if asked.attach:
        asked = asyncio.run(recognised(asked, asked.attach if arms is None else {*arms, asked.control_arm}))
    prepared = prepare(asked, host, Selection(arms, phases))
    if dry:
        click.echo(dry_run(prepared))
        return 0
    for warning in asked.warnings():
        click.echo(f"note: {warning}", err=True)
    folder = out or Path("runs") / asked.name
    sending = None if load is None and load_workers is None else senders(load_workers, load)
    return measure(prepared, folder, resume=resume, plain=plain, sending=sending)
