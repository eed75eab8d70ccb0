"""What a run would do: commands and environment, blocks and phases, the time, what it could tell apart.

Starts nothing.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from kvantage.cli.plain import clock
from kvantage.phases import ChainPlan
from kvantage.runner import Clock, Prepared, PreparedArm, assume, fitting, in_order
from kvantage.study import Study

POWER_WORDS = "in four of five such studies"


def dry_run(prepared: Prepared) -> str:
    """The text of `--dry-run`."""
    study = prepared.study
    estimate = Clock(assume(prepared.arms[0].settings.model))
    most = study.most_boots
    boots = f"{study.boots} to {most} boots" if most > study.boots else _boots(most)
    lines = [f"{study.name}: {len(prepared.arms)} arms x {boots}, one server at a time", ""]
    for arm in prepared.arms:
        lines += _arm(arm, is_control=arm.settings.name == study.control_arm)
    plans = [plan for plan in prepared.plans if not plan.closing]
    closing = [plan for plan in prepared.plans if plan.closing]
    dropped: list[ChainPlan] = []
    if study.budget is not None:
        share = study.budget / (len(prepared.arms) + bool(closing))
        plans, dropped = fitting(plans, estimate, share)
    lines.append("each arm is given, in this order" + (", at each boot" if most > 1 else ""))
    lines += [_plan(plan, estimate) for plan in plans]
    if closing:
        lines.append(f"and the control {study.control_arm}, when all arms are measured")
        lines += [_plan(plan, estimate) for plan in closing]
    block_s = len(prepared.arms) * estimate.arm_s(plans)
    closing_s = estimate.arm_s(closing)
    blocks = _blocks_in_time(study, block_s, closing_s)
    if most > 1:
        lines += ["", *_order(prepared, blocks, block_s)]
    total = blocks * block_s + closing_s
    least = f" ({clock(study.boots * block_s + closing_s)} at least)" if blocks > study.boots else ""
    lines += ["", f"about {clock(total)} in all{least} ({estimate.basis})"]
    if study.budget is not None:
        lines += _budget(study, dropped, blocks, estimate)
    lines += ["", *_tells_apart(study, blocks)]
    lines += [f"note: {note}" for note in (*prepared.notes, *study.warnings())]
    return "\n".join(lines)


def _boots(number: int) -> str:
    return f"{number} boot{'s' if number > 1 else ''}"


def _arm(arm: PreparedArm, *, is_control: bool) -> list[str]:
    head = f"arm {arm.settings.name}" + (" (the control)" if is_control else "")
    env = [f"  {name}={shlex.quote(value)}" for name, value in sorted(arm.launch.env.items())]
    notes = [f"  note: {note}" for note in arm.launch.notes]
    commands = [f"  {line}" for line in arm.how]
    return [head, *env, *commands, *notes, ""]


def _plan(plan: ChainPlan, estimate: Clock) -> str:
    loads = ", ".join(
        f"{load.phase} {load.workload}: {load.waves} x {load.concurrency} requests of about"
        f" {load.prompt_tokens:,} tokens, {load.output_tokens:,} out"
        for load in plan.loads
    )
    return f"  {plan.name:<14} {loads}; about {clock(estimate.chain_s(plan))}"


def _blocks_in_time(study: Study, block_s: float, closing_s: float) -> int:
    """Whole blocks that are expected to end within the budget and `until.max_hours`, and at least one."""
    limits = [] if study.budget is None else [study.budget]
    if study.until and study.until.max_hours is not None:
        limits.append(study.until.max_hours * 3600)
    if not limits:
        return study.most_boots
    return max(1, min(study.most_boots, int((min(limits) - closing_s) // block_s)))


def _order(prepared: Prepared, blocks: int, block_s: float) -> list[str]:
    """A line a block with its arms in order, and when the study looks at its intervals."""
    study = prepared.study
    arms = [arm.settings.name for arm in prepared.arms]
    lines = [f"blocks of boots ({study.order}), each about {clock(block_s)}"]
    for block in range(study.most_boots):
        what = " -> ".join(in_order(arms, block, study.order, study.seed))
        late = "" if block < blocks else "  (not begun: out of time)"
        lines.append(f"  {block + 1}  {what}{late}")
    if study.until:
        lines.append(
            f"from block {study.boots} on a look after each: it ends when differences of"
            f" {study.until.margin:.1%} are decided at {study.until.confidence:.0%}"
        )
    return lines


def _budget(study: Study, dropped: Sequence[ChainPlan], blocks: int, estimate: Clock) -> list[str]:
    assert study.budget is not None
    fits = "everything fits"
    if dropped:
        fits = "does not fit:"
    elif blocks < study.most_boots:
        fits = f"{blocks} of {study.most_boots} blocks fit"
    lines = [f"budget {clock(study.budget)}: {fits}"]
    return lines + [f"  {plan.name} (about {clock(estimate.chain_s(plan))} an arm)" for plan in dropped]


def _tells_apart(study: Study, boots: int) -> list[str]:
    """The smallest difference that so many boots would tell, under published boot noises."""
    from kvantage.analysis.boot_noise import AUTOTUNED, PINNED
    from kvantage.analysis.stats import minimum_detectable_ratio

    if boots < 2:
        return [
            "what it could tell apart: differences within this evening's boots only. Boots of one arm were"
            f" seen to lie {PINNED.words}, and {AUTOTUNED.words} ({AUTOTUNED.source}). `boots: 3` tells more."
        ]
    lines = [f"what {boots} boots an arm could tell apart ({POWER_WORDS}, at 95 %), for boots that differ as"]
    for noise in (PINNED, AUTOTUNED):
        ratio = minimum_detectable_ratio(boots, noise.sd)
        lines.append(f"  {ratio - 1:>6.1%}  {noise.words} ({noise.source})")
    if study.until and boots < study.until.max_boots:
        lines.append("  (for the blocks that are expected to fit)")
    return lines
