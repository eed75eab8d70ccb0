"""A stored exchange, read: text, reasoning, tool calls, times, and what the server said at the end."""

from __future__ import annotations

import json
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic_core import from_json

from kvantage.client.exchange import Exchange
from kvantage.client.form import find_form
from kvantage.client.sse import Cutter, Event, read_events
from kvantage.core import ChunkTimes

# What a choice holds besides these (stop_reason, matched_stop, ...) is kept in `final`.
_STREAMED = frozenset({"index", "delta", "message", "text", "token_ids", "logprobs", "finish_reason"})
# Finish reasons of requests that the server gave up: not answers, whatever text they hold.
_BROKEN_OFF = frozenset({"abort", "error"})


@dataclass(frozen=True, slots=True)
class StreamReading:
    """What one answer says. None means: not said.

    first_ns          first delta of content, reasoning or a tool call
    first_content_ns  first delta of content
    chunks            every chunk that carried content, reasoning, a tool call or token ids. Its tokens
                      are the token ids beside it, or what the server's running count rose by; else -1
    final             the last chunks merged (usage, metrics, timings, ...), for an engine's `read_usage`
    done              True when `[DONE]` came
    error_code        the server's own code, where an error came inside a 200
    """

    status: Literal["ok", "failed"]
    error: str | None = None
    error_code: int | str | None = None
    first_ns: int | None = None
    first_content_ns: int | None = None
    chunks: ChunkTimes = field(default_factory=ChunkTimes.empty)
    content: str = ""
    reasoning: str = ""
    tool_calls: tuple[Mapping[str, Any], ...] = ()
    token_ids: tuple[int, ...] | None = None
    prompt_token_ids: tuple[int, ...] | None = None
    finish_reason: str | None = None
    final: Mapping[str, Any] = field(default_factory=dict)
    events: int = 0
    comments: int = 0
    done: bool = False


def read_exchange(exchange: Exchange) -> StreamReading:
    """Read an answer: a stream of events, or a whole JSON response. Never raises.

    `failed` is: cut, refused, past its deadline; a status other than 2xx; an error inside a 200; text that
    is not JSON; a finish reason that says it was broken off; an end with neither a finish reason nor
    `[DONE]`. An empty answer that ended well is `ok`.
    """
    reader = _Reader()
    encoding = (exchange.header("content-encoding") or "identity").lower()
    if encoding != "identity":
        reader.fail(f"the answer is compressed ({encoding}), which was not asked for")
    elif exchange.http_status is not None and not 200 <= exchange.http_status < 300:
        reader.refused(exchange)
    elif (exchange.header("content-type") or "").lower().startswith("application/json"):
        if exchange.complete:
            reader.read_whole(exchange)
    else:
        reader.read_stream(exchange)
    if exchange.error is not None:
        reader.fail(exchange.error, first=True)
    elif not reader.ended and reader.error is None:
        reader.fail(
            f"the stream ended after {len(reader.times)} chunks with neither a finish reason nor [DONE]"
            if exchange.body
            else f"the server answered {exchange.http_status} with nothing in it"
        )
    return reader.reading()


class _Reader:
    """What has been gathered so far."""

    def __init__(self) -> None:
        self.error: str | None = None
        self.error_code: int | str | None = None
        self.first_ns: int | None = None
        self.first_content_ns: int | None = None
        self.times: array[int] = array("q")
        self.tokens: array[int] = array("i")
        self.content: list[str] = []
        self.reasoning: list[str] = []
        self.calls: dict[int, dict[str, Any]] = {}
        self.token_ids: list[int] | None = None
        self.prompt_token_ids: tuple[int, ...] | None = None
        self.finish_reason: str | None = None
        self.final: dict[str, Any] = {}
        self.choice: dict[str, Any] = {}
        self.counted: int | None = 0
        self.events = 0
        self.comments = 0
        self.done = False

    @property
    def ended(self) -> bool:
        return self.done or self.finish_reason is not None

    def fail(self, error: str, *, first: bool = False) -> None:
        """Note an error; the earliest is kept, unless this one explains the others."""
        if self.error is None or first:
            self.error = error

    def refused(self, exchange: Exchange) -> None:
        """The server answered with a status that is not 2xx; its words are in the body."""
        words = exchange.text.strip()
        try:
            found = _error_words(json.loads(words))
        except (ValueError, RecursionError):
            found = None
        said = (found[0] if found else words)[:500]
        self.error_code = exchange.http_status
        self.fail(f"the server answered {exchange.http_status}" + (f": {said}" if said else ""))

    def read_whole(self, exchange: Exchange) -> None:
        """One JSON answer that was not streamed: it has no first token, and no chunks."""
        self.read(Event(len(exchange.body), exchange.body), exchange.end_ns)
        self.first_ns = self.first_content_ns = None
        self.times, self.tokens = array("q"), array("i")

    def read_stream(self, exchange: Exchange) -> None:
        body, read_ns, read_ends = exchange.body, exchange.read_ns, exchange.read_ends
        cutter = Cutter(body)
        at, last_read = 0, len(read_ends) - 1
        begin = cutter.position
        while (event := cutter.next()) is not None:
            self.events += 1
            if not self.done:
                while at < last_read and read_ends[at] < event.end:
                    at += 1
                chunk = self.read(event, read_ns[at])
                if chunk is not None and not event.name:
                    form = find_form(body[begin : event.end], chunk)
                    if form is not None:
                        text, times, cutter.position, at = form.follow(
                            body, event.end, read_ns, read_ends, at
                        )
                        self.follow(text, times, reasoning=form.reasoning)
            begin = cutter.position
        self.comments = cutter.comments
        if exchange.complete and cutter.rest:
            # Some servers leave out the last blank line. In a cut stream the rest is a torn event.
            for last in read_events(cutter.rest + b"\n\n").events:
                self.events += 1
                if not self.done:
                    self.read(last._replace(end=len(body)), read_ns[last_read])

    def follow(self, text: str, times: array[int], *, reasoning: bool) -> None:
        """Take in chunks of text that came right behind another such one, and told no counts."""
        if times:
            (self.reasoning if reasoning else self.content).append(text)
            self.times.extend(times)
            self.events += len(times)
            self.tokens.extend([-1] * len(times))

    def read(self, event: Event, now: int) -> dict[str, Any] | None:
        """Read one event; the chunk that it holds, where it holds one."""
        try:
            chunk = from_json(event.data)  # several times as fast as json's, and stricter
        except ValueError:
            text = event.data.decode("utf-8", "replace").strip()
            if text == "[DONE]":
                self.done = True
                return None
            try:
                chunk = json.loads(text)
            except (ValueError, RecursionError):
                said = f"the server sent an error: {text[:500]}"
                self.fail(said if event.name == b"error" else _not_json(text))
                return None
        found = _error_words({"error": chunk} if event.name == b"error" else chunk)
        if found is not None:
            self.fail(f"the server sent an error: {found[0]}")
            self.error_code = found[1] if self.error_code is None else self.error_code
        elif isinstance(chunk, dict):
            self.read_chunk(chunk, now)
            return chunk
        elif chunk is not None:
            self.fail(_not_json(event.data.decode("utf-8", "replace")))
        return None

    def read_chunk(self, chunk: dict[str, Any], now: int) -> None:
        final = self.final
        for name, value in chunk.items():
            if value is None or name == "choices":
                continue
            if name == "prompt_token_ids":
                self.prompt_token_ids = _ids(value) or self.prompt_token_ids
            elif isinstance(value, dict) and isinstance(before := final.get(name), dict):
                before.update({key: each for key, each in value.items() if each is not None})
            else:
                final[name] = value
        counted = _count(chunk.get("usage"))
        choices = chunk.get("choices")
        listed = choices if isinstance(choices, list) else []
        choice = next((each for each in listed if _is_ours(each)), None)
        if choice is None:
            return
        carried, ids = self.read_choice(choice, now)
        if carried or ids:
            self.times.append(now)
            if ids is not None:
                tokens = len(ids)
            elif counted is not None and self.counted is not None and counted >= self.counted:
                tokens = counted - self.counted
            else:
                tokens = -1
            self.tokens.append(tokens)
            self.counted = counted

    def read_choice(self, choice: dict[str, Any], now: int) -> tuple[bool, tuple[int, ...] | None]:
        delta = choice.get("delta", choice.get("message"))
        if not isinstance(delta, dict):
            delta = {"content": choice.get("text")}
        content = delta.get("content")
        # The same text under its old and its new name is one text.
        reasoning = delta.get("reasoning") or delta.get("reasoning_content")
        carried = False
        if isinstance(reasoning, str) and reasoning:
            self.reasoning.append(reasoning)
            carried = True
        if isinstance(content, str) and content:
            self.content.append(content)
            carried = True
            if self.first_content_ns is None:
                self.first_content_ns = now
        carried |= self.read_calls(delta.get("tool_calls"))
        if carried and self.first_ns is None:
            self.first_ns = now
        ids = _ids(choice.get("token_ids"))
        if ids is not None:
            if self.token_ids is None:
                self.token_ids = []
            self.token_ids.extend(ids)
        reason = choice.get("finish_reason")
        if isinstance(reason, str) and reason:
            self.finish_reason = reason
            if reason in _BROKEN_OFF:
                self.fail(f"the server broke the request off (finish reason {reason!r})")
        for name, value in choice.items():
            if name == "prompt_token_ids":
                self.prompt_token_ids = _ids(value) or self.prompt_token_ids
            elif name not in _STREAMED and value is not None:
                self.choice[name] = value
        return carried, ids

    def read_calls(self, deltas: Any) -> bool:
        if not isinstance(deltas, list):
            return False
        carried = False
        for place, delta in enumerate(deltas):
            if not isinstance(delta, dict):
                continue
            index = delta.get("index")
            index = index if isinstance(index, int) and not isinstance(index, bool) else place
            call = self.calls.setdefault(
                index, {"id": None, "type": "function", "function": {"name": "", "arguments": ""}}
            )
            if isinstance(delta.get("id"), str):
                call["id"] = delta["id"]
            function = delta.get("function")
            if isinstance(function, dict):
                if isinstance(function.get("name"), str):
                    call["function"]["name"] = call["function"]["name"] or function["name"]
                arguments = function.get("arguments")
                if isinstance(arguments, dict):
                    arguments = json.dumps(arguments)
                if isinstance(arguments, str):
                    call["function"]["arguments"] += arguments
            carried = True
        return carried

    def reading(self) -> StreamReading:
        final = dict(self.final)
        if self.choice or self.finish_reason is not None:
            final["choices"] = [{**self.choice, "finish_reason": self.finish_reason}]
        return StreamReading(
            status="ok" if self.error is None else "failed",
            error=self.error,
            error_code=self.error_code,
            first_ns=self.first_ns,
            first_content_ns=self.first_content_ns,
            chunks=ChunkTimes(self.times, self.tokens),
            content=_whole("".join(self.content)),
            reasoning=_whole("".join(self.reasoning)),
            tool_calls=tuple(self.calls[index] for index in sorted(self.calls)),
            token_ids=None if self.token_ids is None else tuple(self.token_ids),
            prompt_token_ids=self.prompt_token_ids,
            finish_reason=self.finish_reason,
            final=final,
            events=self.events,
            comments=self.comments,
            done=self.done,
        )


def _is_ours(choice: Any) -> bool:
    """Only the first of several choices is read: `n` above 1 is not asked for."""
    return isinstance(choice, dict) and choice.get("index") in (None, 0)


def _ids(value: Any) -> tuple[int, ...] | None:
    """Token ids, or None when this is not a list of whole numbers."""
    if isinstance(value, list) and all(type(each) is int for each in value):
        return tuple(value)
    return None


def _count(usage: Any) -> int | None:
    """The running count of generated tokens in a chunk's usage, where there is one."""
    value = usage.get("completion_tokens") if isinstance(usage, dict) else None
    return value if type(value) is int and 0 <= value < 2**31 else None


def _error_words(chunk: Any) -> tuple[str, int | str | None] | None:
    """The message and the code of an error, in any of the shapes that servers send; None for no error."""
    if isinstance(chunk, str):
        return chunk[:500], None
    if not isinstance(chunk, dict):
        return None
    error = chunk.get("error")
    if error is None and chunk.get("object") == "error":
        error = chunk
    if error is None or error is False:
        return None
    if not isinstance(error, dict):
        return str(error)[:500], None
    code = error.get("code", error.get("status"))
    words = error.get("message") or error.get("type") or json.dumps(error)
    return str(words)[:500], code if isinstance(code, (int, str)) else None


def _not_json(text: str) -> str:
    return f"the stream holds an event that is not a JSON object: {text[:200]!r}"


def _whole(text: str) -> str:
    """Join surrogates that were escaped in two deltas; lone ones become U+FFFD, for any store to take."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
