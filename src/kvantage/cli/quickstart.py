"""`kvantage quickstart`: `run` on a study that ships with the package."""

from __future__ import annotations

import time
from pathlib import Path

import click

from kvantage.cli.names import names


@click.command(short_help="Compare four arms on a toy model, on this machine.")
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("runs/quickstart"), show_default=True,
    help="Where results go; results that are there already are moved aside, not lost.",
)  # fmt: skip
@click.option("--dry-run", "dry", is_flag=True, help="Print commands, phases and an estimate; start nothing.")
@click.option("--resume", is_flag=True, help="Go on with what is in --out.")
@click.option("--arms", callback=names, metavar="A,B", help="Only these arms, and the control.")
@click.option("--phases", callback=names, metavar="X,Y", help="Only these phases.")
@click.option("--plain", is_flag=True, help="Plain lines instead of a live view.")
def command(
    out: Path,
    dry: bool,
    resume: bool,
    arms: tuple[str, ...] | None,
    phases: tuple[str, ...] | None,
    plain: bool,
) -> int:
    """Compare four ways of speculating on a toy model that ships with kvantage, by a real engine.

    It needs no GPU and takes about four minutes on two cores. Which models are used depends on the
    processor, and is said: on one with AMX the target has DeepSeek-V3's architecture and its native MTP
    head; elsewhere it is Qwen3-shaped, with a small draft model in the MTP head's place.

    \b
      kvantage quickstart --dry-run
      kvantage quickstart
    """
    from kvantage.cli.dry import dry_run
    from kvantage.cli.measure import measure
    from kvantage.hosts.local import LocalHost
    from kvantage.runner import Selection, prepare
    from kvantage.study import load_study, packaged_study

    host = LocalHost()
    amx = host.facts().amx
    click.echo(
        "this processor has AMX: the target is the MLA model, with its own MTP head"
        if amx
        else "this processor has no AMX, without which the engine neither caches prefixes nor runs DFlash on"
        " an MLA model: the target is the Qwen3-shaped one, with a draft model in the MTP head's place"
    )
    study = load_study(packaged_study("quickstart-amx" if amx else "quickstart"))
    prepared = prepare(study, host, Selection(arms, phases))
    if dry:
        click.echo(dry_run(prepared))
        return 0
    if not resume:
        _move_aside(out)
    return measure(prepared, out, resume=resume, plain=plain)


def _move_aside(folder: Path) -> None:
    from kvantage.ledger import FILE

    if not (folder / FILE).exists():
        return
    stamp = time.strftime("%Y%m%dT%H%M%S", time.localtime((folder / FILE).stat().st_mtime))
    older = folder.with_name(f"{folder.name}-{stamp}")
    if older.exists():
        older = folder.with_name(f"{older.name}-{time.time_ns()}")
    folder.rename(older)
    click.echo(f"earlier results are now in {older}")
