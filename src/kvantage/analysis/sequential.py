"""A look at a study that may stop: which arms are told apart, which cannot win any more, what is undecided.

The looks come after each block of boots and their error is spent beforehand (`spending`), in equal parts on
every pair of arms (Bonferroni): so the chance that any pair's interval misses at any look is at most the
whole error, and every decision below follows from intervals that hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kvantage.analysis import asked, wording
from kvantage.analysis.asked import Objective, Term
from kvantage.analysis.constraints import Evidence, Kept, keep
from kvantage.analysis.margin import Margin, best_first, between, margins_of
from kvantage.analysis.objective import figure
from kvantage.analysis.spending import Level, Spending
from kvantage.analysis.stats import judge
from kvantage.analysis.studied import Studied, measure_arms
from kvantage.core.columns import StudyData
from kvantage.core.reading import Reading


@dataclass(frozen=True)
class Look:
    """What a look found. `number` is the boots of each arm that it was taken after.

    decided    every comparison that the policy needs is decided: the leader is ahead of each other arm or
               within the margin of it
    undecided  what is not, as `'mtp' against 'none'`
    out        arms that cannot win any more
    words      all of it in a sentence
    """

    number: int
    decided: bool
    undecided: tuple[str, ...]
    out: tuple[str, ...]
    words: str


def look(data: StudyData, number: int) -> Look:
    """Look at a study after `number` boots of each arm. Nothing is decided before the first look's number.

    Without a policy each arm is compared with the control, on short prompts where there are any.
    """
    studied = measure_arms(data)
    spending = asked.spending(data.study) or Spending(max(number, 1), 0.95, min(3, max(number, 1)))
    policy = asked.read_policy(data.study)
    objective = policy.objective if policy else headline(studied)
    if objective is None:
        return Look(number, False, ("no cell to compare by",), (), "Nothing to compare yet.")
    if number < spending.first:
        waiting = f"after {number} of at least {spending.first} boots an arm"
        return Look(number, False, (waiting,), (), f"Nothing is decided {waiting}.")
    names = list(studied.measured)
    figures = {arm: figure(objective, studied.measured[arm]) for arm in names}
    kept = {arm: keep(policy, _evidence(studied, arm, data.control)) if policy else () for arm in names}
    fit = {arm: cells for arm, cells in studied.measured.items() if figures[arm].known}
    pairs = max(1, len(names) * (len(names) - 1) // 2)
    shared = Spending(spending.last, 1 - (1 - spending.confidence) / pairs, spending.first)
    level = Level(1 - shared.alpha(number))
    margins = margins_of(data.requests, objective, fit, level, least=2)
    margin = asked.margin(data.study)
    if policy is None:
        return _against_control(number, data.control, names, margins, margin)
    out = _out(names, figures, kept, margins, data.control)
    race = [arm for arm in names if arm not in out]
    if not race:
        unmeasured = tuple(f"{wording.named(arm)}: {out[arm]}" for arm in names if not figures[arm].known)
        said = "; ".join(f"{wording.named(arm)} is out: {why}" for arm, why in out.items())
        return Look(number, not unmeasured, unmeasured, tuple(out), f"No arm can win: {said}.")
    leader = best_first({arm: figures[arm] for arm in race}, margins)[0]
    undecided = [
        f"{wording.named(arm)} against {wording.named(leader)}"
        for arm in race
        if arm != leader and not _settled(between(leader, arm, margins), margin)
    ]
    rivals = [arm for arm in race if arm != leader]
    undecided += [
        f"{wording.named(arm)}: {each.words}"
        for arm in race
        for each in kept[arm]
        if each.state == "not certain" and each.name != "min_sessions" and (rivals or out)
    ]
    said = _words(number, leader, rivals, out, undecided, margins, margin)
    return Look(number, not undecided, tuple(undecided), tuple(out), said)


def headline(studied: Studied) -> Objective | None:
    """What is compared where the study states no policy: a user's speed on the first short prompts, else on
    the first cell that has a speed.
    """
    keys = [each.cell.key for cells in studied.measured.values() for each in cells]
    speeds = [key for key in keys if key.phase in ("short", "repeat", "sweep", "cold")]
    if not speeds:
        return None
    order = ("short", "repeat", "sweep", "cold")
    first = min(speeds, key=lambda key: (order.index(key.phase), key.concurrency))
    return Objective("decode_tok_s", (Term(first.phase, first.workload, first.concurrency),))


def _evidence(studied: Studied, arm: str, control: str) -> Evidence:
    boots = len(studied.booted[arm])
    return Evidence(studied.pools[arm], studied.measured[arm], None, arm == control, boots)


def _out(
    names: Sequence[str],
    figures: Mapping[str, Reading],
    kept: Mapping[str, Sequence[Kept]],
    margins: Mapping[tuple[str, str], Margin],
    control: str,
) -> dict[str, str]:
    """Arms that cannot win, and why: no figure, a constraint broken, or behind one that surely may win.

    An exactness that is not measured yet bars nothing here: it is told at the study's end.
    """
    out: dict[str, str] = {}
    for arm in names:
        barred = [each for each in kept[arm] if each.bars and each.name != "worst_exactness"]
        if not figures[arm].known:
            out[arm] = figures[arm].missing or "not measured"
        elif barred:
            out[arm] = barred[0].words
    sure = [
        arm
        for arm in names
        if arm not in out and all(each.state == "kept" for each in kept[arm] if each.name != "min_sessions")
    ]
    for arm in names:
        ahead = [
            other
            for other in sure
            if other != arm
            and (found := between(other, arm, margins)) is not None
            and judge(found.inference.low, found.inference.high) == "above"
        ]
        if arm not in out and ahead:
            out[arm] = f"behind {wording.named(ahead[0])}"
    return out


def _settled(margin: Margin | None, matters: float) -> bool:
    return margin is not None and margin.standing(matters) != "inconclusive"


def _against_control(
    number: int,
    control: str,
    names: Sequence[str],
    margins: Mapping[tuple[str, str], Margin],
    matters: float,
) -> Look:
    others = [arm for arm in names if arm != control]
    undecided = [arm for arm in others if not _settled(between(arm, control, margins), matters)]
    told = [f"{wording.named(arm)} {_spans(between(arm, control, margins))}" for arm in others]
    state = f"not decided: {wording.listed(undecided)}" if undecided else "all decided"
    said = f"After {number} boots an arm, against {wording.named(control)}: {', '.join(told)}; {state}."
    open_pairs = tuple(f"{wording.named(arm)} against {wording.named(control)}" for arm in undecided)
    return Look(number, not undecided, open_pairs, (), said)


def _words(
    number: int,
    leader: str,
    rivals: Sequence[str],
    out: Mapping[str, str],
    undecided: Sequence[str],
    margins: Mapping[tuple[str, str], Margin],
    matters: float,
) -> str:
    parts = [f"After {number} boots an arm {wording.named(leader)} leads"]
    for arm in rivals:
        found = between(leader, arm, margins)
        tied = found is not None and found.standing(matters) == "tied"
        state = f"tied within {wording.percent(matters * 100)}" if tied else "not decided"
        parts.append(f"{wording.named(arm)} is {state} ({_spans(found)})")
    parts += [f"{wording.named(arm)} is out: {why}" for arm, why in out.items()]
    parts.append("not decided yet" if undecided else "decided")
    return "; ".join(parts) + "."


def _spans(margin: Margin | None) -> str:
    if margin is None or margin.ratio.value is None:
        return "no ratio"
    text = wording.times(margin.ratio.value)
    if margin.ratio.low is None or margin.ratio.high is None:
        return f"{text}, no interval"
    return f"{text}, {margin.ratio.low:.2f} to {margin.ratio.high:.2f}"


__all__ = ["Look", "headline", "look"]
