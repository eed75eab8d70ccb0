"""A study file's arms as the planner asks for them."""

from __future__ import annotations

from collections.abc import Mapping

from kvantage.core import ArmSettings, UsageError
from kvantage.planner.checkpoint import read_checkpoint
from kvantage.planner.drafts import Drafter, drafter_of
from kvantage.planner.geometry import read_geometry
from kvantage.planner.machine import Machine
from kvantage.planner.plan import ArmAsked, Asked
from kvantage.study import Study


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
    at = concurrency[0]
    length = document
    if policy:
        at = policy.maximise.concurrency or (1 if policy.maximise.phase == "short" else at)
        length = 1024 if policy.maximise.phase == "short" else document
    least = policy.min_sessions if policy else None
    return Asked(
        target=target,
        engine=study.engine.name,
        arms=[
            ArmAsked(arm.name, arm.speculation, _drafter(arm), arm.settings, arm.flags) for arm in settings
        ],
        machine=machine,
        available=available,
        weights_bytes=weights_bytes,
        lengths=[document * times + output for times in (1, 2, 4)],
        concurrency=sorted({1, *concurrency}),
        acceptance=acceptance or {},
        measured=measured or {},
        maximise_at=at,
        at_length=length,
        min_sessions=(least.count, least.tokens) if least else None,
    )


def _drafter(arm: ArmSettings) -> Drafter | None:
    """The drafter of an arm; None where there is none, or none to be read: that arm is refused by itself."""
    if not arm.speculation.draft:
        return None
    try:
        return drafter_of(read_checkpoint(arm.speculation.draft, arm.speculation.draft_revision))
    except UsageError:
        return None
