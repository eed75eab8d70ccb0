"""The golden server's own source: every time, token and fault is known before the first byte."""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kvantage.golden.options import Options
from kvantage.golden.source import Ask, Fault, Page, Piece

_WORDS = ("the", "of", "light", "water", "stone", "under", "seven", "river", "glass", "north", "quiet")
_MARKS = ("✅", "a\u2028b", "c\u0085d", "Ünï", "漢字", "👩‍🚀", '"\\')
# Successive multiples of this, modulo 1, are spread evenly however many are taken.
_GOLDEN = 0.6180339887498949
_NO_DRAW = random.Random(0)


@dataclass(slots=True)
class _Run:
    """A request under way: its chunk `place` is the next."""

    ask: Ask
    options: Options
    total: int
    reasoning: int
    fault: Fault | None
    fault_at: int
    draw: random.Random
    start_ns: int = 0
    place: int = 0

    @property
    def prompt_tokens(self) -> int:
        """As told, or the words of the prompt."""
        told = self.options.prompt_tokens
        return len(_prompt_text(self.ask.body).split()) if told is None else told

    @property
    def chunks(self) -> int:
        """How many chunks the tokens fill."""
        return -(-self.total // self.options.tokens_per_chunk)


class Script:
    """Streams tokens at given times.

        Script(Options(ttft_ms=50, step_ms=20), limit=8)

    At most `limit` requests run; others wait, first come, first served, and their times count from the
    moment at which a place comes free.
    """

    def __init__(self, options: Options | None = None, *, limit: int | None = None) -> None:
        self.options = options or Options()
        self.limit = limit
        self._runs: dict[int, _Run] = {}
        self._waiting: deque[_Run] = deque()
        self._due: list[tuple[int, int]] = []

    @property
    def running(self) -> int:
        """How many requests run now."""
        return len(self._runs)

    @property
    def waiting(self) -> int:
        """How many requests wait for a place."""
        return len(self._waiting)

    def start(self, ask: Ask) -> None:
        """Take a request; see `Source`."""
        options = self.options.with_changes(ask.options)
        total = options.tokens
        for name in ("max_completion_tokens", "max_tokens"):
            given = ask.body.get(name)
            if isinstance(given, int) and not isinstance(given, bool):
                if given < 1:
                    raise ValueError(f"{name} must be at least 1, got {given}")
                total = given
                break
        draw = random.Random(options.seed * 1_000_003 + ask.number) if options.draws else _NO_DRAW
        run = _Run(
            ask, options, total, round(total * options.reasoning_share), *_fault(options, total, draw), draw
        )
        if self.limit is not None and len(self._runs) >= self.limit:
            self._waiting.append(run)
        else:
            self._admit(run, ask.arrived_ns)

    def due(self) -> int | None:
        """See `Source`."""
        return self._due[0][0] if self._due else None

    def advance(self, now_ns: int) -> Iterator[Piece]:
        """See `Source`."""
        while self._due and self._due[0][0] <= now_ns:
            due_ns, number = heapq.heappop(self._due)
            run = self._runs.get(number)
            if run is None:
                continue
            piece = _piece(run, due_ns)
            run.place += 1
            if piece.finish is not None or piece.fault in ("cut", "error"):
                self._leave(number, due_ns)
            elif piece.fault is None:
                heapq.heappush(self._due, (_when(run), number))
            yield piece

    def drop(self, number: int) -> None:
        """See `Source`."""
        if number in self._runs:
            self._leave(number, self._runs[number].ask.arrived_ns)
        else:
            self._waiting = deque(run for run in self._waiting if run.ask.number != number)

    def page(self, method: str, path: str, body: bytes) -> Page | None:
        """See `Source`: the golden server has no pages but its own."""
        return None

    def _admit(self, run: _Run, now_ns: int) -> None:
        options = run.options
        shift_ms = (run.ask.number * _GOLDEN) % 1.0 * options.step_ms if options.stagger else 0.0
        run.start_ns = now_ns + round((options.ttft_ms + shift_ms) * 1e6)
        self._runs[run.ask.number] = run
        heapq.heappush(self._due, (_when(run), run.ask.number))

    def _leave(self, number: int, now_ns: int) -> None:
        del self._runs[number]
        if self._waiting:
            run = self._waiting.popleft()
            self._admit(run, max(now_ns, run.ask.arrived_ns))


def _when(run: _Run) -> int:
    options = run.options
    jitter_ms = run.draw.random() * options.jitter_ms if options.jitter_ms else 0.0
    return run.start_ns + round((run.place * options.step_ms + jitter_ms) * 1e6)


def _fault(options: Options, total: int, draw: random.Random) -> tuple[Fault | None, int]:
    if options.cut_after is not None:
        return "cut", options.cut_after
    if options.hang_after is not None:
        return "hang", options.hang_after
    if options.error_after is not None:
        return "error", options.error_after
    if not options.draws:
        return None, -1
    chunks = -(-total // options.tokens_per_chunk)
    cut, error, place = draw.random(), draw.random(), draw.randrange(chunks)
    if cut < options.cut_rate:
        return "cut", place
    if error < options.error_rate:
        return "error", place
    return None, -1


def _piece(run: _Run, due_ns: int) -> Piece:
    options, number = run.options, run.ask.number
    if run.fault is not None and run.place >= run.fault_at:
        return Piece(number, due_ns, fault=run.fault)
    first = run.place * options.tokens_per_chunk
    stop = min(first + options.tokens_per_chunk, run.total)
    turn = min(max(run.reasoning, first), stop)
    last = stop == run.total
    piece = Piece(
        number,
        due_ns,
        reasoning="".join([word(each, options.text) for each in range(first, turn)]),
        content="".join([word(each, options.text) for each in range(turn, stop)]),
        token_ids=tuple(range(first, stop)),
    )
    if not last:
        return replace(piece, counts=_counts(run, stop)) if options.usage == "every" else piece
    limited = "max_tokens" in run.ask.body or "max_completion_tokens" in run.ask.body
    calls = options.tool_call and run.ask.chat
    finish = "tool_calls" if calls else "length" if limited else "stop"
    return replace(piece, finish=finish, counts=_counts(run, run.total), extras=_extras(run))


def word(token_id: int, text: str = "plain") -> str:
    """The text of a token; joined in order, the texts of all tokens are the whole answer."""
    if text == "unicode":
        return f"{_MARKS[token_id % len(_MARKS)]}{token_id} "
    return f"{_WORDS[token_id % len(_WORDS)]} "


def _counts(run: _Run, written: int) -> dict[str, Any]:
    """Usage after so many tokens: exactly what was sent, and of the prompt what was told."""
    options = run.options
    counts: dict[str, Any] = {
        "prompt_tokens": run.prompt_tokens,
        "completion_tokens": written,
        "total_tokens": run.prompt_tokens + written,
    }
    if options.cached_tokens is not None:
        counts["prompt_tokens_details"] = {"cached_tokens": options.cached_tokens}
    if run.reasoning:
        counts["completion_tokens_details"] = {"reasoning_tokens": min(run.reasoning, written)}
    return counts


def _extras(run: _Run) -> dict[str, Any]:
    """What stands beside usage in the last chunks."""
    options = run.options
    extras: dict[str, Any] = {}
    if options.steps is not None:
        extras["metrics"] = {
            "speculative_decoding": {
                "num_spec_steps": options.steps,
                "num_accepted_draft_tokens": options.accepted,
                "num_draft_tokens": options.drafted,
            }
        }
    if options.timings:
        extras["timings"] = {
            "prompt_n": run.prompt_tokens - (options.cached_tokens or 0),
            "predicted_n": run.total,
            "predicted_ms": (run.chunks - 1) * options.step_ms,
        }
    return extras


def _prompt_text(body: Mapping[str, Any]) -> str:
    messages = body.get("messages")
    if isinstance(messages, list):
        parts = [each.get("content") for each in messages if isinstance(each, dict)]
        return " ".join(part for part in parts if isinstance(part, str))
    prompt = body.get("prompt")
    return prompt if isinstance(prompt, str) else ""
