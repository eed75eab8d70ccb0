"""`kvantage plan MODEL` or `kvantage plan STUDY`: what should happen, before anything is started."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import click

from kvantage.cli.plan_tables import against_table, drafter_table, geometry_table, plan_tables
from kvantage.core import ServerSettings, UsageError
from kvantage.planner.acceptance import from_unconditional
from kvantage.planner.against import hold_against, rows_json
from kvantage.planner.arms import parse_arms
from kvantage.planner.checkpoint import read_checkpoint
from kvantage.planner.drafts import drafter_kind, drafter_of
from kvantage.planner.geometry import geometry_of
from kvantage.planner.machine import Machine, read_machine
from kvantage.planner.memory import GIB
from kvantage.planner.page import drafter_alone_json, drafter_json, geometry_json, plan_json
from kvantage.planner.plan import ArmAsked, Asked, make_plan
from kvantage.planner.pools import DEFAULT
from kvantage.planner.studies import asked_of, work_of
from kvantage.sim.page import simulation_json, simulation_text
from kvantage.sim.plan import candidates, luck, play
from kvantage.study import load_study
from kvantage.study.units import parse_tokens


@click.command(short_help="Predict pools, sessions and speeds before anything is started.")
@click.argument("model")
@click.option(
    "--hardware", metavar="NAME", help="two-gb10, h100, h200, b200, rtx-6000, gb10, cpu, or a file."
)
@click.option("--engine", default=DEFAULT, show_default=True, metavar="NAME", help="Whose pool arithmetic.")
@click.option("--arms", metavar="LIST", help="Such as none,mtp:3,dflash:DRAFT:5:fp8.")
@click.option(
    "--draft", "drafts", multiple=True, metavar="DRAFT", help="With a model alone: a drafter to print too."
)
@click.option("--tp", type=click.IntRange(1), help="Ranks that share each layer; default: the hardware's.")
@click.option("--memory-fraction", type=click.FloatRange(0, 1, min_open=True), help="Share of device memory.")
@click.option("--kv-dtype", help="The target's KV dtype; default: the model's own.")
@click.option("--context", type=click.IntRange(1), help="The longest request, in tokens.")
@click.option("--max-running", type=click.IntRange(1), help="Requests that run at once.")
@click.option("--chunked-prefill", type=click.IntRange(1), help="Prompt tokens in one prefill step.")
@click.option("--pool-tokens", type=click.IntRange(1), help="Ceiling of the pool, in tokens.")
@click.option("--page-size", type=click.IntRange(1), help="Tokens in one block.")
@click.option(
    "--available", type=click.FloatRange(0), metavar="GIB", help="Memory left for caches, where known."
)
@click.option("--weights", type=click.FloatRange(0), metavar="GIB", help="The weights, all ranks together.")
@click.option("--lengths", default="8k,32k,128k", help="Session lengths; default 8k,32k,128k.")
@click.option("--at", "at", default="1,2,4", help="Requests at once; default 1,2,4.")
@click.option(
    "--al",
    "lengths_given",
    multiple=True,
    metavar="ARM=AL",
    help="An arm's acceptance length, or its rates by position: mtp=0.72,0.49,0.40.",
)
@click.option(
    "--measured", multiple=True, metavar="ARM=TOK/S", help="A speed at one stream, to calibrate by."
)
@click.option(
    "--flag", "flags", multiple=True, metavar="NAME=VALUE", help="An engine flag that sizes the pool."
)
@click.option("--simulate", is_flag=True, help="With a study: play it in virtual time, too.")
@click.option(
    "--against",
    type=click.Path(path_type=Path),
    help="With a study: its report.json, beside what is predicted.",
)
@click.option("--json", "as_json", is_flag=True, help="Everything, as JSON.")
def command(
    model: str,
    hardware: str | None,
    engine: str,
    arms: str | None,
    drafts: tuple[str, ...],
    tp: int | None,
    memory_fraction: float | None,
    kv_dtype: str | None,
    context: int | None,
    max_running: int | None,
    chunked_prefill: int | None,
    pool_tokens: int | None,
    page_size: int | None,
    available: float | None,
    weights: float | None,
    lengths: str,
    at: str,
    lengths_given: tuple[str, ...],
    measured: tuple[str, ...],
    flags: tuple[str, ...],
    simulate: bool,
    against: Path | None,
    as_json: bool,
) -> None:
    """Predict an arm's pool, sessions, break-even and speed. Nothing is started; no GPU is needed.

    MODEL is a folder, a config.json or a hub name: alone, it prints what a token and a sequence cost. A
    study file (.yaml) plans its arms.

    \b
      kvantage plan ./Qwen3-8B
      kvantage plan ./Qwen3-8B --hardware h100 --arms none,ngram:5,dflash:./drafter:7:fp8
      kvantage plan study.yaml --hardware two-gb10 --simulate
    """
    machine = read_machine(hardware) if hardware else None
    given = Given(
        machine,
        int(available * GIB) if available is not None else None,
        int(weights * GIB) if weights is not None else None,
        _lengths(lengths_given),
        _pairs(measured, "--measured"),
    )
    if model.endswith((".yaml", ".yml")):
        context_of = click.get_current_context()
        for name in (*OF_A_MODEL, *SETTINGS):
            if context_of.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
                raise UsageError(f"--{name.replace('_', '-')} is for a model: a study says its own arms")
        study = load_study(Path(model), paths_must_exist=False)
        asked = asked_of(study, given.machine, given.available, given.weights, given.al, given.measured)
        plan = make_plan(asked)
        page, tables = plan_json(plan), plan_tables(plan)
        if simulate:
            work = work_of(study)
            played = play(plan, work, study.seed)
            found, draws = candidates(plan, work, study.seed), luck(plan, work)
            page["simulated"] = simulation_json(played, study.control_arm, asked.lengths, found, draws)
            tables += "\n" + simulation_text(played, work, asked.lengths, found, draws)
        if against:
            rows = hold_against(asked, _report(against))
            page["against"] = rows_json(rows)
            tables += "\n\n" + against_table(rows)
        click.echo(json.dumps(page, indent=2) if as_json else tables)
        return
    if simulate or against:
        raise UsageError("only a study can be simulated or held against its report: give a study file")
    checkpoint = read_checkpoint(model)
    ranks = tp or (machine.ranks if machine else 1)
    if drafter_kind(checkpoint.config):
        drafter = drafter_of(checkpoint)
        page = drafter_alone_json(drafter, ranks)
        click.echo(json.dumps(page, indent=2) if as_json else drafter_table(page["drafter"]))
        return
    target = geometry_of(checkpoint)
    if arms is None:
        page = geometry_json(target, ranks)
        page["drafters"] = [drafter_json(drafter_of(read_checkpoint(name)), ranks) for name in drafts]
        click.echo(json.dumps(page, indent=2) if as_json else geometry_table(page))
        return
    settings = ServerSettings(
        tensor_parallel_size=ranks,
        memory_fraction=memory_fraction,
        pool_tokens=pool_tokens,
        kv_dtype=kv_dtype,
        context_length=context,
        chunked_prefill=chunked_prefill,
        max_running_requests=max_running,
        page_size=page_size,
    )
    sizing = _flags(flags)
    asked = Asked(
        target=target,
        engine=engine,
        arms=[ArmAsked(name, spec, drafter, settings, sizing) for name, spec, drafter in parse_arms(arms)],
        machine=machine,
        available=given.available,
        weights_bytes=given.weights,
        lengths=[_tokens(part) for part in lengths.split(",")],
        concurrency=_counts(at),
        acceptance=given.al,
        measured=given.measured,
        maximise_at=_counts(at)[0],
    )
    plan = make_plan(asked)
    click.echo(json.dumps(plan_json(plan), indent=2) if as_json else plan_tables(plan))


SETTINGS = (
    "memory_fraction",
    "kv_dtype",
    "context",
    "max_running",
    "chunked_prefill",
    "pool_tokens",
    "page_size",
)
OF_A_MODEL = ("engine", "arms", "drafts", "tp", "lengths", "at", "flags")


@dataclass(frozen=True)
class Given:
    """What the command line knows beside the model: hardware, memory, acceptance, measured speeds."""

    machine: Machine | None
    available: int | None
    weights: int | None
    al: dict[str, float]
    measured: dict[str, float]


def _report(path: Path) -> dict[str, object]:
    file = path / "report.json" if path.is_dir() else path
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"this report cannot be read: {error}", where=str(file)) from None
    if not isinstance(found, dict):
        raise UsageError("this is no report.json", where=str(file))
    return found


def _lengths(texts: tuple[str, ...]) -> dict[str, float]:
    """Acceptance lengths: as given, or 1 + the rates by position that engines print."""
    found: dict[str, float] = {}
    for text in texts:
        name, _, value = text.partition("=")
        if "," not in value:
            found |= _pairs((text,), "--al")
            continue
        try:
            rates = [float(part) for part in value.split(",")]
        except ValueError:
            raise UsageError(f"`--al {text}`: write --al ARM=AL, or --al ARM=RATE,RATE,...") from None
        found[name] = from_unconditional(rates)
    return found


def _pairs(texts: tuple[str, ...], option: str) -> dict[str, float]:
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        try:
            found[name] = float(value)
        except ValueError:
            equals = ""
        if not equals or not found[name] > 0:
            raise UsageError(f"`{option} {text}`: write {option} ARM=NUMBER")
    return found


def _flags(texts: tuple[str, ...]) -> dict[str, object]:
    found: dict[str, object] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        found[name.removeprefix("--").replace("_", "-")] = value if equals else True
    return found


def _tokens(text: str) -> int:
    try:
        return parse_tokens(text.strip())
    except ValueError as error:
        raise UsageError(f"--lengths: {error}") from None


def _counts(text: str) -> list[int]:
    try:
        counts = [int(part) for part in text.split(",")]
    except ValueError:
        counts = []
    if not counts or min(counts) < 1:
        raise UsageError(f"`--at {text}`: write numbers of requests, such as 1,2,4")
    return counts
