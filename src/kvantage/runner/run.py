"""The order of boots and chains: what is still to do, when to stop, what happens when an arm fails."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.error import URLError

from kvantage.client import Client, Senders
from kvantage.core import ArmFailed, Observer
from kvantage.core.columns import StudyData
from kvantage.ledger import Ledger, read_study
from kvantage.phases import Bench, ChainPlan, recheck
from kvantage.runner.allowance import Allowance
from kvantage.runner.blocks import Blocks, Work
from kvantage.runner.boot import Stopping, booted, fail_boot
from kvantage.runner.cache import prove_cache
from kvantage.runner.estimate import Clock, assume
from kvantage.runner.foretell import write_predictions
from kvantage.runner.prepared import Prepared
from kvantage.study import Study
from kvantage.version import __version__

if TYPE_CHECKING:
    from kvantage.analysis.sequential import Look

OVER_BUDGET = "it does not fit into the study's budget"
RECHECK_AFTER_S = 3600.0
"""Results of the control that are older than this are re-checked when something new is measured."""


def look(data: StudyData, number: int) -> Look:
    """What the analysis says after so many blocks; loaded late, since it takes scipy."""
    from kvantage.analysis import sequential

    return sequential.look(data, number)


@dataclass
class Outcome:
    """What a run came to: arms that failed, with why, and whether anything was measured."""

    folder: Path
    measured: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    kept: list[str] = field(default_factory=list)


async def run_study(
    prepared: Prepared,
    ledger: Ledger,
    observer: Observer,
    stopping: Stopping | None = None,
    senders: Senders | None = None,
) -> Outcome:
    """Measure what the ledger does not hold yet. Raises CancelledError when it is interrupted.

    `senders` say which processes send; this one alone where left out.

    An arm that fails is written down with its log's own words, and the others go on.
    """
    return await _Run(prepared, ledger, observer, stopping or Stopping(asyncio.Event()), senders).go()


class _Run:
    def __init__(
        self,
        prepared: Prepared,
        ledger: Ledger,
        observer: Observer,
        stopping: Stopping,
        senders: Senders | None,
    ) -> None:
        self.prepared = prepared
        self.study: Study = prepared.study
        self.ledger = ledger
        self.observer = observer
        self.stopping = stopping
        self.senders = senders
        self.clock = Clock(assume(prepared.arms[0].settings.model))
        self.outcome = Outcome(ledger.folder)
        self.blocks = Blocks(prepared, ledger)
        self.time = Allowance(self.study, self.clock, self.blocks.closing)
        self.todo: dict[int, list[Work]] = {}
        self.unbootable: dict[str, str] = {}
        self.out: tuple[str, ...] = ()

    async def go(self) -> Outcome:
        self.todo = {block: self.blocks.work(block) for block in range(self.study.most_boots)}
        self._note_kept()
        first = self._begin()
        if first is not None or any(self.todo.values()):
            await write_predictions(self.prepared, self.ledger)
        for note in self.prepared.notes:
            self.ledger.event("serving", text=note)
            if self.study.attach:
                self.observer.on("warning", text=note)
        try:
            await self._all(first)
        finally:
            await self.prepared.way.close()
        return self.outcome

    async def _all(self, first: Work | None) -> None:
        """The control's re-check, then block after block until it is enough, then what closes the study."""
        if first is not None:
            await self._boots([first], until=math.inf)
        begun = 0
        for block in range(self.study.most_boots):
            if self.todo[block] and not self._may_begin(block):
                break
            await self._block(block)
            begun = block + 1
            if await self._is_enough(begun):
                break
        self.todo.clear()
        if closing := self.blocks.closing_boot(begun):
            await self._close(closing)

    async def _close(self, closing: Work) -> None:
        """What closes the study, unless there is no time left for any of it."""
        left = self.time.left_s()
        until = math.inf if left is None else time.monotonic() + left - self.clock.boot_s()
        if not any(self.time.fits(plan, until) for plan in closing.plans):
            for plan in closing.plans:
                self._skip(closing, plan, OVER_BUDGET)
            return
        await self._boots([closing], until)

    async def _block(self, block: int) -> None:
        is_last = block + 1 == self.study.most_boots
        work = self.blocks.work(block, self.out)
        work = self.blocks.with_closing(work) if is_last else work
        if not work:
            return
        boots = [(one.name, block, [plan.name for plan in one.plans]) for one in work if one.plans]
        self.observer.on("block", number=block, most=self.study.most_boots, boots=boots)
        for one in work:
            for plan in one.spared:
                self._skip(one, plan, "the arm can no longer win (until.long_phases: in_race)")
        self.todo[block] = []
        await self._boots([one for one in work if one.plans], until=None)

    async def _boots(self, work: Sequence[Work], until: float | None) -> None:
        """Boot after boot; without `until` each may take its equal share of what is left of the budget."""
        for place, one in enumerate(work):
            later = work[place + 1 :]
            if reason := self.unbootable.get(one.name):
                for plan in one.plans:
                    self._skip(one, plan, f"its server does not start: {reason}")
                continue
            end = time.monotonic() + self.time.share_s(1 + len(later)) if until is None else until
            async with Client() as client:
                await self._boot(one, client, later, end)

    def _note_kept(self) -> None:
        """Arms of which nothing is missing in any block that there is work for."""
        work = [one for block in range(self.study.boots) for one in self.todo[block]]
        waiting = {one.name for one in work}
        names = [arm.settings.name for arm in self.prepared.arms]
        self.outcome.kept += [name for name in names if name not in waiting]

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

    def _begin(self) -> Work | None:
        """Put the study in force and say what is to do; returns the control's re-check, where one is due."""
        work = [one for block in range(self.study.boots) for one in self.todo[block]]
        work = work or next(filter(None, self.todo.values()), [])
        first = self._recheck() if work else None
        work = [first, *work] if first else work
        chains = dict(self.blocks.fingerprints)
        for one in work:
            chains.update({plan.name: plan.fingerprint(self.study) for plan in one.plans})
        self.ledger.begin(
            self.study.to_json(), self.study.control_arm, self.study.every_arm(), chains, __version__
        )
        self.time.spent_before_s = self.ledger.spent_s([arm.fingerprint() for arm in self.study.every_arm()])
        self.observer.on(
            "plan",
            arms=[(one.name, one.block, [plan.name for plan in one.plans]) for one in work],
            kept=list(self.outcome.kept),
            estimate_s=self.time.later_s(work),
            basis=self.clock.basis,
        )
        return first

    # when it is enough

    async def _is_enough(self, begun: int) -> bool:
        """Whether the study may stop after so many blocks: looked at from the fewest boots on.

        Where the next block is there already, this one was looked at in an earlier run.
        """
        is_there = begun < self.study.most_boots and not self.todo[begun]
        if self.study.until is None or begun < self.study.boots or is_there:
            return False
        data = await asyncio.to_thread(self._first_blocks, begun)
        seen = await asyncio.to_thread(look, data, begun)
        self.out = seen.out
        known = any(event["kind"] == "look" and event.get("number") == begun for event in data.events)
        if not known or self.outcome.measured:
            told = {"decided": seen.decided, "undecided": list(seen.undecided), "out": list(seen.out)}
            self.ledger.event("look", number=begun, text=seen.words, **told)
            self.observer.on("look", number=begun, decided=seen.decided, words=seen.words)
        return bool(seen.decided)

    def _first_blocks(self, number: int) -> StudyData:
        """The ledger's whole blocks: without what was measured of the one that was broken off."""
        data = read_study(self.ledger.folder)
        return replace(
            data,
            windows=tuple(window for window in data.windows if window.key.block < number),
            boots=tuple(boot for boot in data.boots if boot.block < number),
        )

    def _may_begin(self, block: int) -> bool:
        """Whether a block is begun: the first, and one that was begun before, always; any other only when
        it is expected to end in time, since half a block compares nothing.
        """
        bootable = [one for one in self.blocks.work(block, self.out) if one.name not in self.unbootable]
        if block == 0 or self.blocks.has_begun(block) or self.time.fits_whole(bootable):
            return True
        needed, left = self.time.later_s(bootable), self.time.hours_left_s() or 0.0
        text = (
            f"block {block + 1} of {self.study.most_boots} was not begun: it takes about"
            f" {needed / 60:.0f} min, and {max(left, 0) / 60:.0f} min are left"
        )
        self.ledger.event("blocks", number=block, text=text)
        self.observer.on("warning", text=text)
        return False

    def _skip(self, one: Work, plan: ChainPlan, reason: str) -> None:
        for load in plan.loads:
            workload = f"{load.workload}@{load.concurrency}"
            fingerprint = one.arm.settings.fingerprint()
            self.ledger.skip(fingerprint, one.block, load.phase, workload, reason)
            self.observer.on(
                "skip",
                arm=one.name,
                block=one.block,
                chain=plan.name,
                phase=load.phase,
                workload=workload,
                reason=reason,
            )

    # one boot

    async def _boot(self, one: Work, client: Client, later: Sequence[Work], until: float) -> None:
        began = time.monotonic()
        ready = False
        try:
            async with booted(
                self.study,
                one.arm,
                one.block,
                way=self.prepared.way,
                ledger=self.ledger,
                client=client,
                senders=self.senders,
                observer=self.observer,
                stopping=self.stopping,
                closing=one.is_closing,
            ) as bench:
                ready = True
                self.clock.note_boot(time.monotonic() - began)
                await self._measure(bench, one, later, until)
        except ArmFailed as error:
            self.outcome.failed[one.name] = error.message
            if not ready:
                self.unbootable[one.name] = error.message

    async def _measure(self, bench: Bench, one: Work, later: Sequence[Work], until: float) -> None:
        try:
            flushes: bool | None = None
            for place, plan in enumerate(one.plans):
                self._tell_left(one.plans[place:], later)
                if not self.time.fits(plan, until):
                    self._skip(one, plan, OVER_BUDGET)
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
        rest = self.time.chains_s(plans) + self.time.later_s(later)
        rest += sum(self.time.later_s(work) for work in self.todo.values())
        basis = self.clock.basis
        if self.study.until:
            basis += f"; if all {self.study.most_boots} blocks are needed"
        self.observer.on("left", seconds=rest, basis=basis)
