"""Whether a policy asks for what its study measures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvantage.study.policy import Policy
from kvantage.study.source import Loc, Problem
from kvantage.study.words import no_such

if TYPE_CHECKING:
    from kvantage.study.study import Study

NAMED = ("short", "sweep")
"""Phases whose prompts have names."""


def policy_checks(study: Study, policy: Policy) -> list[Problem]:
    """What the policy asks for that the study does not measure, each problem at its place."""
    aim = policy.maximise
    at: Loc = ("policy", "maximise")
    if aim.phase not in study.phase_names:
        return [Problem((*at, "phase"), f"the study does not run the phase `{aim.phase}`")]
    found = _weights(study, policy)
    if not found:
        found = _place(
            study, at, aim.phase, aim.workload, aim.concurrency, weighted=policy.weights is not None
        )
    for name in ("min_user_speed", "max_ttft"):
        limit = getattr(policy, name)
        if limit is None:
            continue
        where: Loc = ("policy", name)
        phase = limit.phase or aim.phase
        if phase not in study.phase_names:
            found.append(Problem((*where, "phase"), f"the study does not run the phase `{phase}`"))
        elif phase != aim.phase or limit.workload or limit.concurrency:
            same = phase == aim.phase
            home = aim.workload or next(iter(policy.weights or ()), None)
            workload = limit.workload or (home if same else None)
            concurrency = limit.concurrency or (aim.concurrency if same else None)
            found += _place(study, where, phase, workload, concurrency)
    if policy.worst_exactness is not None and "exactness" not in study.phase_names:
        found.append(Problem(("policy", "worst_exactness"), "the study does not run the phase `exactness`"))
    return found


def _weights(study: Study, policy: Policy) -> list[Problem]:
    aim = policy.maximise
    if policy.weights is None:
        return []
    at: Loc = ("policy", "weights")
    if aim.phase not in NAMED:
        return [Problem(at, f"`{aim.phase}` has one workload: leave them out")]
    if aim.workload is not None:
        hint = f"Leave out `workload`, or give `{aim.workload}` a weight."
        return [Problem(at, "stand in place of `workload` of `maximise`", hint)]
    prompts = getattr(study.phases, aim.phase).prompts
    return [
        Problem((*at, name), no_such("workload", name, prompts))
        for name in policy.weights
        if name not in prompts
    ]


def _place(
    study: Study, at: Loc, phase: str, workload: str | None, concurrency: int | None, weighted: bool = False
) -> list[Problem]:
    found: list[Problem] = []
    if phase in NAMED:
        prompts = getattr(study.phases, phase).prompts
        if workload is None and len(prompts) > 1 and not weighted:
            found.append(Problem(at, f"`workload` is missing: one of {', '.join(prompts)}"))
        elif workload is not None and workload not in prompts:
            found.append(Problem((*at, "workload"), no_such("workload", workload, prompts)))
    elif workload is not None:
        found.append(Problem((*at, "workload"), f"`{phase}` has one workload: leave it out"))
    if phase == "short":
        if concurrency not in (None, 1):
            found.append(Problem((*at, "concurrency"), "short prompts are asked one at a time: leave it out"))
        return found
    source = "sweep" if phase == "sweep" else "cold"
    section = getattr(study.phases, source)
    offered = tuple(section.concurrency) if section else ()
    listed = ", ".join(map(str, offered))
    if concurrency is None and len(offered) > 1:
        found.append(Problem(at, f"`concurrency` is missing: one of {listed}"))
    elif concurrency is not None and concurrency not in offered:
        said = f"is not measured; `phases.{source}.concurrency` is {listed}"
        found.append(Problem((*at, "concurrency"), said))
    return found
