"""The simulated engine behind HTTP: it answers as the golden server's source, in real or scaled time."""

from __future__ import annotations

import heapq
import json
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kvantage.golden.source import Ask, Page, Piece
from kvantage.sim.answers import Answer, Answers, Encode
from kvantage.sim.engine import Engine
from kvantage.sim.front import Front, Totals
from kvantage.sim.pieces import cut
from kvantage.sim.request import Request
from kvantage.sim.step import Step
from kvantage.sim.texts import Texts

REMEMBERED = 8
"""Pools full of tokens that are remembered to recognise prompts by: what is older is resident nowhere."""


class SimSource:
    """One simulated server. `speed` is virtual seconds a real one.

    `encode` counts and names tokens: equal prefixes of ids are equal prefixes in the cache. `context_length`
    refuses longer requests, as a server does. `say` takes the lines of its log.
    """

    def __init__(
        self,
        engine: Engine,
        front: Front,
        encode: Encode,
        context_length: int,
        *,
        speed: float = 1.0,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.engine = engine
        self.front = front
        self.totals = Totals()
        self._encode = encode
        self._context = context_length
        self._speed = speed
        self._say = say
        self._origin = time.monotonic_ns()
        self._active: dict[int, Request] = {}
        self._told: dict[int, tuple[int, int]] = {}
        self._answers = Answers(encode)
        self._said: dict[int, Answer] = {}
        self._texts = Texts(max(1_000_000, REMEMBERED * engine.cache.capacity))
        self._ready: list[tuple[int, int, Piece]] = []
        self._count = 0
        engine.watch(self._step)

    # golden.Source

    def start(self, ask: Ask) -> None:
        """Take a request: its prompt as ids, its answer as many tokens as asked for."""
        ids = prompt_ids(ask.body, self._encode)
        output = _output(ask.body)
        if len(ids) + output > self._context:
            raise ValueError(
                f"This model's maximum context length is {self._context} tokens. However, you requested "
                f"{output} output tokens and your prompt contains {len(ids)} input tokens."
            )
        answer = self._answers.give(ids, output)
        request = self._request(f"r{ask.number}", ids, answer)
        refused = len(self.engine.refused)
        self.engine.submit(request, self._virtual(ask.arrived_ns))
        if len(self.engine.refused) > refused:
            raise ValueError("the prompt is longer than the whole pool")
        self._active[ask.number] = request
        self._told[ask.number] = (0, 0)
        self._said[ask.number] = answer

    def due(self) -> int | None:
        """The next piece, or the start of the next step."""
        times = [self._ready[0][0]] if self._ready else []
        if self.engine.busy:
            times.append(self._real(self.engine.now))
        return min(times, default=None)

    def advance(self, now_ns: int) -> Iterator[Piece]:
        """Take every step that begins by now; give out what is said by now."""
        while self.engine.busy and self.engine.now <= self._virtual(now_ns):
            self.engine.step()
            self._collect()
        while self._ready and self._ready[0][0] <= now_ns:
            yield heapq.heappop(self._ready)[2]

    def drop(self, number: int) -> None:
        """The client went away: the engine stops working for it."""
        request = self._active.pop(number, None)
        if request is not None:
            del self._told[number], self._said[number]
            if request.end is None:
                self.engine.abort(request)

    def page(self, method: str, path: str, body: bytes) -> Page | None:
        """The engine's own addresses, and the count of a text's tokens."""
        if path == "/tokenize" and method == "POST":
            return self._tokenize(body)
        page, lines = self.front.page(method, path, body, self.engine, self.totals)
        for line in lines:
            self._say(line)
        return page

    # Its own

    def _tokenize(self, body: bytes) -> Page:
        try:
            asked = json.loads(body)
            ids = prompt_ids(asked, self._encode)
        except (ValueError, AttributeError) as error:
            return Page(json.dumps({"error": {"message": str(error)}}).encode(), 400)
        return Page(json.dumps({"count": len(ids), "tokens": ids, "max_model_len": self._context}).encode())

    def _request(self, name: str, ids: list[int], answer: Answer) -> Request:
        """A request whose prompt, and answer, are told from earlier ones where they differ, to the token."""
        output = len(answer.ids)
        if not answer.known:
            return Request(name, self._texts.name(ids), output)
        whole = self._texts.name([*ids, *answer.ids])
        return Request(name, cut(whole, 0, len(ids)), output, whole=whole)

    def _step(self, step: Step) -> None:
        self.totals.step(step, self.engine.rules.drafts)
        for line in self.front.step(step, self.engine, self.totals):
            self._say(line)

    def _collect(self) -> None:
        """Turn what the last step emitted into pieces."""
        for number, request in list(self._active.items()):
            done, first = self._told[number]
            for at, tokens in request.chunks[done:]:
                done += 1
                last = request.remaining <= 0 and done == len(request.chunks)
                self._queue(number, request, at, first, tokens, last=last)
                first += tokens
            self._told[number] = (done, first)
            if request.end is not None and request.produced < request.output_tokens:
                self._queue(number, request, request.end, request.produced, 0, last=True)
            if request.end is not None:
                del self._active[number], self._told[number], self._said[number]
                self.totals.end(request, self._speed)

    def _queue(
        self, number: int, request: Request, at: float, first: int, tokens: int, *, last: bool
    ) -> None:
        answer, last_token = self._said[number], first + tokens
        counts, extras = self.front.counts(request) if last else ({}, {})
        piece = Piece(
            number,
            self._real(at),
            content="".join(answer.texts[first:last_token]),
            token_ids=answer.ids[first:last_token],
            finish="length" if last else None,
            counts=counts,
            extras=extras,
        )
        self._count += 1
        heapq.heappush(self._ready, (piece.due_ns, self._count, piece))

    def _virtual(self, real_ns: int) -> float:
        return (real_ns - self._origin) / 1e9 * self._speed

    def _real(self, virtual: float) -> int:
        return self._origin + round(virtual / self._speed * 1e9)


def prompt_ids(body: Mapping[str, Any], encode: Encode) -> list[int]:
    """The prompt's token ids: as they were sent, or of its text."""
    prompt = body.get("prompt")
    if isinstance(prompt, list) and prompt and all(type(one) is int for one in prompt):
        return prompt
    return encode(prompt_text(body))


def prompt_text(body: Mapping[str, Any]) -> str:
    """The prompt as one text: a completion's, or the messages of a chat with their roles."""
    messages = body.get("messages")
    if isinstance(messages, list):
        parts = []
        for message in messages:
            if not isinstance(message, dict):
                raise ValueError("a message is an object with a role and a content")
            content = message.get("content")
            if isinstance(content, list):
                content = "".join(str(one.get("text", "")) for one in content if isinstance(one, dict))
            role = message.get("role", "user")
            if role == "assistant" and content:  # an answer, as it was said
                content = f" {str(content).lstrip()}"
            parts.append(f"<{role}>{content or ''}")
        return "\n".join(parts) + "\n<assistant>"
    prompt = body.get("prompt")
    if isinstance(prompt, list):
        return " ".join(str(one) for one in prompt)
    if not isinstance(prompt, str) or not prompt:
        raise ValueError("the request has neither messages nor a prompt")
    return prompt


def _output(body: Mapping[str, Any]) -> int:
    for name in ("max_completion_tokens", "max_tokens"):
        given = body.get(name)
        if given is None:
            continue
        if isinstance(given, bool) or not isinstance(given, int) or given < 1:
            raise ValueError(f"{name} must be at least 1, got {given}")
        return given
    return 64
