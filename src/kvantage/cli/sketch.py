"""A study file from a few answers: its text, with comments that say what to change."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from kvantage.core import Method, UsageError
from kvantage.engines.vocabulary import SETTINGS, SPECULATION
from kvantage.planner.machine import Machine, hardware_names, read_machine

DRAFTS: dict[str, int] = {"ngram": 5, "draft_model": 4, "eagle3": 3, "mtp": 3, "dflash": 7}
"""Drafts a step where nobody says: the checkpoints' usual; a DFlash block of 8 is 7."""
NEEDS_DRAFT = ("draft_model", "eagle3", "dflash")
FORM = "METHOD[:DRAFTER][:K], such as ngram, mtp:3, eagle3:org/drafter:3"
OTHER = "other"
SESSIONS = 4


@dataclass(frozen=True)
class Drafter:
    """An arm that speculates."""

    method: Method
    drafts: int
    draft: str | None = None


@dataclass(frozen=True)
class Answers:
    """What a study is made of. `hardware` is a name of the planner's, or None for none of them."""

    model: str
    engine: str
    hardware: str | None = None
    drafters: Sequence[Drafter] = field(default_factory=tuple)
    document_tokens: int = 16_000
    at_once: Sequence[int] = (1, 2, 4)
    context_length: int = 32_768


def read_drafters(text: str) -> tuple[Drafter, ...]:
    """Drafters of a list with commas. Raises UsageError with the form that they have."""
    return tuple(_drafter(part.strip()) for part in text.split(",") if part.strip() not in ("", "none"))


def _drafter(text: str) -> Drafter:
    method, *rest = text.split(":")
    known = method.strip().replace("-", "_").lower()
    if known not in DRAFTS:
        raise UsageError(f"`{method}` is not a way of drafting; there are {', '.join(DRAFTS)}", hint=FORM)
    drafts = int(rest.pop()) if rest and rest[-1].isdigit() else DRAFTS[known]
    draft = ":".join(rest) or None
    if known in NEEDS_DRAFT and not draft:
        raise UsageError(f"`{text}`: {known} needs a drafter, its folder or its name", hint=FORM)
    if known not in NEEDS_DRAFT and draft:
        raise UsageError(f"`{text}`: {known} has no drafter of its own", hint=FORM)
    return Drafter(next(one for one in _METHODS if one == known), drafts, draft)


_METHODS: tuple[Method, ...] = ("ngram", "draft_model", "eagle3", "mtp", "dflash")


def refusals(answers: Answers) -> list[str]:
    """What that engine cannot do of it, as sentences."""
    found = [
        f"{answers.engine} has no {one.method}; it has {', '.join(_can(answers.engine))}"
        for one in answers.drafters
        if not SPECULATION[one.method].get(answers.engine)
    ]
    machine = _machine(answers)
    if machine is not None and _spread(answers) and not SETTINGS["nodes"].get(answers.engine):
        found.append(f"{answers.engine} on {machine.title}: kvantage starts it on one machine only")
    return found


def _can(engine: str) -> list[str]:
    return [method for method in DRAFTS if SPECULATION[method].get(engine)]


def _machine(answers: Answers) -> Machine | None:
    return read_machine(answers.hardware) if answers.hardware in hardware_names() else None


def _spread(answers: Answers) -> int:
    """How many machines serve one model together; 0 for one alone."""
    machine = _machine(answers)
    return machine.ranks if machine is not None and answers.hardware == "two-gb10" else 0


def sketch(answers: Answers, kvantage: str) -> str:
    """The text of study.yaml. `kvantage` is the version that writes it."""
    machine, spread = _machine(answers), _spread(answers)
    on = f" on {machine.title}" if machine else ""
    session = answers.document_tokens + 2 * 1024
    lines = [
        f"# {answers.model} on {answers.engine}{on}: is a drafter worth its memory?",
        f"# Written by `kvantage init` {kvantage}. Every field: docs/study-file.md",
        "",
        f"model: {_quoted(answers.model)}",
        f"engine: {answers.engine}",
    ]
    if spread:
        lines += [
            "hosts: [spark1, spark2]          # names in your known_hosts; the first serves requests",
        ]
    lines += ["", "common:                          # the same in every arm"]
    if spread:
        lines += [f"  nodes: {spread}", f"  tensor_parallel_size: {machine.ranks if machine else spread}"]
    elif machine is not None and machine.ranks > 1:
        lines += [f"  tensor_parallel_size: {machine.ranks}"]
    if SETTINGS["memory_fraction"].get(answers.engine):
        lines += ["  memory_fraction: 0.90          # of the device: what a drafter takes, the pool loses"]
    lines += [
        f"  context_length: {answers.context_length}",
        f"  max_running_requests: {max(answers.at_once)}",
        "",
        "control: none",
        "arms:",
        "  none: {}",
    ]
    lines += [f"  {name}:\n    speculation: {_speculation(one)}" for name, one in _named(answers.drafters)]
    lines += [
        "",
        "phases:                          # leave one out, and it is not run",
        "  probes: {}                     # questions with one right answer",
        "  short: {}                      # code and prose, one stream; `prompts: ./mine.jsonl` for yours",
        f"  cold: {{document_tokens: {answers.document_tokens}, concurrency: {list(answers.at_once)},"
        " output_tokens: 512}",
        "  repeat: {output_tokens: 1024}  # the same documents, now from the cache",
        "",
        "policy:                          # decided before the data are seen",
        "  maximise: {phase: short, workload: code}",
        f"  min_sessions: {{count: {min(SESSIONS, max(answers.at_once))}, tokens: {session}}}",
        "",
        "boots: 1                         # 3 or more tell how much one start differs from the next",
        "budget: 2h                       # what does not fit is said before anything starts",
    ]
    return "\n".join(lines) + "\n"


def _named(drafters: Sequence[Drafter]) -> list[tuple[str, Drafter]]:
    found: dict[str, Drafter] = {}
    for one in drafters:
        name = one.method if one.method not in found else f"{one.method}-{one.drafts}"
        while name in found:
            name += "b"
        found[name] = one
    return list(found.items())


def _speculation(one: Drafter) -> str:
    draft = f", draft: {_quoted(one.draft)}" if one.draft else ""
    return f"{{method: {one.method}{draft}, drafts: {one.drafts}}}"


def _quoted(text: str) -> str:
    plain = re.fullmatch(r"[A-Za-z_./~][\w./~@+-]*", text)
    doubled = text.replace("'", "''")
    return text if plain else f"'{doubled}'"
