"""The order of boots and chains: what is still to do, when to stop, what happens when an arm fails."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from urllib.error import URLError

from kvantage import __version__
from kvantage.client import Client
from kvantage.core import ArmFailed, Observer
from kvantage.ledger import Ledger
from kvantage.phases import Bench, ChainPlan, recheck
from kvantage.runner.boot import Stopping, booted, fail_boot
from kvantage.runner.cache import prove_cache
from kvantage.runner.estimate import Clock, assume
from kvantage.runner.prepared import Prepared
from kvantage.runner.way import PreparedArm
from kvantage.study import Study

RECHECK_AFTER_S = 3600.0
"""Results of the control that are older than this are re-checked when something new is measured."""


@dataclass
class Outcome:
    """What a run came to: arms that failed, with why, and whether anything was measured."""

    folder: Path
    measured: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    kept: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Work:
    """One boot that is to be done."""

    arm: PreparedArm
    block: int
    plans: tuple[ChainPlan, ...]
    is_recheck: bool = False


async def run_study(
    prepared: Prepared,
    ledger: Ledger,
    observer: Observer,
    stopping: Stopping | None = None,
) -> Outcome:
    """Measure what the ledger does not hold yet. Raises CancelledError when it is interrupted.

    An arm that fails is written down with its log's own words, and the others go on.
    """
    return await _Run(prepared, ledger, observer, stopping or Stopping(asyncio.Event())).go()


class _Run:
    def __init__(self, prepared: Prepared, ledger: Ledger, observer: Observer, stopping: Stopping) -> None:
        self.prepared = prepared
        self.study: Study = prepared.study
        self.ledger = ledger
        self.observer = observer
        self.stopping = stopping
        self.clock = Clock(assume(prepared.arms[0].settings.model))
        self.outcome = Outcome(ledger.folder)
        self.began = time.monotonic()
        self.over_budget: set[str] = set()

    async def go(self) -> Outcome:
        work = self._work()
        self._begin(work)
        for note in self.prepared.notes:
            self.ledger.event("serving", text=note)
            if self.study.attach:
                self.observer.on("warning", text=note)
        try:
            await self._boots(work)
        finally:
            await self.prepared.way.close()
        return self.outcome

    async def _boots(self, work: Sequence[Work]) -> None:
        for place, one in enumerate(work):
            later = work[place + 1 :]
            until = time.monotonic() + self._share_s(1 + len(later))
            async with Client() as client:
                await self._boot(one, client, later, until)

    def _work(self) -> list[Work]:
        """The boots still to do, in the study's order, the control's re-check first."""
        fingerprints = {plan.name: plan.fingerprint(self.study) for plan in self.prepared.plans}
        work = []
        for block in range(self.study.boots):
            for arm in self.prepared.arms:
                missing = tuple(
                    plan
                    for plan in self.prepared.plans
                    if not self.ledger.is_complete(
                        arm.settings.fingerprint(), block, plan.name, fingerprints[plan.name]
                    )
                )
                if missing:
                    work.append(Work(arm, block, missing))
                elif arm.settings.name not in self.outcome.kept:
                    self.outcome.kept.append(arm.settings.name)
        if work and (check := self._recheck()):
            work.insert(0, check)
        return work

    def _recheck(self) -> Work | None:
        """A short look at the control, where its results are kept and may have grown old."""
        if self.study.control_arm not in self.outcome.kept:
            return None
        control = next(arm for arm in self.prepared.arms if arm.settings.name == self.study.control_arm)
        plan = recheck.plan(self.study)
        changed = self.ledger.arms_changed([arm.settings for arm in self.prepared.arms])
        age_s = self.ledger.age_s(control.settings.fingerprint())
        if plan is None or not (changed or age_s > RECHECK_AFTER_S):
            return None
        return Work(control, 0, (plan,), is_recheck=True)

    def _begin(self, work: Sequence[Work]) -> None:
        chains = {plan.name: plan.fingerprint(self.study) for plan in self.prepared.plans}
        for one in work:
            chains.update({plan.name: plan.fingerprint(self.study) for plan in one.plans})
        self.ledger.begin(
            self.study.to_json(), self.study.control_arm, self.study.every_arm(), chains, __version__
        )
        self.observer.on(
            "plan",
            arms=[(one.arm.settings.name, one.block, [plan.name for plan in one.plans]) for one in work],
            kept=list(self.outcome.kept),
            estimate_s=sum(self.clock.arm_s(one.plans) for one in work),
            basis=self.clock.basis,
        )

    # the budget

    def _left_s(self) -> float | None:
        if self.study.budget is None:
            return None
        return self.study.budget - (time.monotonic() - self.began)

    def _share_s(self, boots_left: int) -> float:
        """Seconds that the boot about to start may take: its equal share of what is left of the budget."""
        left = self._left_s()
        return math.inf if left is None else left / boots_left

    def _fits(self, plan: ChainPlan, until: float) -> bool:
        """Whether a chain is run: not when an earlier arm had to leave it out, nor when it would end late."""
        if plan.name not in self.over_budget and time.monotonic() + self.clock.chain_s(plan) > until:
            self.over_budget.add(plan.name)
        return plan.name not in self.over_budget

    def _skip(self, one: Work, plan: ChainPlan, reason: str) -> None:
        for load in plan.loads:
            workload = f"{load.workload}@{load.concurrency}"
            fingerprint = one.arm.settings.fingerprint()
            self.ledger.skip(fingerprint, one.block, load.phase, workload, reason)
            self.observer.on(
                "skip",
                arm=one.arm.settings.name,
                block=one.block,
                phase=load.phase,
                workload=workload,
                reason=reason,
            )

    # one boot

    async def _boot(self, one: Work, client: Client, later: Sequence[Work], until: float) -> None:
        name = one.arm.settings.name
        began = time.monotonic()
        try:
            async with booted(
                self.study,
                one.arm,
                one.block,
                way=self.prepared.way,
                ledger=self.ledger,
                client=client,
                observer=self.observer,
                stopping=self.stopping,
            ) as bench:
                self.clock.note_boot(time.monotonic() - began)
                await self._measure(bench, one, later, until)
        except ArmFailed as error:
            self.outcome.failed[name] = error.message

    async def _measure(self, bench: Bench, one: Work, later: Sequence[Work], until: float) -> None:
        try:
            flushes: bool | None = None
            for place, plan in enumerate(one.plans):
                self._tell_left(one.plans[place:], later)
                if not self._fits(plan, until):
                    self._skip(one, plan, "it does not fit into the study's budget")
                    continue
                if flushes is None and not plan.after_boot:
                    flushes = await self._prove_cache(bench)
                if plan.flush_first and flushes:
                    await bench.engine.flush_cache(bench.server)
                await self._chain(bench, one, plan)
            self._tell_left((), later)
            self.ledger.boot_ok(bench.boot)
            if bench.arm not in self.outcome.measured:
                self.outcome.measured.append(bench.arm)
        except ArmFailed as error:
            fail_boot(bench, error)
            raise
        except (URLError, ConnectionError, TimeoutError) as error:
            # a call besides the measured requests (a flush, a count of tokens) met a server that is gone
            failure = bench.death()
            fail_boot(bench, failure)
            raise failure from error
        except asyncio.CancelledError:
            self.ledger.boot_interrupted(bench.boot, "it was stopped by the person")
            raise

    async def _prove_cache(self, bench: Bench) -> bool:
        proof = await prove_cache(bench)
        self.ledger.event(
            "cache",
            arm=bench.arm,
            block=bench.boot.block,
            caches=proof.caches,
            flushes=proof.flushes,
            words=proof.words,
        )
        if proof.flushes is not True:
            self.observer.on("warning", text=f"arm {bench.arm}: {proof.words}")
        return proof.flushes is True

    async def _chain(self, bench: Bench, one: Work, plan: ChainPlan) -> None:
        self.observer.on("chain", arm=bench.arm, block=one.block, chain=plan.name)
        chain = self.ledger.open_chain(bench.boot, plan.name, plan.fingerprint(self.study))
        bench.chain = chain
        began = time.monotonic()
        try:
            await plan.run(bench)
        except (ArmFailed, URLError, ConnectionError, TimeoutError) as error:
            self.ledger.chain_broken(chain, error.message if isinstance(error, ArmFailed) else str(error))
            raise
        except asyncio.CancelledError:
            self.ledger.chain_broken(chain, "it was stopped by the person")
            raise
        self.ledger.chain_complete(chain)
        self.clock.note_chain(plan, time.monotonic() - began)
        for load in plan.loads:
            skipped = partial(self.ledger.unskip, bench.boot.fingerprint, one.block, load.phase)
            skipped(f"{load.workload}@{load.concurrency}")

    def _tell_left(self, plans: Sequence[ChainPlan], later: Sequence[Work]) -> None:
        rest = sum(self.clock.chain_s(plan) for plan in self._still(plans))
        rest += sum(self.clock.arm_s(self._still(one.plans)) for one in later)
        self.observer.on("left", seconds=rest, basis=self.clock.basis)

    def _still(self, plans: Sequence[ChainPlan]) -> list[ChainPlan]:
        return [plan for plan in plans if plan.name not in self.over_budget]
