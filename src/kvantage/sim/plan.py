"""A plan, played: each arm's pool and step times put to work in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from kvantage.planner.acceptance import rate_for
from kvantage.planner.memory import Pool
from kvantage.planner.plan import ArmPlan, Plan
from kvantage.planner.work import Work
from kvantage.sim.clock import PlannerClock
from kvantage.sim.dialects import dialect
from kvantage.sim.replay import DOCUMENTS, SimArm, SimCell, simulate
from kvantage.sim.rules import Rules


@dataclass(frozen=True)
class Played:
    """One arm of a simulated study; `problem` says why there is none of it."""

    name: str
    pool_tokens: int | None = None
    pool_given: bool = False
    cells: tuple[SimCell, ...] = ()
    problem: str | None = None

    def cell(self, phase: str, concurrency: int, workload: str = DOCUMENTS) -> SimCell | None:
        """The cell of that name, or None."""
        return next(
            (
                cell
                for cell in self.cells
                if (cell.phase, cell.concurrency, cell.workload) == (phase, concurrency, workload)
            ),
            None,
        )

    @property
    def wall_s(self) -> float:
        """Virtual time of everything that was asked."""
        return sum(cell.wall_s for cell in self.cells)


@dataclass(frozen=True)
class Candidate:
    """A rule changed, and what that does to one arm's cached wave: a candidate cause, not a finding."""

    change: str
    arm: str
    misses: int
    queued: int
    retractions: int


def play(plan: Plan, work: Work, seed: int = 0) -> tuple[Played, ...]:
    """Simulate every arm of a plan. One without a pool or a step time is left out, with the reason."""
    return tuple(_play(plan, arm, work, seed) for arm in plan.arms)


def arm_of(plan: Plan, arm: ArmPlan) -> SimArm | str:
    """What a simulation of an arm starts from, or why there is none."""
    if arm.refused or arm.demand is None:
        return arm.refused or "it was not planned"
    if arm.steps is None:
        return arm.no_speed or "its step times are not known"
    given = plan.asked.pools.get(arm.name)
    if arm.pool is None and given is None:
        return arm.no_pool or "its pool is not known"
    pool = _pool(arm, given)
    return SimArm(
        arm.name,
        pool.tokens,
        dialect(plan.asked.engine).rules(arm.demand, pool),
        PlannerClock(arm.steps, plan.asked.prefill_tok_s),
        _rates(plan, arm),
    )


def _play(plan: Plan, arm: ArmPlan, work: Work, seed: int) -> Played:
    found = arm_of(plan, arm)
    if isinstance(found, str):
        return Played(arm.name, problem=found)
    given = arm.name in plan.asked.pools
    return Played(arm.name, found.pool_tokens, given, tuple(simulate(found, work, seed)))


def _pool(arm: ArmPlan, given: int | None) -> Pool:
    """The predicted pool, with its tokens as given where they are."""
    if arm.pool is None:
        assert given is not None
        return Pool(given, 1, arm.target_bytes, arm.draft_bytes, given)
    return replace(arm.pool.at, tokens=given) if given else arm.pool.at


def _rates(plan: Plan, arm: ArmPlan) -> dict[str, Sequence[float]]:
    """Conditional rates by workload: of the acceptance lengths given, else those of the arm's prior."""
    drafts = arm.speculation.drafts
    if not drafts:
        return {}
    found: dict[str, Sequence[float]] = {}
    if arm.acceptance:
        found[""] = arm.acceptance.conditional
    for workload, length in plan.asked.by_workload.get(arm.name, {}).items():
        found[workload] = (rate_for(length, drafts),) * drafts
    return found


Change = Callable[[SimArm, Work], tuple[SimArm, Work]]


def _rules(change: Callable[[Rules], Rules]) -> Change:
    return lambda arm, work: (replace(arm, rules=change(arm.rules)), work)


def _pages(tokens: int) -> Change:
    return lambda arm, work: (
        replace(arm, rules=replace(arm.rules, page=tokens), pool_tokens=arm.pool_tokens // tokens * tokens),
        work,
    )


CHANGES: Mapping[str, Change] = {
    "nothing changed": _rules(lambda rules: rules),
    "no slots for drafts": _rules(lambda rules: replace(rules, draft_slots=False)),
    "a whole page of slots a draft": _rules(
        lambda rules: replace(rules, extra_slots=rules.page * rules.drafts)
    ),
    "pages of 64": _pages(64),
    "the whole answer reserved at admission": _rules(lambda rules: replace(rules, reserve=1.0)),
    "half the state slots": _rules(lambda rules: _fewer(rules, 2)),
    "a third of the state slots": _rules(lambda rules: _fewer(rules, 3)),
    "a state kept at the end of a prompt alone": _rules(lambda rules: replace(rules, state_each_chunk=False)),
    "documents 0.5 % longer": lambda arm, work: (
        arm,
        replace(work, document_tokens=int(work.document_tokens * 1.005)),
    ),
    "arrivals 2 s apart": lambda arm, work: (arm, replace(work, apart_s=2.0)),
    "repeats in reverse order": lambda arm, work: (arm, replace(work, reverse_repeats=True)),
}


def _effective(rules: Rules) -> Rules:
    """The same rules without what has no effect under them: a change of that need not be played."""
    plain = Rules()
    if rules.states is None:
        rules = replace(rules, state_each_chunk=plain.state_each_chunk, states_running=plain.states_running)
    if rules.mixed:
        rules = replace(rules, reserve=plain.reserve, reserve_new=plain.reserve_new)
    return rules


def _fewer(rules: Rules, times: int) -> Rules:
    return replace(rules, states=rules.states // times if rules.states is not None else None)


DRAWS = 12


def luck(plan: Plan, work: Work, draws: int = DRAWS) -> dict[str, int]:
    """By arm: in how many draws of acceptance the widest cached wave misses, waits or puts a request back.

    Nothing is changed but the luck of the drafts, and so which request ends first.
    """
    streams = max(work.concurrency, default=1)
    short = replace(work, short={}, concurrency=work.concurrency[-2:])
    found = {}
    for arm in plan.arms:
        made = arm_of(plan, arm)
        if isinstance(made, str):
            continue
        found[arm.name] = 0
        for draw in range(draws if made.rules.drafts else 1):
            cells = simulate(made, short, 7919 * draw)
            found[arm.name] += any(
                cell.misses + cell.queued + cell.retractions > 0
                for cell in cells
                if cell.phase == "repeat" and cell.concurrency == streams
            )
    return found


def candidates(plan: Plan, work: Work, seed: int = 0) -> list[Candidate]:
    """What each change does to the widest cached wave of each arm: which rules can make misses, and where."""
    found = []
    streams = max(work.concurrency, default=1)
    short = replace(
        work, short={}, concurrency=work.concurrency[-2:]
    )  # the wave, and what lay there before it
    for arm in plan.arms:
        made = arm_of(plan, arm)
        if isinstance(made, str):
            continue
        played: dict[str, SimCell | None] = {}
        for name, change in CHANGES.items():
            changed, asked = change(made, short)
            alike = repr((_effective(changed.rules), changed.pool_tokens, asked))
            if alike not in played:
                played[alike] = next(
                    (
                        cell
                        for cell in simulate(changed, asked, seed)
                        if cell.phase == "repeat" and cell.concurrency == streams
                    ),
                    None,
                )
            if cell := played[alike]:
                found.append(Candidate(name, arm.name, cell.misses, cell.queued, cell.retractions))
    return found
