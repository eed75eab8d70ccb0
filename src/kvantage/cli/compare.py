"""`kvantage compare RUN RUN...`: what changed between runs, or beside published figures. Measures nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from kvantage.analysis import analyse
from kvantage.analysis.posted import compare_sheets
from kvantage.analysis.runs import MARGIN, compare_runs
from kvantage.analysis.sheet import Sheet
from kvantage.analysis.sheets import sheet_of_posted, sheet_of_run
from kvantage.core import ExitCode, UsageError
from kvantage.core.columns import StudyData
from kvantage.ledger import read_study
from kvantage.report.runs import runs_json, sheets_json, show_runs, show_sheets
from kvantage.study.posted import load_posted


class Share(click.ParamType[float]):
    """`3%`, `3 %` or `0.03`: a share between 0 and 1."""

    name = "share"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The share as a number."""
        if isinstance(value, float):
            return value
        text = str(value).strip()
        try:
            share = float(text.removesuffix("%")) / 100 if text.endswith("%") else float(text)
        except ValueError:
            self.fail(f"{value!r} is no share: write 3% or 0.03", param, ctx)
        if not 0 <= share < 1:
            self.fail(f"{value!r} is not between 0 and 100 %: write 3% or 0.03", param, ctx)
        return share


@click.command(short_help="Compare runs, or a run with published figures.")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--margin", type=Share(), default=MARGIN, show_default="3%", help="What is worse by more is a regression."
)
@click.option("--json", "as_json", is_flag=True, help="Everything as JSON.")
def command(runs: tuple[Path, ...], margin: float, as_json: bool) -> int:
    """Compare runs, or a run with published figures. Nothing is measured.

    Each of RUNS is a folder that `run` wrote to, or a posted.yaml with somebody's published figures. The
    first is what the others are compared with. Of two runs: what changed beyond boot noise in each arm, and
    what differs in engine, driver, model, settings and work. Exits with 3 where something got worse by more
    than the margin, for certain. Beside published figures: what differs in definition, protocol and
    configuration, and what can be compared all the same.

    \b
      kvantage compare runs/engine-0.31 runs/engine-0.32 --margin 3%
      kvantage compare runs/mine examples/posted/four-arms-two-gb10.yaml
    """
    if len(runs) < 2:
        raise UsageError(
            "one run alone: name two or more, the first being what the others are compared with",
            hint="For example: kvantage compare runs/before runs/after",
        )
    base = _open(runs[0])
    told: list[dict[str, Any]] = []
    regressed = False
    for path in runs[1:]:
        other = _open(path)
        if isinstance(base, StudyData) and isinstance(other, StudyData):
            found = compare_runs(base, other, (str(runs[0]), str(path)), margin)
            regressed = regressed or found.regressed
            if as_json:
                told.append(runs_json(found))
            else:
                show_runs(found)
        else:
            beside = compare_sheets(_sheet(base, runs[0]), _sheet(other, path))
            if as_json:
                told.append(sheets_json(beside))
            else:
                show_sheets(beside)
    if as_json:
        click.echo(json.dumps({"comparisons": told}, indent=2, ensure_ascii=False, allow_nan=False))
    return int(ExitCode.REGRESSION if regressed else ExitCode.OK)


def _open(path: Path) -> StudyData | Sheet:
    """A run's ledger, or a write-up."""
    if path.is_dir():
        return read_study(path)
    if path.suffix in (".yaml", ".yml"):
        return sheet_of_posted(load_posted(path))
    raise UsageError(
        "neither a run's folder nor a posted.yaml" if path.exists() else "there is no such file or folder",
        where=str(path),
        hint="Name the folder that `run` wrote to, or a file like examples/posted/*.yaml.",
    )


def _sheet(opened: StudyData | Sheet, path: Path) -> Sheet:
    return opened if isinstance(opened, Sheet) else sheet_of_run(analyse(opened), str(path))
