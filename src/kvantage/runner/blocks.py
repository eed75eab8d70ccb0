"""Blocks of boots: each starts every arm's server once, in an order that cancels a drift of the machine."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from kvantage.ledger import Ledger
from kvantage.phases import ChainPlan
from kvantage.runner.prepared import Prepared
from kvantage.runner.way import PreparedArm
from kvantage.study.design import Order

T = TypeVar("T")

LONG_PHASES = frozenset(("sweep", "cold", "repeat"))
"""What an arm that can no longer win is spared by `until.long_phases: in_race`."""


@dataclass(frozen=True)
class Work:
    """One boot that is to be done. `spared` are chains that this arm is not given, being out of the race."""

    arm: PreparedArm
    block: int
    plans: tuple[ChainPlan, ...]
    spared: tuple[ChainPlan, ...] = ()
    is_recheck: bool = False
    is_closing: bool = False

    @property
    def name(self) -> str:
        """The arm's name."""
        return self.arm.settings.name


def in_order(arms: Sequence[T], block: int, order: Order, seed: int) -> list[T]:
    """The arms of a block in the order of their boots.

    `abba` is the study file's order in even blocks and the reverse in odd ones, so that over two blocks
    every arm stands in the same place on average and a drift that is linear in time cancels; `randomised`
    is a shuffle by the study's seed and the block, the same whenever it is asked for.
    """
    chosen = list(arms)
    if order == "abba" and block % 2:
        chosen.reverse()
    elif order == "randomised":
        random.Random(f"{seed}:order:{block}").shuffle(chosen)
    return chosen


class Blocks:
    """What is still to be measured, block by block, as the ledger stands."""

    def __init__(self, prepared: Prepared, ledger: Ledger) -> None:
        self._prepared = prepared
        self._ledger = ledger
        study = prepared.study
        self.plans = tuple(plan for plan in prepared.plans if not plan.closing)
        self.closing = tuple(plan for plan in prepared.plans if plan.closing)
        self.fingerprints = {plan.name: plan.fingerprint(study) for plan in prepared.plans}

    def work(self, block: int, out: Sequence[str] = ()) -> list[Work]:
        """The boots of a block that are still to do, in the block's order; arms that are `out` of the race
        without their long phases where the study says so.
        """
        study = self._prepared.study
        spares = study.until is not None and study.until.long_phases == "in_race"
        work = []
        for arm in in_order(self._prepared.arms, block, study.order, study.seed):
            name, fingerprint = arm.settings.name, arm.settings.fingerprint()
            missing = [
                plan
                for plan in self.plans
                if not self._ledger.is_complete(fingerprint, block, plan.name, self.fingerprints[plan.name])
            ]
            spare = spares and name in out and name != study.control_arm
            spared = [plan for plan in missing if spare and LONG_PHASES & set(plan.phases)]
            given = tuple(plan for plan in missing if plan not in spared)
            if missing:
                work.append(Work(arm, block, given, tuple(spared)))
        return work

    def has_begun(self, block: int) -> bool:
        """True when a chain of that block was measured whole already."""
        return any(
            self._ledger.is_complete(
                arm.settings.fingerprint(), block, plan.name, self.fingerprints[plan.name]
            )
            for arm in self._prepared.arms
            for plan in self.plans
        )

    def closing_due(self) -> tuple[ChainPlan, ...]:
        """The closing chains that were not run since the last measurement that they rest on."""
        control = self._control()
        if control is None:
            return ()
        study = self._prepared.study
        arms = [arm.fingerprint() for arm in study.every_arm()]
        due = []
        for plan in self.closing:
            seen = [
                self.fingerprints[each.name] for each in self.plans if set(each.phases) & set(plan.phases)
            ]
            rests_on: Mapping[str, Sequence[str]] = dict.fromkeys(arms, seen)
            mine = self.fingerprints[plan.name]
            if not self._ledger.is_closed(control.settings.fingerprint(), plan.name, mine, rests_on):
                due.append(plan)
        return tuple(due)

    def closing_boot(self, block: int) -> Work | None:
        """One more boot of the control for what closes the study; None when nothing is due."""
        control, due = self._control(), self.closing_due()
        return Work(control, block, due, is_closing=True) if control is not None and due else None

    def with_closing(self, work: list[Work]) -> list[Work]:
        """The study's last block: where it ends with the control, what closes the study is done there too."""
        if not work or work[-1].name != self._prepared.study.control_arm:
            return work
        return [*work[:-1], replace(work[-1], plans=(*work[-1].plans, *self.closing))]

    def _control(self) -> PreparedArm | None:
        control = self._prepared.study.control_arm
        return next((arm for arm in self._prepared.arms if arm.settings.name == control), None)
