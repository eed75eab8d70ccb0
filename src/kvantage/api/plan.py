"""Predict from Python what `kvantage plan` predicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kvantage.core import ServerSettings, UsageError
from kvantage.planner.arms import parse_arms
from kvantage.planner.checkpoint import read_checkpoint
from kvantage.planner.geometry import geometry_of
from kvantage.planner.machine import read_machine
from kvantage.planner.memory import GIB
from kvantage.planner.page import plan_json
from kvantage.planner.plan import ArmAsked, ArmPlan, Asked, Plan, make_plan
from kvantage.planner.pools import DEFAULT
from kvantage.planner.studies import asked_of
from kvantage.study import Study, load_study

ENDINGS = (".yaml", ".yml")


class Planned:
    """A prediction: `arms` by name, `best` with its reason, `to_json()` as the page documents it.

    Every figure is a Reading whose source is `predicted` or `computed`; nothing of it is measured.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    @property
    def arms(self) -> dict[str, ArmPlan]:
        """What should happen in each arm."""
        return {arm.name: arm for arm in self.plan.arms}

    @property
    def best(self) -> str | None:
        """The arm to serve with, None where none stands out; `plan.best.reason` says why."""
        return self.plan.best.arm

    def to_json(self) -> dict[str, Any]:
        """As `kvantage plan --json` prints it: see docs/planner.md."""
        return plan_json(self.plan)

    def __repr__(self) -> str:
        return f"Planned({', '.join(self.arms)}; best: {self.best})"

    def _repr_html_(self) -> str:
        from kvantage.api.show import plan_html

        return plan_html(self.plan)


def plan(
    what: Study | str | Path,
    *,
    hardware: str | None = None,
    arms: str | None = None,
    engine: str = DEFAULT,
    lengths: Sequence[int] = (8192, 32768, 131072),
    at: Sequence[int] = (1, 2, 4),
    acceptance: Mapping[str, float] | None = None,
    measured: Mapping[str, float] | None = None,
    available_gib: float | None = None,
    weights_gib: float | None = None,
    **settings: Any,
) -> Planned:
    """Predict each arm's pool, sessions, break-even and speed. Nothing is started; no GPU is needed.

    `what` is a study (or its file), whose arms and sizes are taken; or a model (a folder, a config.json, a
    hub name) with `arms` such as "none,mtp:3,dflash:./drafter:5:fp8", `engine`, `lengths` of sessions in
    tokens, `at` requests at once, and `settings` of the server (`kv_dtype="fp8"`, `memory_fraction=0.9`: the
    fields of core.ServerSettings). `hardware` is a name (two-gb10, h100, ...) or a file. `acceptance` and
    `measured` give, by arm, an acceptance length and tok/s at one stream, to calibrate by.

    Raises UsageError for what cannot be read or planned.
    """
    machine = read_machine(hardware) if hardware else None
    available = None if available_gib is None else int(available_gib * GIB)
    weights = None if weights_gib is None else int(weights_gib * GIB)
    if isinstance(what, Study) or str(what).endswith(ENDINGS):
        if arms or settings:
            raise UsageError("`arms` and settings are for a model: a study says its own")
        study = what if isinstance(what, Study) else load_study(what, paths_must_exist=False)
        return Planned(make_plan(asked_of(study, machine, available, weights, acceptance, measured)))
    settings.setdefault("tensor_parallel_size", machine.ranks if machine else 1)
    try:
        server = ServerSettings(**settings)
    except TypeError as error:
        raise UsageError(f"no such setting: {error}") from None
    asked = Asked(
        target=geometry_of(read_checkpoint(str(what))),
        engine=engine,
        arms=[ArmAsked(name, spec, drafter, server) for name, spec, drafter in parse_arms(arms or "none")],
        machine=machine,
        available=available,
        weights_bytes=weights,
        lengths=list(lengths),
        concurrency=list(at),
        acceptance=dict(acceptance or {}),
        measured=dict(measured or {}),
        maximise_at=at[0],
    )
    return Planned(make_plan(asked))
