"""How much time a study has: its budget, its hours, what of its work fits, and how long the rest takes."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from kvantage.phases import ChainPlan
from kvantage.runner.blocks import Work
from kvantage.runner.estimate import Clock
from kvantage.study import Study


class Allowance:
    """The budget is of one run of kvantage; `until.max_hours` is of the study, over all of its runs.

    `clock` learns while the study runs; `closing` are the chains that close it. `spent_before_s` are the
    seconds of its earlier runs.
    """

    def __init__(self, study: Study, clock: Clock, closing: Sequence[ChainPlan]) -> None:
        self._study = study
        self._clock = clock
        self._closing = closing
        self._began = time.monotonic()
        self._over: set[str] = set()
        self.spent_before_s = 0.0

    def left_s(self) -> float | None:
        """Seconds until the budget is spent; None without one."""
        if self._study.budget is None:
            return None
        return self._study.budget - (time.monotonic() - self._began)

    def hours_left_s(self) -> float | None:
        """Seconds until the budget or `until.max_hours` is spent, the sooner of them; None without either."""
        lefts = [] if (left := self.left_s()) is None else [left]
        if self._study.until and self._study.until.max_hours is not None:
            spent = self.spent_before_s + time.monotonic() - self._began
            lefts.append(self._study.until.max_hours * 3600 - spent)
        return min(lefts, default=None)

    def share_s(self, boots_left: int) -> float:
        """Seconds that the boot about to start may take: its equal share of what is left of the budget, where
        what closes the study counts as one more boot.
        """
        left = self.left_s()
        return math.inf if left is None else left / (boots_left + bool(self._closing))

    def fits(self, plan: ChainPlan, until: float) -> bool:
        """Whether a chain is run: not when an earlier arm had to leave it out, nor when it would end late."""
        if plan.name not in self._over and time.monotonic() + self._clock.chain_s(plan) > until:
            self._over.add(plan.name)
        return plan.name not in self._over

    def fits_whole(self, work: Sequence[Work]) -> bool:
        """Whether a block of boots is expected to end in time, what closes the study allowed for."""
        left = self.hours_left_s()
        if left is None:
            return True
        closing = self._clock.arm_s(self._still(self._closing))
        return self.later_s(work) <= left - min(closing, left / (1 + len(work)))

    def later_s(self, work: Sequence[Work]) -> float:
        """Seconds that these boots are expected to take."""
        return sum(self._clock.arm_s(self._still(one.plans)) for one in work)

    def chains_s(self, plans: Sequence[ChainPlan]) -> float:
        """Seconds that these chains are expected to take on a server that runs."""
        return sum(self._clock.chain_s(plan) for plan in self._still(plans))

    def _still(self, plans: Sequence[ChainPlan]) -> list[ChainPlan]:
        return [plan for plan in plans if plan.name not in self._over]
