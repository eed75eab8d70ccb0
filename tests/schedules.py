"""Random schedules of requests, for a real server and for the simulated one alike.

A schedule is asked in its own order: a turn comes so many seconds after the start, or after the answer to an
earlier turn. Prompts are runs of named texts, and of the answers to earlier turns: documents asked again,
prefixes of them, conversations that go on.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from zlib import crc32

import numpy as np
from scipy.optimize import minimize

from kvantage.planner.acceptance import rate_for
from kvantage.sim.drafting import Drafting
from kvantage.sim.engine import Engine
from kvantage.sim.pieces import Pieces, common, cut, join, text, total
from kvantage.sim.request import Request
from kvantage.sim.rules import Rules

SENT_S = 0.004
"""From the client's decision to send to the scheduler: tokens checked, a process boundary crossed."""
SOON_S = 0.002
"""The least between the end of an answer and what is asked after it."""


@dataclass(frozen=True)
class Turn:
    """`after`: the turn whose answer it waits for, None the start. `prompt` has ("answer", i) for answers."""

    after: int | None
    wait_s: float
    prompt: Pieces
    output: int


@dataclass(frozen=True)
class Seen:
    """What a server did with a turn: tokens of the prompt from its cache, and when (s after the start)."""

    cached: int
    sent_s: float
    first_s: float
    end_s: float


@dataclass(frozen=True)
class FittedClock:
    """Step times in seconds: `step`, `each` further sequence, `held` token of context, `token` of prompt."""

    step: float
    each: float
    held: float
    token: float

    def decode(self, batch: int, tokens: int) -> float:
        return self.step + self.each * (batch - 1) + self.held * tokens

    def prefill(self, tokens: int) -> float:
        return self.step + self.token * tokens


@dataclass(frozen=True)
class Setup:
    """The server: its pool in tokens and its rules, step times fitted alone, acceptance as it was counted."""

    arm: str
    pool: int
    page: int
    running: int
    chunk: int
    drafts: int = 0
    drop_block: bool = False
    lookahead: int = 0
    acceptance: float = 1.0
    clock: Mapping[str, float] = field(default_factory=dict)

    def rules(self) -> Rules:
        """The simulator's rules for this server."""
        return Rules(
            running=self.running,
            chunk=self.chunk,
            page=self.page,
            mixed=True,
            drafts=self.drafts,
            drop_block=self.drop_block,
            extra_slots=self.lookahead,
            newest_first=True,
        )


def schedules(count: int, seed: int = 0) -> list[list[Turn]]:
    """That many, the same for a seed: 8 to 14 turns over 5 documents of 300 to 1,900 tokens."""
    return [_schedule(random.Random(f"{seed}:{i}"), f"s{seed}.{i}") for i in range(count)]


def _schedule(draw: random.Random, name: str) -> list[Turn]:
    documents = [(f"{name}.d{i}", draw.randint(300, 1900)) for i in range(5)]
    turns: list[Turn] = []
    for number in range(draw.randint(8, 14)):
        output = draw.randint(8, 90)
        kind = draw.choice(("again", "prefix", "whole", "whole", "on")) if turns else "whole"
        parent = draw.randrange(len(turns)) if turns else 0
        if kind == "on":  # the conversation goes on: prompt, answer, and something new
            before = turns[parent]
            prompt = join(before.prompt, ((("answer", parent), 0, before.output),))
            prompt = join(prompt, text(f"{name}.t{number}", draw.randint(20, 300)))
            if total(prompt) <= 2500:
                turns.append(Turn(parent, round(draw.uniform(0.02, 0.4), 3), prompt, output))
                continue
        if kind == "again":
            prompt = turns[parent].prompt
        else:
            document, length = draw.choice(documents)
            length = length if kind == "whole" else draw.randint(100, length)
            prompt = join(text(document, length), text(f"{name}.q{number}", draw.randint(1, 200)))
        after = draw.choice((None, draw.randrange(len(turns)))) if turns else None
        needs = answers_in(prompt)
        if needs:
            after = max(needs)
        wait = draw.uniform(0.02, 0.4) if after is not None else draw.uniform(0, 1.5)
        turns.append(Turn(after, round(wait, 3), prompt, output))
    return turns


def answers_in(prompt: Pieces) -> list[int]:
    """The turns whose answers stand in a prompt."""
    return [name[1] for name, _, _ in prompt if isinstance(name, tuple) and name[0] == "answer"]


def ids(prompt: Pieces, answers: Mapping[int, Sequence[int]], vocabulary: int) -> list[int]:
    """The prompt as token ids: each text a stream of its own, answers as they were given."""
    found: list[int] = []
    for name, start, length in prompt:
        if isinstance(name, tuple):
            found += list(answers[name[1]])[start : start + length]
        else:
            stream = np.random.default_rng(crc32(str(name).encode()))
            found += stream.integers(300, vocabulary - 8, start + length)[start:].tolist()
    return found


def simulate(
    turns: Sequence[Turn], setup: Setup, real: Sequence[Seen] | None = None, seed: int = 0
) -> list[Seen]:
    """The same schedule on the simulated engine; with `real`, sent at the times at which it was sent there.

    A turn never comes before the answer that it waits for.
    """
    drafting = {}
    if setup.drafts:
        drafting[""] = Drafting([rate_for(setup.acceptance, setup.drafts)] * setup.drafts, seed)
    engine = Engine(setup.pool, setup.rules(), FittedClock(**setup.clock), drafting)
    asked: dict[int, Request] = {}
    sent: dict[int, float] = {}

    def send(number: int, at: float) -> None:
        turn = turns[number]
        prompt: Pieces = ()
        for name, start, length in turn.prompt:
            given = ("answer", asked[name[1]].name) if isinstance(name, tuple) else name
            prompt = join(prompt, ((given, start, length),))
        sent[number] = at
        asked[number] = engine.submit(Request(str(number), prompt, turn.output), at + SENT_S)

    for number, turn in enumerate(turns):
        if turn.after is None:
            send(number, real[number].sent_s if real else turn.wait_s)
    while engine.step():
        for number, turn in enumerate(turns):
            if number not in asked and (before := asked.get(turn.after or 0)) and before.end is not None:
                at = max(before.end + SOON_S, real[number].sent_s) if real else before.end + turn.wait_s
                send(number, at)
    return [
        Seen(one.first_cached or 0, sent[i], one.first or 0.0, one.end or 0.0)
        for i, one in sorted(asked.items())
    ]


def fitted(setup: Setup, kept: Sequence[tuple[Sequence[Turn], Sequence[Seen]]]) -> Setup:
    """The same server with the step times that fit best when the answers of these schedules ended."""
    scales = np.array([1e-3, 1e-4, 1e-7, 1e-5])
    names = ("step", "each", "held", "token")

    def clock(factors: Any) -> dict[str, float]:
        return dict(zip(names, (np.abs(factors) * scales).tolist(), strict=True))

    def error(factors: Any) -> float:
        tried = replace(setup, clock=clock(factors))
        late = [
            abs(found.end_s - seen.end_s)
            for turns, real in kept
            for seen, found in zip(real, simulate(turns, tried, real), strict=True)
        ]
        return float(np.mean(late))

    start = np.array([setup.clock[name] for name in names]) / scales
    best = minimize(error, start, method="Nelder-Mead", options={"maxfev": 150})
    return replace(setup, clock=clock(best.x))


@dataclass(frozen=True)
class Judged:
    """Of the requests that had anything to find: on how many both say alike that all of it was there.

    `exact` counts those whose cached tokens are the same number.
    """

    requests: int = 0
    alike: int = 0
    exact: int = 0
    real_misses: int = 0

    def __add__(self, other: Judged) -> Judged:
        return Judged(
            self.requests + other.requests,
            self.alike + other.alike,
            self.exact + other.exact,
            self.real_misses + other.real_misses,
        )


def judge(turns: Sequence[Turn], real: Sequence[Seen], found: Sequence[Seen], setup: Setup) -> Judged:
    """Hold the simulated hits against the real ones."""
    result = Judged()
    for i, most in could_find(turns, real, setup):
        hits = [seen[i].cached >= most for seen in (real, found)]
        same = hits[0] == hits[1]
        exact = real[i].cached == found[i].cached
        result += Judged(1, int(same), int(exact), int(not hits[0]))
    return result


def could_find(turns: Sequence[Turn], real: Sequence[Seen], setup: Setup) -> Iterator[tuple[int, int]]:
    """(turn, tokens) where an endless cache would have served that many, more than 0."""
    for i, turn in enumerate(turns):
        length = total(turn.prompt)
        most = 0
        for j, other in enumerate(turns):
            if j == i or real[j].first_s > real[i].sent_s:
                continue
            sequence = other.prompt
            if real[j].end_s <= real[i].sent_s:
                sequence = join(sequence, cut(((("answer", j), 0, other.output),), 0, other.output - 1))
            most = max(most, common(turn.prompt, sequence))
        blocks = min(most, length - 1) // setup.page - (1 if setup.drop_block else 0)
        if blocks > 0:
            yield i, blocks * setup.page


def from_json(data: Mapping[str, Any]) -> tuple[Setup, list[tuple[list[Turn], list[Seen]]]]:
    """The kept results of a real server."""
    setup = Setup(**data["setup"])
    kept = []
    for one in data["schedules"]:
        turns = [
            Turn(
                turn["after"],
                turn["wait_s"],
                tuple((tuple(n) if isinstance(n, list) else n, s, k) for n, s, k in turn["prompt"]),
                turn["output"],
            )
            for turn in one
        ]
        kept.append((turns, [Seen(*turn["seen"]) for turn in one]))
    return setup, kept


def to_json(setup: Setup, kept: Sequence[tuple[Sequence[Turn], Sequence[Seen]]]) -> dict[str, Any]:
    """Plain data, to be kept."""
    return {
        "setup": {**vars(replace(setup)), "clock": dict(setup.clock)},
        "schedules": [
            [
                {
                    "after": turn.after,
                    "wait_s": turn.wait_s,
                    "prompt": turn.prompt,
                    "output": turn.output,
                    "seen": [one.cached, round(one.sent_s, 4), round(one.first_s, 4), round(one.end_s, 4)],
                }
                for turn, one in zip(turns, seen, strict=True)
            ]
            for turns, seen in kept
        ],
    }
