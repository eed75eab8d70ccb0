"""From a study to what will be run: arms and their engines checked, commands known, nothing started."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kvantage.core import ArmSettings, UsageError
from kvantage.engines import engine_named
from kvantage.hosts.local import LocalHost
from kvantage.phases import ChainPlan, chains_of
from kvantage.runner.attached import Attached, confounded
from kvantage.runner.launched import Launched
from kvantage.runner.remote import Remote
from kvantage.runner.scripted import Scripted
from kvantage.runner.way import PreparedArm, Way, study_folder
from kvantage.study import Study


@dataclass(frozen=True)
class Selection:
    """Which part of a study is run: None is everything. The control is among the arms unless `alone`."""

    arms: tuple[str, ...] | None = None
    phases: tuple[str, ...] | None = None
    alone: bool = False


@dataclass(frozen=True)
class Prepared:
    """A study that can be run here. `arms` and `plans` are those chosen; the study stays whole.

    `notes` are said to the person and kept with the results.
    """

    study: Study
    arms: tuple[PreparedArm, ...]
    plans: tuple[ChainPlan, ...]
    way: Way
    notes: tuple[str, ...] = ()


def prepare(
    study: Study, host: LocalHost, selection: Selection | None = None, *, interactive: bool | None = None
) -> Prepared:
    """Choose arms and phases, and check each arm against its engine and its way to a server.

    `interactive` says whether somebody can be asked to do something; None looks at the terminal. Raises
    UsageError that names every arm that cannot be started, with what would work.
    """
    chosen = selection or Selection()
    names = study.arm_names if chosen.arms is None else study.select_arms(chosen.arms)
    phases = study.phase_names if chosen.phases is None else study.select_phases(chosen.phases)
    if not chosen.alone:  # every ratio is against the control: without it there is nothing to tell
        names = tuple(name for name in study.arm_names if name in names or name == study.control_arm)
    way = way_of(study, host, interactive=interactive)
    problems: list[str] = []
    arms = []
    for name in names:
        settings = study.arm_settings(name)
        engine = engine_named(settings.engine)
        found = way.problems(engine, settings)
        problems += [f"{study.where('arms', name)}: {problem}" for problem in found]
        if not found:
            arms.append(way.prepare(engine, settings))
    if problems:
        raise UsageError("\n".join(problems))
    _all_different([arm.settings for arm in arms], study)
    plans = tuple(plan for plan in chains_of(study) if any(phase in phases for phase in plan.phases))
    return Prepared(study, tuple(arms), plans, way, notes_on(study))


def way_of(study: Study, host: LocalHost, *, interactive: bool | None = None) -> Way:
    """How the servers of a study are come by."""
    folder = study_folder(study)
    if study.attach:
        return Attached(study.attach, folder, host)
    if study.hosts:
        return Remote(study.hosts)
    if study.boot.own:
        return Scripted(study.boot, folder, host, interactive=interactive)
    return Launched(host)


def notes_on(study: Study) -> tuple[str, ...]:
    """By whose settings the servers serve, and what must stand beside results of servers not started here."""
    if not study.attach and not study.boot.own_settings:
        return ("controlled: kvantage starts every arm with the same pins",)
    served = (
        "as served: each server has its owner's settings; what differs between arms is printed, not pinned"
        if study.served == "as_served"
        else "controlled, as the study says: kvantage did not start these servers and cannot prove their pins"
    )
    return (served, *confounded({name: one.url for name, one in study.attach.items()}))


def _all_different(arms: Sequence[ArmSettings], study: Study) -> None:
    seen: dict[str, str] = {}
    for arm in arms:
        fingerprint = arm.fingerprint()
        if fingerprint in seen:
            raise UsageError(
                f"arms `{seen[fingerprint]}` and `{arm.name}` are the same configuration",
                where=study.where("arms", arm.name),
                hint="change one, or leave one out: to see boot noise, raise `boots`, or give one of them a"
                " variable that nothing reads (`env: {AGAIN: 'yes'}`)",
            )
        seen[fingerprint] = arm.name
