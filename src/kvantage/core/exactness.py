"""What the exactness phase keeps: whole answers with their token ids, and their tokens' scores."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from kvantage.core.errors import KvantageError

EXACTNESS = "exactness"
"""The phase's name."""

AnswerKind = Literal["greedy", "stream", "sampling", "tasks", "across"]
"""What an answer was asked for, which is also its workload: `greedy` whole and at temperature 0, `stream` the
same streamed, `across` the control's on another boot, `sampling` a few tokens at a temperature, `tasks` an
item with one right answer.
"""


class ScoringError(KvantageError):
    """A server cannot say how likely given tokens are; the message says why."""


@dataclass(frozen=True, slots=True)
class Scores:
    """The tokens of one answer scored by teacher forcing: position by position, in nats.

    chosen[i]  logprob of the answer's token i, given everything before it
    best[i]    the highest logprob of any token there, and best_id[i] whose it is
    rivals[i]  the few likeliest tokens there, as (id, logprob), likeliest first
    texts      what token ids stand for, for those that appear in `best_id` and `rivals`
    """

    chosen: tuple[float, ...]
    best: tuple[float, ...]
    best_id: tuple[int, ...]
    rivals: tuple[tuple[tuple[int, float], ...], ...] = ()
    texts: Mapping[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not len(self.chosen) == len(self.best) == len(self.best_id):
            raise ValueError("one chosen and one best token a position")

    @property
    def gaps(self) -> tuple[float, ...]:
        """best - chosen at each position, in nats; 0 where the answer's token is (one of) the likeliest."""
        return tuple(max(0.0, best - chosen) for best, chosen in zip(self.best, self.chosen, strict=True))


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer as it was given. `boot` numbers starts of servers; `token_ids` None is 'not told'.

    `accepted`, `drafted` and `steps` are the request's own speculation counts, None where not reported.
    """

    arm: str
    block: int
    boot: int
    kind: AnswerKind
    concurrency: int
    prompt_id: str
    repeat: int
    ok: bool
    error: str = ""
    finish_reason: str = ""
    content: str = ""
    reasoning: str = ""
    tool_calls: str = "[]"
    token_ids: tuple[int, ...] | None = None
    accepted: float | None = None
    drafted: float | None = None
    steps: float | None = None
    checks: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """All that was said: reasoning, content and tool calls (their ids, new each time, left out)."""
        calls = "" if self.tool_calls == "[]" else self.tool_calls
        return "\n".join(part for part in (self.reasoning, self.content, calls) if part)

    @property
    def digest(self) -> str | None:
        """Names the prompt and its tokens, so that equal answers are scored once; None without ids."""
        if self.token_ids is None:
            return None
        return answer_digest(self.prompt_id, self.token_ids)


def answer_digest(prompt_id: str, token_ids: tuple[int, ...]) -> str:
    """A hash of the prompt's name and the answer's tokens."""
    made = hashlib.sha256(prompt_id.encode() + b"\0")
    made.update(array("q", token_ids).tobytes())
    return made.hexdigest()[:24]


@dataclass(frozen=True, slots=True)
class Spoken:
    """What an arm's drafting came to over its exactness cells, by the server's counters; None is untold.

    `length` is the acceptance length (incl. bonus) of the server's own log over the same cells, each
    weighted by its length in time: some servers tell it nowhere else.
    """

    drafts: float | None = None
    drafted: float | None = None
    accepted: float | None = None
    length: float | None = None


@dataclass(frozen=True)
class ExactnessData:
    """Everything of the phase in a study: the answers, the scores by `Answer.digest`, and what could not be.

    `no_scores` says why the control could not score; `spoken` are counters by (arm, concurrency).
    """

    answers: tuple[Answer, ...] = ()
    scores: Mapping[str, Scores] = field(default_factory=dict)
    no_scores: str | None = None
    spoken: Mapping[tuple[str, int], Spoken] = field(default_factory=dict)
