"""A study file's arms as the planner asks for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kvantage.core import ArmSettings, UsageError
from kvantage.planner.checkpoint import read_checkpoint
from kvantage.planner.drafts import Drafter, drafter_of
from kvantage.planner.geometry import read_geometry
from kvantage.planner.machine import Machine, read_machine
from kvantage.planner.memory import GIB
from kvantage.planner.plan import ArmAsked, Asked
from kvantage.planner.work import Short, Work
from kvantage.study import Study
from kvantage.study.simulated import OPTIONS

SIMULATED = "sim"


def asked_of(
    study: Study,
    machine: Machine | None,
    available: int | None = None,
    weights_bytes: int | None = None,
    acceptance: Mapping[str, float] | None = None,
    measured: Mapping[str, float] | None = None,
) -> Asked:
    """What a study asks for: its arms, sessions of 1x, 2x and 4x its documents, concurrencies, policy.

    Raises UsageError where the model cannot be read.
    """
    settings = study.every_arm()
    target = read_geometry(settings[0].model, settings[0].revision)
    phases = study.phases
    answer = phases.repeat or phases.cold or phases.short
    output = answer.output_tokens if answer else 0
    document = phases.cold.document_tokens if phases.cold else 8192
    concurrency = phases.cold.concurrency if phases.cold else (1,)
    policy = study.policy
    options = study.engine.options if study.engine.name == SIMULATED else {}
    given = _Options(options, study)
    window = (given.count("draft_window"), given.count("draft_windowed_layers"))
    hardware = given.text("hardware")
    at = concurrency[0]
    length = document
    if policy:
        at = policy.maximise.concurrency or (1 if policy.maximise.phase == "short" else at)
        length = 1024 if policy.maximise.phase == "short" else document
    least = policy.min_sessions if policy else None
    return Asked(
        target=target,
        engine=given.text("like") or study.engine.name,
        arms=[
            ArmAsked(arm.name, arm.speculation, _drafter(arm, window), arm.settings, arm.flags)
            for arm in settings
        ],
        machine=machine or (read_machine(hardware) if hardware else None),
        available=available if available is not None else given.gib("available_gib"),
        weights_bytes=weights_bytes,
        lengths=[document * times + output for times in (1, 2, 4)],
        concurrency=sorted({1, *concurrency}),
        acceptance={**given.lengths("code"), **(acceptance or {})},
        measured={**given.numbers("measured"), **(measured or {})},
        by_workload=given.by_workload(),
        pools={name: int(tokens) for name, tokens in given.numbers("pools").items()},
        prefill_tok_s=given.number("prefill_tok_s"),
        maximise_at=at,
        at_length=length,
        min_sessions=(least.count, least.tokens) if least else None,
    )


def work_of(study: Study) -> Work:
    """The study's phases in numbers, for a simulation. Probes are left out: there is no answer to judge."""
    phases = study.phases
    short = phases.short
    return Work(
        document_tokens=phases.cold.document_tokens if phases.cold else 0,
        concurrency=phases.cold.concurrency if phases.cold else (),
        waves=phases.cold.waves if phases.cold else 1,
        cold_output=phases.cold.output_tokens if phases.cold else 1,
        repeat_output=phases.repeat.output_tokens if phases.repeat else None,
        short={name: Short(short.warmup, short.repeats, short.output_tokens) for name in short.prompts}
        if short
        else {},
    )


class _Options:
    """The options of `engine: sim`, checked: an unknown one, or one that is no number, is a study error."""

    def __init__(self, options: Mapping[str, Any], study: Study) -> None:
        for name in options:
            if name not in OPTIONS:
                raise study.error(("engine", name), f"the simulated engine has no option `{name}`")
        self.options = options
        self.study = study

    def text(self, name: str) -> str | None:
        value = self.options.get(name)
        return str(value) if value is not None else None

    def number(self, name: str) -> float | None:
        value = self.options.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
            raise self.study.error(("engine", name), f"`{name}` is a number above 0")
        return float(value)

    def gib(self, name: str) -> int | None:
        """A size given in GiB, in bytes."""
        value = self.number(name)
        return int(value * GIB) if value else None

    def count(self, name: str) -> int | None:
        value = self.number(name)
        return int(value) if value else None

    def numbers(self, name: str) -> dict[str, float]:
        """A number an arm."""
        value = self.options.get(name) or {}
        if not isinstance(value, Mapping):
            raise self.study.error(("engine", name), f"`{name}` gives a number for each arm")
        self.study.select_arms([str(arm) for arm in value])
        found = {}
        for arm, one in value.items():
            if isinstance(one, bool) or not isinstance(one, int | float) or one <= 0:
                raise self.study.error(("engine", name, arm), "a number above 0 is needed")
            found[str(arm)] = float(one)
        return found

    def by_workload(self) -> dict[str, dict[str, float]]:
        """Acceptance lengths: a number an arm, or a number an arm and workload."""
        value = self.options.get("acceptance") or {}
        if not isinstance(value, Mapping):
            raise self.study.error(("engine", "acceptance"), "`acceptance` gives a length for each arm")
        self.study.select_arms([str(arm) for arm in value])
        found: dict[str, dict[str, float]] = {}
        for arm, one in value.items():
            lengths = one if isinstance(one, Mapping) else {"": one}
            for workload, length in lengths.items():
                if isinstance(length, bool) or not isinstance(length, int | float) or length < 1:
                    place = ("engine", "acceptance", arm, str(workload))
                    raise self.study.error(place, "an acceptance length is at least 1")
                found.setdefault(str(arm), {})[str(workload)] = float(length)
        return found

    def lengths(self, workload: str) -> dict[str, float]:
        """The acceptance length of each arm for one workload (or its only one)."""
        return {
            arm: lengths.get(workload, next(iter(lengths.values())))
            for arm, lengths in self.by_workload().items()
        }


def _drafter(arm: ArmSettings, window: tuple[int | None, int | None] = (None, None)) -> Drafter | None:
    """The drafter of an arm; None where there is none, or none to be read: that arm is refused by itself."""
    if not arm.speculation.draft:
        return None
    try:
        found = drafter_of(read_checkpoint(arm.speculation.draft, arm.speculation.draft_revision))
        size, layers = window
        return replace(found, window=size, windowed_layers=layers or len(found.layers)) if size else found
    except UsageError:
        return None
