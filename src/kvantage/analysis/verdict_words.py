"""The verdict in two sentences, and what would flip it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from kvantage.analysis import wording
from kvantage.analysis.asked import Objective, Policy
from kvantage.analysis.capacity import Pool
from kvantage.analysis.constraints import ADMISSION, Kept, whole_sessions
from kvantage.core.reading import Reading

METRIC_WORDS = {
    "decode_tok_s": "steady decode rate",
    "e2e_tok_s": "end-to-end rate",
    "steady_tok_s": "aggregate",
    "tok_per_joule": "tokens per joule",
}


@dataclass(frozen=True)
class Case:
    """All that the sentences speak of. `others` and `barred` are (arm, figure, pool); of a barred one also
    whether it was measured.
    """

    status: str
    best: str
    figure: Reading
    pool: Pool
    kept: tuple[Kept, ...]
    others: tuple[tuple[str, Reading, Pool], ...]
    barred: tuple[tuple[str, Reading, Pool, bool], ...]
    ties: tuple[str, ...]
    inconclusive: tuple[str, ...]
    matters: float
    margin: Reading
    runner_up: str | None
    level: str
    to_control: Reading | None
    policy: Policy
    doubts: tuple[str, ...]

    @property
    def void(self) -> tuple[str, ...]:
        """Arms that ran, and have no sound figure of what is maximised: they may be better or worse."""
        return tuple(arm for arm, figure, _, measured in self.barred if measured and not figure.known)


def describe(objective: Objective) -> str:
    """The objective in words: 'steady decode rate on code at one stream'."""
    metric = METRIC_WORDS.get(objective.metric, objective.metric)
    first = objective.terms[0]
    if len(objective.terms) == 1:
        what = wording.work(first.phase, first.workload or "prompts")
    else:
        what = wording.listed(
            [f"{wording.work(term.phase, term.workload or '')} ({term.weight:g})" for term in objective.terms]
        )
        metric = f"weighted {metric}"
    return f"{metric} on {what} at {wording.streams(first.concurrency)}"


def first_sentence(case: Case) -> str:
    """Which arm, and what it gives."""
    assert case.figure.value is not None
    objective = describe(case.policy.objective)
    speed = f"{wording.speed(case.figure.value)} {case.figure.unit} {objective}"
    if case.to_control is not None and case.to_control.value is not None:
        speed += f", {wording.times(case.to_control.value)} the control"
    room = _room(case)
    if case.status == "tie":
        names = wording.listed([wording.named(arm) for arm in (case.best, *case.ties)])
        return f"{names} tie on {objective}: {_tied(case)}; best is {speed}{room}."
    if case.status == "undecided" and not case.others:
        return f"{wording.named(case.best)} alone has a sound figure: {speed}{room}."
    if case.status == "undecided":
        return f"{wording.named(case.best)} is ahead, and not for certain: {speed}{room}."
    return f"Serve with {wording.named(case.best)}: {speed}{room}."


def second_sentence(case: Case, flips: tuple[str, ...]) -> str:
    """By how much, and what would give another answer."""
    parts = []
    if case.runner_up is None and case.void:
        void = wording.listed([wording.named(arm) for arm in case.void])
        parts.append(
            f"{void} {'is' if len(case.void) == 1 else 'are'} void there, and may be better or worse"
        )
    elif case.runner_up is None:
        parts.append("No other arm can win")
    elif case.margin.value is not None:
        if case.margin.low is not None and case.margin.high is not None:
            spans = f" ({case.margin.low:.2f} to {case.margin.high:.2f}; {case.level})"
        else:
            spans = f" ({case.level or 'no interval'})"
        parts.append(
            f"It is {wording.times(case.margin.value)} the runner-up {wording.named(case.runner_up)}{spans}"
        )
    if flips:
        parts.append(f"what would flip it: {'; or '.join(flips[:2])}")
    return "; ".join(parts) + "."


def find_flips(case: Case) -> tuple[str, ...]:
    """What would give another answer, the likeliest first."""
    flips = [f"it is not certain that {doubt}" for doubt in case.doubts]
    if case.ties:
        flips.append(
            f"more prompts or boots may tell {wording.named(case.best)} from "
            f"{wording.listed([wording.named(tie) for tie in case.ties])}"
        )
    elif case.others and case.margin.value is not None:
        gain = (case.margin.value - 1) * 100
        flips.append(f"{wording.named(case.others[0][0])} gaining more than {gain:.1f} %")
    flips += _capacity_flips(case)
    flips += _floor_flips(case)
    session = case.policy.session_tokens
    for arm, figure, pool, measured in case.barred:
        if not measured or figure.value is None or pool.tokens.value is None or session is None:
            continue
        if figure.value > (case.figure.value or 0.0) and case.policy.sessions is not None:
            held = whole_sessions(pool, session)
            if held < case.policy.sessions:
                flips.append(
                    f"asking for no more than {held} sessions would give it to {wording.named(arm)} "
                    f"({wording.speed(figure.value)} {figure.unit})"
                )
    return tuple(flips)


def _tied(case: Case) -> str:
    if not case.inconclusive:
        return f"their ratio lies within {wording.percent(case.matters * 100)} of 1"
    said = "the interval of their ratio spans 1"
    return f"{said} and holds more than {wording.percent(case.matters * 100)}, so it is inconclusive"


def _room(case: Case) -> str:
    """The constraints as a sentence's end: the sessions, then the others."""
    told = []
    for each in case.kept:
        if each.name == "min_sessions" and each.found.value is not None and each.wanted.value is not None:
            told.append(
                f"its pool holds {each.found.value:.0f} whole sessions of "
                f"{case.policy.session_tokens or 0:,} tokens where {each.wanted.value:.0f} are asked "
                f"({ADMISSION})"
            )
        elif each.name != "min_sessions":
            told.append(each.words)
    return "".join(f"; {text}" for text in told)


def _capacity_flips(case: Case) -> list[str]:
    sessions, session = case.policy.sessions, case.policy.session_tokens
    if sessions is None or session is None or case.pool.tokens.value is None:
        return []
    least = case.pool.tokens.value if case.pool.tokens.low is None else case.pool.tokens.low
    longest = math.floor(least / sessions)
    longest -= longest % int(case.pool.block_tokens.value or 1)
    roomier = [
        arm
        for arm, _, pool in case.others
        if pool.tokens.value is not None and pool.tokens.value > case.pool.tokens.value
    ]
    beneficiary = f" (then {wording.named(roomier[0])})" if roomier else " (then no measured arm)"
    return [
        f"asking for more than {whole_sessions(case.pool, session)} sessions of {session:,} tokens, or "
        f"sessions longer than {longest:,} tokens{beneficiary}"
    ]


def _floor_flips(case: Case) -> list[str]:
    told = []
    for each in case.kept:
        if each.found.value is None:
            continue
        if each.name == "min_user_speed":
            told.append(f"asking for more than {wording.speed(each.found.value)} tok/s a user")
        elif each.name == "max_ttft":
            told.append(f"asking for a first token within less than {each.found.value:.3g} s")
    return told
