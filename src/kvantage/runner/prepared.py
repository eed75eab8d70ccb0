"""From a study to what will be run: arms and their engines checked, commands known, nothing started."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from kvantage.core import ArmSettings, Engine, Host, Launch, UsageError
from kvantage.engines import engine_named
from kvantage.phases import ChainPlan, chains_of
from kvantage.study import Study


@dataclass(frozen=True)
class Selection:
    """Which part of a study is run: None is everything. The control is always among the arms."""

    arms: tuple[str, ...] | None = None
    phases: tuple[str, ...] | None = None


@dataclass(frozen=True)
class PreparedArm:
    """One arm with its engine. `launch` is the command as it would be with `port`."""

    settings: ArmSettings
    engine: Engine
    launch: Launch
    port: int


@dataclass(frozen=True)
class Prepared:
    """A study that can be run here. `arms` and `plans` are those chosen; the study stays whole."""

    study: Study
    arms: tuple[PreparedArm, ...]
    plans: tuple[ChainPlan, ...]


def prepare(study: Study, host: Host, selection: Selection | None = None) -> Prepared:
    """Choose arms and phases, and check each arm against its engine and this machine.

    Raises UsageError that names every arm that cannot be started, with what would work.
    """
    chosen = selection or Selection()
    names = study.arm_names if chosen.arms is None else study.select_arms(chosen.arms)
    phases = study.phase_names if chosen.phases is None else study.select_phases(chosen.phases)
    # every ratio is against the control: without it there is nothing to tell
    names = tuple(name for name in study.arm_names if name in names or name == study.control_arm)
    facts = host.facts()
    problems: list[str] = []
    arms = []
    for name in names:
        settings = study.arm_settings(name)
        engine = engine_named(settings.engine)
        found = engine.problems(settings, facts)
        problems += [f"{study.where('arms', name)}: {problem}" for problem in found]
        if not found:
            port = host.free_port()
            arms.append(PreparedArm(settings, engine, engine.command(settings, facts, port), port))
    if problems:
        raise UsageError("\n".join(problems))
    _all_different([arm.settings for arm in arms], study)
    plans = tuple(plan for plan in chains_of(study) if any(phase in phases for phase in plan.phases))
    return Prepared(study, tuple(arms), plans)


def _all_different(arms: Sequence[ArmSettings], study: Study) -> None:
    seen: dict[str, str] = {}
    for arm in arms:
        fingerprint = arm.fingerprint()
        if fingerprint in seen:
            raise UsageError(
                f"arms `{seen[fingerprint]}` and `{arm.name}` are the same configuration",
                where=study.where("arms", arm.name),
                hint="change one, or leave one out: to see boot noise, raise `boots` instead",
            )
        seen[fingerprint] = arm.name


def with_new_port(arm: PreparedArm, host: Host) -> PreparedArm:
    """The same arm on a port that is free now."""
    port = host.free_port()
    return replace(arm, port=port, launch=arm.engine.command(arm.settings, host.facts(), port))


def session_id() -> str:
    """Names this session's re-check of the control."""
    return time.strftime("%Y%m%dT%H%M%S", time.gmtime())
