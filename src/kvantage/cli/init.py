"""`kvantage init`: a study file by a few questions, or by flags."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import click

from kvantage.cli.check import summary
from kvantage.cli.sketch import DRAFTS, FORM, OTHER, Answers, Drafter, read_drafters, refusals, sketch
from kvantage.core import UsageError
from kvantage.engines.vocabulary import ENGINES, SPECULATION
from kvantage.planner.checkpoint import Checkpoint, read_checkpoint
from kvantage.planner.geometry import geometry_of
from kvantage.planner.machine import hardware_names
from kvantage.planner.page import geometry_json
from kvantage.study.load import study_from_text
from kvantage.study.units import parse_tokens
from kvantage.version import __version__

ANSWER_TOKENS = 2048
USUAL_CONTEXT = 32_768


@click.command(short_help="Write a study file, by a few questions or by flags.")
@click.argument("path", type=click.Path(path_type=Path), default=Path("study.yaml"), metavar="[FILE]")
@click.option("--model", metavar="MODEL", help="A folder, or a name such as Qwen/Qwen3-8B.")
@click.option("--engine", type=click.Choice(ENGINES), help="What serves it.")
@click.option("--hardware", metavar="NAME", help="On what: a name of `kvantage plan`'s, or `other`.")
@click.option("--drafters", metavar="LIST", help=f"With commas: {FORM}.")
@click.option("--documents", metavar="TOKENS", help="How long your long prompts are. [default: 16k]")
@click.option("--at", "at", metavar="LIST", help="How many requests at once. [default: 1,2,4]")
@click.option("--yes", is_flag=True, help="Ask nothing: take the usual where a flag is not given.")
@click.option("--force", is_flag=True, help="Write over a file that is there.")
def command(
    path: Path,
    model: str | None,
    engine: str | None,
    hardware: str | None,
    drafters: str | None,
    documents: str | None,
    at: str | None,
    yes: bool,
    force: bool,
) -> None:
    """Write a study file with comments: asks for the engine, the model, the hardware and the drafters.

    What a flag says is not asked. The file is checked before it is written; nothing is started.

    \b
      kvantage init
      kvantage init mine.yaml --model Qwen/Qwen3-8B --engine vllm --hardware h100 \\
          --drafters ngram,eagle3:RedHatAI/Qwen3-8B-speculator.eagle3:3 --yes
    """
    if path.exists() and not force:
        raise UsageError("this file is there already", where=str(path), hint="name another, or give --force")
    asks = not yes and sys.stdin.isatty()
    missing = [f"--{name}" for name, one in (("model", model), ("engine", engine)) if one is None]
    if missing and not asks:
        raise UsageError(f"{' and '.join(missing)} must be given where nobody is there to be asked")
    engine = engine or str(click.prompt("Engine", type=click.Choice(ENGINES)))
    model = model or str(click.prompt("Model (a folder, or a name such as Qwen/Qwen3-8B)"))
    known = _checkpoint(model)
    hardware = hardware or (_ask_hardware() if asks else OTHER)
    if hardware not in (*hardware_names(), OTHER):
        names = ", ".join((*hardware_names(), OTHER))
        raise UsageError(f"--hardware: there is no `{hardware}`; there are {names}")
    chosen = _drafters(drafters, engine, known, asks)
    document = _tokens(documents or (click.prompt("Long prompts, in tokens", "16k") if asks else "16k"))
    at_once = _counts(at or (click.prompt("Requests at once", "1,2,4") if asks else "1,2,4"))
    answers = Answers(
        model=_placed(model, path),
        engine=engine,
        hardware=None if hardware == OTHER else hardware,
        drafters=[replace(one, draft=_placed(one.draft, path)) if one.draft else one for one in chosen],
        document_tokens=document,
        at_once=at_once,
        context_length=_context(document, known),
    )
    if found := refusals(answers):
        raise UsageError("; ".join(found))
    text = sketch(answers, __version__)
    study = study_from_text(text, folder=path.parent, name=str(path), paths_must_exist=False)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot be written: {error.strerror}", where=str(path)) from None
    click.echo(summary(study))
    if known is None and not Path(model).expanduser().exists():
        click.echo(f"\nnote: {model} is taken for a name: what it is was not looked up")
    click.echo(f"\n{path} is written. What it would do: kvantage run {path} --dry-run")
    if answers.hardware:
        click.echo(f"What to expect of it:          kvantage plan {path} --hardware {answers.hardware}")


def _placed(model: str, path: Path) -> str:
    """A local folder as the study file must name it, relative to itself; a name as it is."""
    folder = Path(model).expanduser()
    if not folder.is_dir() or model.startswith(("/", "~")):
        return model
    relative = os.path.relpath(folder, path.parent)
    return relative if relative.startswith("..") else f"./{relative}"


def _ask_hardware() -> str:
    return str(click.prompt("Hardware", type=click.Choice([*hardware_names(), OTHER]), default=OTHER))


def _checkpoint(model: str) -> Checkpoint | None:
    """What lies in a local folder; a name is not looked up, since that takes a network."""
    if not Path(model).expanduser().is_dir():
        return None
    return read_checkpoint(model)


def _drafters(given: str | None, engine: str, known: Checkpoint | None, asks: bool) -> tuple[Drafter, ...]:
    """Those of the flag; else asked for; else what needs no further model: n-grams, and MTP where it is."""
    if given is not None:
        return read_drafters(given)
    usual = [method for method in ("ngram", "mtp") if SPECULATION[method].get(engine)]
    if not _has_mtp(known):
        usual.remove("mtp")
    if not asks:
        return read_drafters(",".join(usual))
    click.echo(f"Drafters, with commas: {FORM}.")
    click.echo(f"  this engine has {', '.join(one for one in DRAFTS if SPECULATION[one].get(engine))}")
    while True:
        try:
            return read_drafters(str(click.prompt("Drafters", ",".join(usual) or "none")))
        except UsageError as error:
            click.echo(f"  {error.message}")


def _has_mtp(known: Checkpoint | None) -> bool:
    if known is None:
        return False
    try:
        return bool(geometry_json(geometry_of(known))["mtp"]["declared"])
    except UsageError:
        return False


def _context(document: int, known: Checkpoint | None) -> int:
    """Room for a document and its answer: the usual where it suffices, else the next power of two."""
    needed = document + ANSWER_TOKENS
    context = USUAL_CONTEXT
    while context < needed:
        context *= 2
    longest = known.config.get("max_position_embeddings") if known else None
    if isinstance(longest, int) and longest > 0:
        if needed > longest:
            raise UsageError(
                f"documents of {document:,} tokens do not fit: the model's context is {longest:,}",
                hint="give shorter ones by --documents",
            )
        context = min(context, longest)
    return context


def _tokens(text: str) -> int:
    try:
        return parse_tokens(text.strip())
    except ValueError as error:
        raise UsageError(f"--documents: {error}") from None


def _counts(text: str) -> tuple[int, ...]:
    try:
        counts = tuple(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError:
        counts = ()
    if not counts or min(counts) < 1:
        raise UsageError(f"`--at {text}`: write numbers of requests, such as 1,2,4")
    return counts
