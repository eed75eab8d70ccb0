"""The verdict under the study's policy: which arm, by how much, and what would flip it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from kvantage.analysis import wording
from kvantage.analysis.asked import Policy
from kvantage.analysis.capacity import Pool
from kvantage.analysis.constraints import ADMISSION, Constraint, Kept, constraint_of
from kvantage.analysis.drift import Drift
from kvantage.analysis.margin import Margin, best_first, between
from kvantage.analysis.rivals import Rival, find_rivals
from kvantage.analysis.stats import holm, tied
from kvantage.analysis.verdict_words import (
    Case,
    describe,
    find_flips,
    first_sentence,
    second_sentence,
)
from kvantage.core.reading import Reading

__all__ = [
    "ADMISSION",
    "Candidate",
    "Constraint",
    "RuledOut",
    "Standing",
    "Verdict",
    "decide",
    "describe",
    "rank",
]


@dataclass(frozen=True)
class Candidate:
    """An arm as the policy sees it. `figure` is what is maximised, or missing with the reason; `kept` how it
    stands with each constraint.
    """

    arm: str
    figure: Reading
    pool: Pool
    failed: str | None = None
    kept: tuple[Kept, ...] = ()


@dataclass(frozen=True, slots=True)
class RuledOut:
    """An arm that cannot win, and why."""

    arm: str
    why: str


@dataclass(frozen=True)
class Standing:
    """One arm in the verdict: what is maximised, each constraint, and how it stands to the best arm.

    margin   the best arm's objective over this one's, with its interval; missing for the best arm itself
    place    'best'; 'ahead' never; 'behind' for certain; 'tied' within the margin that matters;
             'inconclusive' where it cannot be told; 'ruled out'
    """

    arm: str
    figure: Reading
    kept: tuple[Kept, ...]
    margin: Reading
    place: Literal["best", "behind", "tied", "inconclusive", "ruled out"]
    why: str = ""


@dataclass(frozen=True)
class Verdict:
    """The answer. `sentences` are two, to be read alone.

    status       'recommended'; 'tie' where the interval of a margin spans 1 (`tied` names the others);
                 'undecided' where a best arm was measured but there is no interval to tell it from the next,
                 where a constraint of it is not certain, or where the control drifted by more than the
                 margin;
                 'none' where no arm can win; 'no policy' where the study states none
    margin       the best arm's figure over the runner-up's, with its interval; `level` says at which level
    inconclusive those of `tied` that may differ by more than `matters`; the rest are within it for certain
    constraints  of the best arm, each with its margin; `constraint` is that of the sessions in full
    rivals       on each axis the arm that is nearest to the best one
    standings    every arm, in the order of the study
    flips        what would give another answer
    """

    status: Literal["recommended", "tie", "undecided", "none", "no policy"]
    arm: str | None
    sentences: tuple[str, str]
    objective: str
    figure: Reading
    margin: Reading
    runner_up: str | None
    tied: tuple[str, ...]
    constraint: Constraint | None
    flips: tuple[str, ...]
    ruled_out: tuple[RuledOut, ...]
    level: str = ""
    inconclusive: tuple[str, ...] = ()
    matters: float = 0.03
    constraints: tuple[Kept, ...] = ()
    rivals: tuple[Rival, ...] = ()
    standings: tuple[Standing, ...] = ()
    doubts: tuple[str, ...] = ()


def decide(
    policy: Policy | None,
    candidates: Sequence[Candidate],
    margins: Mapping[tuple[str, str], Margin],
    control: str,
    matters: float = 0.03,
    drift: Sequence[Drift] = (),
) -> Verdict:
    """Apply the policy. `margins[a, b]` is the objective of arm a over arm b, in either order.

    An arm that failed, is void in the objective's cell, or breaks a constraint cannot win; where nothing but
    void cells keeps the others back, nothing is decided. The best arm's
    margins over the others are a family: its ties are told by Holm's p-values.
    """
    if policy is None:
        return _nothing(
            "no policy",
            "The study states no policy, so no arm is recommended.",
            "The trades below say what each arm costs and what it buys.",
            "",
            (),
            (),
        )
    objective = describe(policy.objective)
    ruled_out = tuple(RuledOut(each.arm, why) for each in candidates if (why := _obstacle(each)) is not None)
    barred = {each.arm: each.why for each in ruled_out}
    able = {each.arm: each for each in candidates if each.arm not in barred}
    fit = [able[arm] for arm in best_first({arm: each.figure for arm, each in able.items()}, margins)]
    if not fit:
        reasons = "; ".join(f"{wording.named(each.arm)}: {each.why}" for each in ruled_out)
        standings = tuple(_standing(each, None, {}, barred, matters) for each in candidates)
        first = "No arm can be recommended under this policy."
        return _nothing("none", first, f"{reasons}.", objective, ruled_out, standings)
    best, others = fit[0], fit[1:]
    over = _family({each.arm: between(best.arm, each.arm, margins) for each in others})
    standings = tuple(_standing(each, best, over, barred, matters) for each in candidates)
    places = {each.arm: each.place for each in standings}
    unclear = [each.arm for each in others if places[each.arm] in ("tied", "inconclusive")]
    ties = tuple(arm for arm in unclear if (found := over[arm]) is not None and found.ratio.low is not None)
    margin, runner_up, level = _margin(best, others, over)
    doubts = _doubts(best, margin, drift)
    status: Literal["recommended", "tie", "undecided"] = "recommended"
    if ties:
        status = "tie"
    elif doubts or (runner_up is not None and margin.low is None):
        status = "undecided"
    elif not others and any(each.failed is None and not each.figure.known for each in candidates):
        status = "undecided"  # nobody lost: the rest of the arms were not soundly measured
    case = Case(
        status=status,
        best=best.arm,
        figure=best.figure,
        pool=best.pool,
        kept=best.kept,
        others=tuple((each.arm, each.figure, each.pool) for each in others),
        barred=tuple(
            (each.arm, each.figure, each.pool, each.failed is None)
            for each in candidates
            if each.arm in barred
        ),
        ties=ties,
        inconclusive=tuple(arm for arm in ties if places[arm] == "inconclusive"),
        matters=matters,
        margin=margin,
        runner_up=runner_up,
        level=level,
        to_control=_to_control(best.arm, control, margins),
        policy=policy,
        doubts=doubts,
    )
    flips = find_flips(case)
    return Verdict(
        status,
        best.arm,
        (first_sentence(case), second_sentence(case, flips)),
        objective,
        best.figure,
        margin,
        runner_up,
        ties,
        constraint_of(best.pool, policy.sessions, policy.session_tokens),
        flips,
        ruled_out,
        level,
        case.inconclusive,
        matters,
        best.kept,
        find_rivals(
            best.arm,
            [(each.arm, each.figure, each.pool) for each in candidates],
            objective,
            {
                each.arm: found.ratio
                for each in candidates
                if each is not best and (found := between(each.arm, best.arm, margins)) is not None
            },
        ),
        standings,
        doubts,
    )


def rank(speeds: Mapping[int | str, float], floor: float) -> tuple[int | str, tuple[int | str, ...]]:
    """(the fastest, those tied with it within the relative noise `floor`). Acceptance ranks nothing."""
    best = max(speeds, key=lambda name: speeds[name])
    others = tuple(name for name in speeds if name != best and tied(speeds[best], speeds[name], floor))
    return best, others


def _obstacle(candidate: Candidate) -> str | None:
    if candidate.failed:
        return candidate.failed
    if not candidate.figure.known:
        return candidate.figure.missing or "not measured"
    return next((each.words for each in candidate.kept if each.bars), None)


def _family(over: Mapping[str, Margin | None]) -> dict[str, Margin | None]:
    """The best arm's margins with Holm's p-values."""
    known = {arm: each for arm, each in over.items() if each is not None and each.inference.p is not None}
    adjusted = holm([each.inference.p or 0.0 for each in known.values()])
    made = dict(over)
    for (arm, each), p in zip(known.items(), adjusted, strict=True):
        made[arm] = replace(each, inference=replace(each.inference, holm=p, family=len(known)))
    return made


def _standing(
    each: Candidate,
    best: Candidate | None,
    over: Mapping[str, Margin | None],
    barred: Mapping[str, str],
    matters: float,
) -> Standing:
    gone = Reading.absent("no arm to compare with" if best is None else "no sound pair of cells")
    if each.arm in barred:
        return Standing(each.arm, each.figure, each.kept, gone, "ruled out", barred[each.arm])
    if best is None or each.arm == best.arm:
        return Standing(each.arm, each.figure, each.kept, Reading.absent("it is the best"), "best")
    found = over.get(each.arm)
    if found is None:
        return Standing(each.arm, each.figure, each.kept, gone, "inconclusive")
    place = found.standing(matters)
    told: Literal["behind", "tied", "inconclusive"] = (
        "behind" if place == "ahead" else "tied" if place == "tied" else "inconclusive"
    )
    return Standing(each.arm, each.figure, each.kept, found.ratio, told, found.inference.level)


def _margin(
    best: Candidate, others: Sequence[Candidate], over: Mapping[str, Margin | None]
) -> tuple[Reading, str | None, str]:
    if not others:
        return Reading.absent("no other arm can win"), None, ""
    runner_up = others[0]
    found = over.get(runner_up.arm)
    if found is not None:
        return found.ratio, runner_up.arm, found.inference.level
    assert best.figure.value is not None
    assert runner_up.figure.value is not None
    quotient = best.figure.value / runner_up.figure.value
    return Reading.of(quotient, "ratio", "computed", note="unpaired: no interval"), runner_up.arm, ""


def _doubts(best: Candidate, margin: Reading, drift: Sequence[Drift]) -> tuple[str, ...]:
    """Why the answer is not certain, beside the margin's interval."""
    told = [each.words for each in best.kept if each.state == "not certain" and each.name != "min_sessions"]
    gain = abs((margin.value or 1.0) - 1)
    for each in drift:
        moved = each.ratio.ratio.value
        if each.moved and moved is not None and abs(moved - 1) > gain:
            told.append(
                f"the control itself moved by {(moved - 1) * 100:+.1f} % between sessions, more than the "
                "margin"
            )
    return tuple(told)


def _to_control(best: str, control: str, margins: Mapping[tuple[str, str], Margin]) -> Reading | None:
    found = between(best, control, margins) if best != control else None
    return None if found is None else found.ratio


def _nothing(
    status: Literal["none", "no policy"],
    first: str,
    second: str,
    objective: str,
    ruled_out: tuple[RuledOut, ...],
    standings: tuple[Standing, ...],
) -> Verdict:
    gone = Reading.absent(first.rstrip("."))
    return Verdict(
        status,
        None,
        (first, second),
        objective,
        gone,
        gone,
        None,
        (),
        None,
        (),
        ruled_out,
        standings=standings,
    )
