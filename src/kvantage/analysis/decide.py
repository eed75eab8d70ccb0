"""The verdict under the study's policy: which arm, by how much, and what would flip it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from kvantage.analysis import wording
from kvantage.analysis.asked import Objective, Policy
from kvantage.analysis.capacity import Pool, count_sessions
from kvantage.analysis.compare import Ratio
from kvantage.analysis.stats import judge, tied
from kvantage.core.reading import Reading

ADMISSION = "computed, not admitted yet"
METRIC_WORDS = {
    "decode_tok_s": "steady decode rate",
    "e2e_tok_s": "end-to-end rate",
    "steady_tok_s": "aggregate",
}


@dataclass(frozen=True)
class Candidate:
    """An arm as the policy sees it. `figure` is what is maximised, or missing with the reason."""

    arm: str
    figure: Reading
    pool: Pool
    failed: str | None = None


@dataclass(frozen=True, slots=True)
class RuledOut:
    """An arm that cannot win, and why."""

    arm: str
    why: str


@dataclass(frozen=True)
class Constraint:
    """The least number of resident sessions, and how far the arm is from it.

    `held` are whole sessions, each in whole blocks; `quotient` is pool / session. `margin` is in whole
    sessions beyond the least; `admission` says how well that is known.
    """

    wanted: Reading
    session_tokens: Reading
    held: Reading
    quotient: Reading
    margin: Reading
    spare_tokens: Reading
    admission: str = ADMISSION


@dataclass(frozen=True)
class Verdict:
    """The answer. `sentences` are two, to be read alone.

    status   'recommended'; 'tie' where the interval of the margin spans 1 (`tied` names the others);
             'undecided' where a best arm was measured but there is no interval to tell it from the next;
             'none' where no arm can win; 'no policy' where the study states none
    margin   the best arm's figure over the runner-up's
    flips    what would give another answer
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


def decide(
    policy: Policy | None,
    candidates: Sequence[Candidate],
    margins: Mapping[tuple[str, str], Ratio],
    control: str,
) -> Verdict:
    """Apply the policy. `margins[a, b]` is the objective of arm a over arm b, in either order.

    An arm that failed, is void in the objective's cell, or holds too few sessions cannot win.
    """
    if policy is None:
        return _nothing(
            "no policy",
            "The study states no policy, so no arm is recommended.",
            "The trades below say what each arm costs and what it buys.",
            "",
            (),
        )
    objective = describe(policy.objective)
    ruled_out = [
        RuledOut(each.arm, why) for each in candidates if (why := _obstacle(each, policy)) is not None
    ]
    barred = {each.arm for each in ruled_out}
    fit = sorted(
        (each for each in candidates if each.arm not in barred),
        key=lambda each: -(each.figure.value or 0.0),
    )
    if not fit:
        reasons = "; ".join(f"{wording.named(each.arm)}: {each.why}" for each in ruled_out)
        return _nothing(
            "none", "No arm can be recommended under this policy.", f"{reasons}.", objective, tuple(ruled_out)
        )
    best, others = fit[0], fit[1:]
    margin, runner_up, level = _margin(best, others, margins)
    ties = tuple(each.arm for each in others if _ties(best.arm, each.arm, margins))
    status: Literal["recommended", "tie", "undecided"] = "recommended"
    if ties:
        status = "tie"
    elif runner_up is not None and margin.low is None:
        status = "undecided"
    constraint = _constraint(best.pool, policy)
    flips = _flips(best, others, candidates, ruled_out, policy, margin, ties)
    return Verdict(
        status,
        best.arm,
        (
            _first_sentence(status, best, ties, objective, constraint, control, margins),
            _second_sentence(runner_up, margin, level, flips),
        ),
        objective,
        best.figure,
        margin,
        runner_up,
        ties,
        constraint,
        flips,
        tuple(ruled_out),
    )


def describe(objective: Objective) -> str:
    """The objective in words: 'steady decode rate on code at one stream'."""
    metric = METRIC_WORDS.get(objective.metric, objective.metric)
    what = wording.work(objective.phase, objective.workload or "prompts")
    return f"{metric} on {what} at {wording.streams(objective.concurrency or 1)}"


def rank(speeds: Mapping[int | str, float], floor: float) -> tuple[int | str, tuple[int | str, ...]]:
    """(the fastest, those tied with it within the relative noise `floor`). Acceptance ranks nothing."""
    best = max(speeds, key=lambda name: speeds[name])
    others = tuple(name for name in speeds if name != best and tied(speeds[best], speeds[name], floor))
    return best, others


def _obstacle(candidate: Candidate, policy: Policy) -> str | None:
    if candidate.failed:
        return candidate.failed
    if not candidate.figure.known:
        return candidate.figure.missing or "not measured"
    if policy.sessions is None or policy.session_tokens is None:
        return None
    pool = candidate.pool.tokens
    if pool.value is None:
        return f"its pool is not known, so its sessions cannot be counted ({pool.missing})"
    held = _whole(candidate.pool, policy.session_tokens)
    if held < policy.sessions:
        return (
            f"holds {held} of the {policy.sessions} sessions of {policy.session_tokens:,} tokens "
            f"(pool {pool.value:,.0f} tokens)"
        )
    return None


def _whole(pool: Pool, session: int) -> int:
    assert pool.tokens.value is not None
    return count_sessions(pool.tokens.value, session, int(pool.block_tokens.value or 1))[1]


def _constraint(pool: Pool, policy: Policy) -> Constraint | None:
    if policy.sessions is None or policy.session_tokens is None or pool.tokens.value is None:
        return None
    block = int(pool.block_tokens.value or 1)
    quotient, whole, _ = count_sessions(pool.tokens.value, policy.session_tokens, block)
    taken = -(-policy.session_tokens // block) * block
    return Constraint(
        Reading.of(policy.sessions, "sessions", "config"),
        Reading.of(policy.session_tokens, "tokens", "config"),
        Reading.of(whole, "sessions", "computed", note=ADMISSION),
        Reading.of(quotient, "sessions", "computed", note="pool / session"),
        Reading.of(whole - policy.sessions, "sessions", "computed", note=ADMISSION),
        Reading.of(pool.tokens.value - policy.sessions * taken, "tokens", "computed"),
    )


def _between(a: str, b: str, margins: Mapping[tuple[str, str], Ratio]) -> Ratio | None:
    if (a, b) in margins:
        return margins[a, b]
    return margins[b, a].inverted() if (b, a) in margins else None


def _ties(best: str, other: str, margins: Mapping[tuple[str, str], Ratio]) -> bool:
    ratio = _between(best, other, margins)
    if ratio is None or ratio.ratio.low is None:
        return False
    return judge(ratio.ratio.low, ratio.ratio.high) != "above"


def _margin(
    best: Candidate, others: Sequence[Candidate], margins: Mapping[tuple[str, str], Ratio]
) -> tuple[Reading, str | None, str]:
    if not others:
        return Reading.absent("no other arm can win"), None, ""
    runner_up = others[0]
    ratio = _between(best.arm, runner_up.arm, margins)
    if ratio is not None and ratio.ratio.known:
        return ratio.ratio, runner_up.arm, ratio.replication
    assert best.figure.value is not None
    assert runner_up.figure.value is not None
    quotient = best.figure.value / runner_up.figure.value
    return Reading.of(quotient, "ratio", "computed", note="unpaired: no interval"), runner_up.arm, ""


def _flips(
    best: Candidate,
    others: Sequence[Candidate],
    candidates: Sequence[Candidate],
    ruled_out: Sequence[RuledOut],
    policy: Policy,
    margin: Reading,
    ties: tuple[str, ...],
) -> tuple[str, ...]:
    flips = []
    if ties:
        flips.append(
            f"more prompts or boots may tell {wording.named(best.arm)} from "
            f"{wording.listed([wording.named(tie) for tie in ties])}"
        )
    elif others and margin.value is not None:
        flips.append(f"{wording.named(others[0].arm)} gaining more than {(margin.value - 1) * 100:.1f} %")
    flips += _capacity_flips(best, others, policy)
    barred = {each.arm for each in ruled_out}
    assert best.figure.value is not None
    for each in candidates:
        if (
            each.arm not in barred
            or each.failed
            or each.figure.value is None
            or each.pool.tokens.value is None
        ):
            continue
        if each.figure.value > best.figure.value and policy.session_tokens is not None:
            flips.append(
                f"asking for no more than {_whole(each.pool, policy.session_tokens)} sessions would give it "
                f"to {wording.named(each.arm)} ({wording.speed(each.figure.value)} tok/s)"
            )
    return tuple(flips)


def _capacity_flips(best: Candidate, others: Sequence[Candidate], policy: Policy) -> list[str]:
    if policy.sessions is None or policy.session_tokens is None or best.pool.tokens.value is None:
        return []
    flips = []
    held = _whole(best.pool, policy.session_tokens)
    longest = math.floor(best.pool.tokens.value / policy.sessions)
    block = int(best.pool.block_tokens.value or 1)
    longest -= longest % block
    roomier = [
        each
        for each in others
        if each.pool.tokens.value is not None and each.pool.tokens.value > best.pool.tokens.value
    ]
    beneficiary = f" (then {wording.named(roomier[0].arm)})" if roomier else " (then no measured arm)"
    flips.append(
        f"asking for more than {held} sessions of {policy.session_tokens:,} tokens, or sessions longer than "
        f"{longest:,} tokens{beneficiary}"
    )
    return flips


def _first_sentence(
    status: str,
    best: Candidate,
    ties: tuple[str, ...],
    objective: str,
    constraint: Constraint | None,
    control: str,
    margins: Mapping[tuple[str, str], Ratio],
) -> str:
    assert best.figure.value is not None
    speed = f"{wording.speed(best.figure.value)} tok/s {objective}"
    ratio = _between(best.arm, control, margins) if best.arm != control else None
    if ratio is not None and ratio.ratio.value is not None:
        speed += f", {wording.times(ratio.ratio.value)} the control"
    room = ""
    if constraint is not None and constraint.held.value is not None:
        room = (
            f"; its pool holds {constraint.held.value:.0f} whole sessions of "
            f"{constraint.session_tokens.value:,.0f} tokens where {constraint.wanted.value:.0f} are asked "
            f"({ADMISSION})"
        )
    if status == "tie":
        names = wording.listed([wording.named(arm) for arm in (best.arm, *ties)])
        return f"{names} tie on {objective}: the interval of their ratio spans 1; best is {speed}{room}."
    if status == "undecided":
        return f"{wording.named(best.arm)} is ahead, and not for certain: {speed}{room}."
    return f"Serve with {wording.named(best.arm)}: {speed}{room}."


def _second_sentence(runner_up: str | None, margin: Reading, level: str, flips: tuple[str, ...]) -> str:
    parts = []
    if runner_up is None:
        parts.append("No other arm can win")
    elif margin.value is not None:
        if margin.low is not None and margin.high is not None:
            spans = f" ({margin.low:.2f} to {margin.high:.2f}; {level})"
        else:
            spans = f" ({level or 'no interval'})"
        parts.append(f"It is {wording.times(margin.value)} the runner-up {wording.named(runner_up)}{spans}")
    if flips:
        parts.append(f"what would flip it: {'; or '.join(flips[:2])}")
    return "; ".join(parts) + "."


def _nothing(
    status: Literal["none", "no policy"],
    first: str,
    second: str,
    objective: str,
    ruled_out: tuple[RuledOut, ...],
) -> Verdict:
    gone = Reading.absent(first.rstrip("."))
    return Verdict(status, None, (first, second), objective, gone, gone, None, (), None, (), ruled_out)
