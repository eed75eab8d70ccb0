"""Studies with a known truth for the page: one in which every phase ran, one whose every text is hostile."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from kvantage.analysis import analyse
from kvantage.analysis.exactness.judge import Asked, judge
from kvantage.analysis.findings import Findings
from kvantage.core import Speculation
from kvantage.core.columns import SkippedPhase
from tests.analysis.builder import STUDY, Request, StudyBuilder, drafting, short, two_arms, wave
from tests.analysis.exactness.toy import Toy
from tests.analysis.test_foretold import findings as foretold
from tests.analysis.test_ladder import rung
from tests.analysis.test_sweep import loop
from tests.report.test_clocks import watched

EVIL = (
    "</script><img src=x onerror=\"document.title='owned'\"><style>*{display:none}</style>{{7*7}}"
    "&lt;&#x3c;'\"`<svg onload=alert(1)>\u202egnp.exe ]]><!--"
)

EVERY_PHASE: dict[str, Any] = {
    **STUDY,
    "name": "every-phase",
    "notice": "Made up, to try the page.",
    "phases": {
        **STUDY["phases"],
        "ttft": {"lengths": [500, 1000, 4000], "documents": 3, "output_tokens": 4},
        "sweep": {"prompts": {"code": "builtin"}, "concurrency": [1, 2, 4], "rounds": 4, "output_tokens": 65},
    },
}


def every_phase() -> StudyBuilder:
    """A control, MTP with two boots of the short phase, a DFlash that failed; void cells and a queue."""
    builder = two_arms(EVERY_PHASE)
    for arm in ("none", "mtp"):
        drafter = Speculation(method="mtp", drafts=3) if arm == "mtp" else None
        builder.arm(arm, drafter, pool=8400 if arm == "mtp" else 9000, block=1)
        for workload in ("code", "prose"):
            rate = 20.3 if arm == "none" else 30.2
            made = short([rate, rate * 1.01, rate * 0.99], *(() if workload == "code" else ("prose",)))
            made = made if arm == "none" else drafting(made, 3, 2.5)
            builder.cell(arm, "short", workload, 1, made, block=1, positions=_positions(arm, made))
        for length in (500, 1000, 4000):
            seconds = length / (4000 if arm == "none" else 3200) + 0.05
            builder.cell(arm, "ttft", str(length), 1, rung(length, seconds))
        for concurrency in (1, 2, 4):
            rate = 20.0 if arm == "none" else 36.0 / concurrency**0.7
            made = loop(rate, concurrency)
            builder.cell(arm, "sweep", "code", concurrency, made if arm == "none" else drafting(made, 3, 2.4))
        builder.cell(
            arm,
            "cold",
            "documents",
            3,
            [replace(each, queue_s=0.05 * n) for n, each in enumerate(wave(15.0, 3, 33))],
        )
    builder.arm(
        "dflash",
        Speculation(method="dflash", draft="./d", drafts=5),
        status="failed",
        reason="the server ended with status 1 while it booted",
        log_lines=("RuntimeError: no kernel",),
    )
    builder.skipped.append(SkippedPhase("mtp", 0, "probes", "image", "the model has no eyes"))
    return builder


def bare() -> StudyBuilder:
    """As little as a study can have: one request a cell, so no interval anywhere, one rung, one place."""
    builder = StudyBuilder(EVERY_PHASE)
    for arm in ("none", "mtp"):
        builder.arm(arm, Speculation(method="mtp", drafts=3) if arm == "mtp" else None)
        made = short([20.0])
        builder.cell(arm, "short", "code", 1, made if arm == "none" else drafting(made, 3, 2.5))
        builder.cell(arm, "ttft", "500", 1, rung(500, 0.2, jitter=(1.0,)))
        made = loop(20.0, 1, rounds=1)
        builder.cell(arm, "sweep", "code", 1, made if arm == "none" else drafting(made, 3, 2.4))
    return builder


def _positions(arm: str, made: list[Request]) -> tuple[float, ...] | None:
    if arm == "none":
        return None
    steps = sum(each.steps or 0 for each in made)
    accepted = sum(each.accepted or 0 for each in made)
    first = min(steps, accepted * 0.5)
    return (first, accepted * 0.3, accepted - first - accepted * 0.3)


@cache
def everything() -> Findings:
    """That study with clocks, exactness and predictions: every section of the page."""
    return _with_the_rest(analyse(watched(every_phase().data())), "mtp")


def _with_the_rest(found: Findings, arm: str) -> Findings:
    """Exactness and predictions, which are not in the requests, for the arm of that name."""
    toy = Toy(gaps=(0.0, 0.0625)).ask("none", 3).ask(arm, 2, seed=1)
    exact = judge(toy.data(), Asked("none", ("none", arm), {"none": False, arm: True}))
    told = foretold().foresight
    arms = tuple(replace(each, arm=arm if each.arm == "mtp" else each.arm) for each in told.arms)
    return replace(found, exactness=exact, foresight=replace(told, arms=arms))


@cache
def hostile() -> Findings:
    """The same study where every text that a server, a prompt or a file may choose is markup."""
    builder = every_phase()
    data = builder.data()
    wicked = {"none": "none", "mtp": EVIL, "dflash": '=HYPERLINK("http://e")'}
    boots = tuple(
        replace(
            boot,
            arm=wicked[boot.arm],
            log_lines=(EVIL,),
            reason=EVIL if boot.reason else None,
            facts=boot.facts
            and replace(
                boot.facts,
                engine_version=EVIL,
                warnings=(EVIL,),
                resolved={EVIL: EVIL if boot.arm == "mtp" else "plain"},
                speculation={"method": EVIL} if boot.arm == "mtp" else {},
            ),
            provenance={"command": [EVIL, "serve"], "env": {"A": EVIL}, "hardware": {EVIL: EVIL}},
        )
        for boot in data.boots
    )
    columns = data.requests
    names = [wicked[name] for name in columns.arm.tolist()]
    workloads = [EVIL if name == "prose" else name for name in columns.workload.tolist()]

    def key(old: Any) -> Any:
        return replace(old, arm=wicked[old.arm], workload=EVIL if old.workload == "prose" else old.workload)

    as_text = columns.arm.astype
    width = f"U{len(EVIL)}"
    arm, workload = as_text(width), columns.workload.astype(width)
    arm[:], workload[:] = names, workloads
    prompts = columns.prompt_id.astype(f"U{len(EVIL) + 80}")
    prompts[:] = [f"{EVIL}{name}" for name in columns.prompt_id.tolist()]
    data = replace(
        data,
        study={**data.study, "name": EVIL, "notice": EVIL, "model": {"path": EVIL, "revision": EVIL}},
        arms=tuple(replace(each, name=wicked[each.name]) for each in data.arms),
        boots=boots,
        windows=tuple(replace(each, key=key(each.key), notes=(EVIL,)) for each in data.windows),
        requests=replace(
            columns,
            arm=arm,
            workload=workload,
            prompt_id=prompts,
            content=tuple(EVIL for _ in columns.content),
            reasoning=tuple(EVIL for _ in columns.reasoning),
            checks=tuple({**each, **({"why": EVIL} if each else {})} for each in columns.checks),
        ),
        skipped=tuple(replace(each, arm=wicked[each.arm], reason=EVIL) for each in data.skipped),
        events=({"at": "2026-11-30T00:00:00Z", "kind": EVIL, "arm": EVIL, "text": EVIL},),
    )
    return _with_the_rest(analyse(watched(data)), EVIL)
