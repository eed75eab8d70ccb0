"""`kvantage exactness A B`: are the answers of one server, or of one run, those of another?"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import click

from kvantage.analysis.exactness.judge import Exactness
from kvantage.analysis.exactness.runs import compare_runs
from kvantage.analysis.exactness.study import read_exactness
from kvantage.analysis.measure import drafts
from kvantage.cli.measure import measure
from kvantage.core import ExitCode, UsageError
from kvantage.core.columns import StudyData
from kvantage.hosts.local import LocalHost
from kvantage.ledger import FILE, read_study
from kvantage.report.exactness_json import exactness_json
from kvantage.report.terminal import show_exactness
from kvantage.runner import Selection, prepare
from kvantage.runner.seen import recognised, see
from kvantage.study import Study
from kvantage.study.study import ATTACHED

OFF, ON = "off", "on"


@click.command(short_help="Say whether two servers, or two runs, give the same answers.")
@click.argument("control")
@click.argument("arm")
@click.option(
    "--out", type=click.Path(path_type=Path), help="Where the answers go. [default: runs/exactness]"
)
@click.option("--resume", is_flag=True, help="Go on with what is in --out.")
@click.option("--prompts", metavar="FILE", help="Prompts of your own, a JSONL file. [default: the twenty]")
@click.option(
    "--output-tokens", type=click.IntRange(64, 2000), default=512, show_default=True,
    help="The longest answer.",
)  # fmt: skip
@click.option("--repeats", type=click.IntRange(2), default=2, show_default=True, help="Times each is asked.")
@click.option("--at-once", type=click.IntRange(1), default=4, show_default=True, help="Beside one at a time.")
@click.option("--samples", type=click.IntRange(0), default=200, show_default=True, help="At a temperature.")
@click.option("--tasks", type=click.IntRange(0), default=10, show_default=True, help="Items of each kind.")
@click.option("--key-env", metavar="NAME", help="The environment variable that holds the servers' key.")
@click.option("--json", "as_json", is_flag=True, help="Of two runs: as JSON, as in report.json.")
@click.option("--plain", is_flag=True, help="Plain lines instead of a live view.")
def command(
    control: str,
    arm: str,
    out: Path | None,
    resume: bool,
    prompts: str | None,
    output_tokens: int,
    repeats: int,
    at_once: int,
    samples: int,
    tasks: int,
    key_env: str | None,
    as_json: bool,
    plain: bool,
) -> int:
    """Say whether ARM's answers are CONTROL's, by more than CONTROL differs from itself.

    Both are addresses of servers that run, the first without speculation; or both are folders of runs whose
    studies had the phase `exactness`: then every arm of the second is held against the control of the first.
    Ends with 3 when an arm differs, with 5 when nothing can be said of one.

    \b
      kvantage exactness http://spark1:30000 http://spark2:30000
      kvantage exactness runs/monday runs/tuesday
    """
    folders = [(Path(each) / FILE).is_file() for each in (control, arm)]
    if all(folders):
        found = _two_runs(Path(control), Path(arm))
        click.echo(json.dumps(exactness_json(found), indent=2)) if as_json else show_exactness(found)
        return _code(found)
    for given, is_folder in zip((control, arm), folders, strict=True):
        if not is_folder and not given.startswith(("http://", "https://")):
            raise UsageError(
                f"{given} is neither the folder of a run nor an address", hint="http://HOST:PORT"
            )
    if any(folders):
        raise UsageError("one is a run and the other a server: give two of a kind")
    asked: dict[str, Any] = {
        "output_tokens": output_tokens,
        "repeats": repeats,
        "concurrency": at_once,
        "samples": samples,
        "tasks": tasks,
    }
    if prompts:
        asked["prompts"] = str(Path(prompts).resolve())
    study = asyncio.run(_study([_bare(control), _bare(arm)], asked, key_env))
    prepared = prepare(study, LocalHost(), Selection())
    folder = out or Path("runs/exactness")
    if code := measure(prepared, folder, resume=resume, plain=plain):
        return code
    measured = read_exactness(data := read_study(folder), _drafting(data))
    if measured is None:
        return int(ExitCode.NOTHING_MEASURED)
    show_exactness(measured)
    return _code(measured)


def _bare(url: str) -> str:
    return url.rstrip("/").removesuffix("/v1")


async def _study(urls: list[str], asked: dict[str, Any], key_env: str | None) -> Study:
    """A study of two servers that run, exactness alone. Raises UsageError when the control drafts."""
    first, second = [await see(url, key_env) for url in urls]
    if first.drafts:
        raise UsageError(
            f"{first.url} speculates ({first.method or 'its method is not told'}), and cannot be the control",
            hint="name the server without speculation first",
        )
    attach = {
        name: {"url": url} | ({"key_env": key_env} if key_env else {})
        for name, url in zip((OFF, ON), urls, strict=True)
    }
    study = Study.from_json(
        {
            "model": first.model,
            "engine": first.told.engine or second.told.engine or ATTACHED,
            "arms": {OFF: {}, ON: {}},
            "attach": attach,
            "control": OFF,
            "phases": {"exactness": asked},
        }
    )
    # a server that drafts and does not tell how is left undeclared: that it drafts is seen in its counts
    told = second.drafts is not True or second.method is not None
    return await recognised(study, [OFF, ON] if told else [OFF])


def _two_runs(first: Path, second: Path) -> Exactness:
    a, b = read_study(first), read_study(second)
    return compare_runs(a, b, _drafting(b))


def _drafting(data: StudyData) -> dict[str, bool]:
    """Which arms speculate, as declared or as their servers said."""
    told = {arm.name: [boot.facts for boot in data.boots if boot.arm == arm.name] for arm in data.arms}
    return {arm.name: any(drafts(arm, each) for each in (*told[arm.name], None)) for arm in data.arms}


def _code(found: Exactness) -> int:
    classes = {arm.cls for arm in found.arms}
    if "differs" in classes:
        return int(ExitCode.REGRESSION)
    return int(ExitCode.PARTIAL) if "void" in classes else int(ExitCode.OK)
