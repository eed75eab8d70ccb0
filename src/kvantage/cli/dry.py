"""What a run would do: each arm's exact command and environment, the phases, the time. Starts nothing."""

from __future__ import annotations

import shlex

from kvantage.cli.plain import clock
from kvantage.phases import ChainPlan
from kvantage.runner import Clock, Prepared, PreparedArm, assume, fitting


def dry_run(prepared: Prepared) -> str:
    """The text of `--dry-run`."""
    study = prepared.study
    estimate = Clock(assume(prepared.arms[0].settings.model))
    boots = len(prepared.arms) * study.boots
    lines = [f"{study.name}: {len(prepared.arms)} arms x {study.boots} boot, one server at a time", ""]
    for arm in prepared.arms:
        lines += _arm(arm, is_control=arm.settings.name == study.control_arm)
    plans = list(prepared.plans)
    dropped: list[ChainPlan] = []
    if study.budget is not None:
        plans, dropped = fitting(plans, estimate, study.budget / boots)
    lines.append("each arm is given, in this order")
    for plan in plans:
        loads = ", ".join(
            f"{load.phase} {load.workload}: {load.waves} x {load.concurrency} requests of about"
            f" {load.prompt_tokens:,} tokens, {load.output_tokens:,} out"
            for load in plan.loads
        )
        lines.append(f"  {plan.name:<14} {loads}; about {clock(estimate.chain_s(plan))}")
    total = boots * estimate.arm_s(plans)
    lines += ["", f"about {clock(total)} in all ({estimate.basis})"]
    if study.budget is not None:
        lines.append(
            f"budget {clock(study.budget)}: " + ("everything fits" if not dropped else "does not fit:")
        )
        lines += [f"  {plan.name} (about {clock(estimate.chain_s(plan))} an arm)" for plan in dropped]
    lines += [f"note: {note}" for note in (*prepared.notes, *study.warnings())]
    return "\n".join(lines)


def _arm(arm: PreparedArm, *, is_control: bool) -> list[str]:
    head = f"arm {arm.settings.name}" + (" (the control)" if is_control else "")
    env = [f"  {name}={shlex.quote(value)}" for name, value in sorted(arm.launch.env.items())]
    notes = [f"  note: {note}" for note in arm.launch.notes]
    commands = [f"  {line}" for line in arm.how]
    return [head, *env, *commands, *notes, ""]
