"""A stream's bytes, in every shape that servers have been seen to send."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kvantage.golden.options import Options
from kvantage.golden.source import Ask, Piece

ENDS = {"lf": "\n", "crlf": "\r\n", "cr": "\r"}
CREATED = 1_700_000_000


class Wire:
    """Renders one request's pieces. `first()` comes before them, `last` after the finish."""

    def __init__(self, ask: Ask, options: Options) -> None:
        self.options = options
        self.chat = ask.chat
        end = ENDS[options.newline]
        self._prefix = ("data: " if options.space else "data:").encode()
        self._end = (end + end).encode()
        self._line = end.encode()
        self._top: dict[str, Any] = {
            "id": f"{'chatcmpl' if ask.chat else 'cmpl'}-golden-{ask.number}",
            "object": "chat.completion.chunk" if ask.chat else "text_completion",
            "created": CREATED,
            "model": str(ask.body.get("model", "golden")),
        }
        wants = ask.body.get("stream_options")
        self._usage = options.usage
        if isinstance(wants, Mapping) and wants.get("include_usage") is False:
            self._usage = "none"
        top = json.dumps(self._top, separators=(",", ":"))[:-1]
        self._plain = (f'{top},"choices":[{{"index":0,"delta":{{"content":').encode()
        self._plain_end = b'},"finish_reason":null}]' + (b',"usage":null}' if self._usage == "null" else b"}")
        self._fast = ask.chat and not (
            options.multiline or options.token_ids or self._usage == "every" or options.comments != "none"
        )

    def first(self) -> bytes:
        """What precedes the first token: comments, a chunk without choices, the role."""
        out = b""
        if self.options.comments != "none":
            out += self._comment() * 3
        if self.options.empty_choices_first:
            out += self._event({**self._top, "choices": []})
        if self.options.role_first and self.chat:
            out += self._choice({"role": "assistant", "content": None})
        return out

    def chunk(self, piece: Piece) -> bytes:
        """The chunk of one piece, with everything that follows it when it is the last."""
        if self._fast and piece.finish is None and not piece.reasoning and not piece.tool_calls:
            text = json.dumps(piece.content, ensure_ascii=False).encode()
            return b"".join((self._prefix, self._plain, text, self._plain_end, self._end))
        if self.chat:
            delta: dict[str, Any] = {}
            if piece.reasoning:
                name = self.options.reasoning_name
                for key in ("reasoning", "reasoning_content") if name == "both" else (name,):
                    delta[key] = piece.reasoning
            if piece.content or not piece.reasoning:
                delta["content"] = piece.content
            if piece.tool_calls:
                delta["tool_calls"] = list(piece.tool_calls)
        else:
            delta = {"text": piece.reasoning + piece.content}
        calls = self.options.tool_call and self.chat and piece.finish is not None
        finish = None if calls else piece.finish
        out = self._choice(delta, finish=finish, token_ids=piece.token_ids, counts=piece.counts)
        if self.options.comments != "none":
            out += self._comment()
        return out if piece.finish is None else out + self._tail(piece)

    def error(self) -> bytes:
        """An error inside the 200, then the end as usual."""
        message = "The golden server was told to fail."
        if self.options.error_form == "text":
            out = self._prefix + message.encode() + self._end
        elif self.options.error_form == "string":
            out = self._event({"error": message})
        else:
            out = self._event(
                {"error": {"message": message, "type": "InternalServerError", "param": None, "code": 500}}
            )
        return out + (self._done() if self.options.done else b"")

    def whole(self, pieces: list[Piece]) -> bytes:
        """All pieces as one JSON answer, for a request that did not ask for a stream."""
        last = pieces[-1]
        content = "".join(each.content for each in pieces)
        reasoning = "".join(each.reasoning for each in pieces)
        choice: dict[str, Any] = {"index": 0, "finish_reason": last.finish}
        if self.chat:
            message: dict[str, Any] = {"role": "assistant", "content": content}
            if reasoning:
                message["reasoning_content"] = reasoning
            if self.options.tool_call:
                message["tool_calls"] = [_whole_call()]
            choice["message"] = message
        else:
            choice["text"] = reasoning + content
        if self.options.token_ids:
            choice["token_ids"] = [token for each in pieces for token in each.token_ids]
        answer = {**self._top, "object": "chat.completion" if self.chat else "text_completion"}
        return json.dumps({**answer, "choices": [choice], "usage": last.counts, **last.extras}).encode()

    def _tail(self, piece: Piece) -> bytes:
        out = b""
        if self.options.tool_call and self.chat:
            calls: list[dict[str, Any]] = [
                {
                    "index": 0,
                    "id": "call_0",
                    "type": "function",
                    "function": {"name": "lookup", "arguments": ""},
                },
                {"index": 0, "function": {"arguments": '{"key": '}},
                {"index": 0, "function": {"arguments": '"blue"}'}},
            ]
            for place, call in enumerate(calls):
                finish = piece.finish if place == len(calls) - 1 else None
                out += self._choice({"tool_calls": [call]}, finish=finish, counts=piece.counts)
        extras = dict(piece.extras)
        timings = extras.pop("timings", None)
        if self._usage in ("after", "null", "every") and piece.counts:
            out += self._event({**self._top, "choices": [], "usage": piece.counts, **extras})
        elif extras:
            out += self._event({**self._top, "choices": [], **extras})
        if timings is not None:
            out += self._event({**self._top, "choices": [], "timings": timings})
        return out + (self._done() if self.options.done else b"")

    def _choice(
        self,
        delta: dict[str, Any],
        *,
        finish: str | None = None,
        token_ids: tuple[int, ...] = (),
        counts: Mapping[str, Any] | None = None,
    ) -> bytes:
        choice: dict[str, Any] = {"index": 0, "finish_reason": finish}
        if self.chat:
            choice["delta"] = delta
        else:
            choice.update(delta)
        if self.options.token_ids:
            choice["token_ids"] = list(token_ids)
        chunk = {**self._top, "choices": [choice]}
        if self._usage == "null":
            chunk["usage"] = None
        elif counts and (self._usage == "every" or (self._usage == "finish" and finish is not None)):
            chunk["usage"] = counts
        return self._event(chunk)

    def _event(self, chunk: Mapping[str, Any]) -> bytes:
        text = json.dumps(chunk, ensure_ascii=False, separators=(",", ":")).encode()
        if self.options.multiline:
            text = text[:1] + self._line + self._prefix + text[1:]
        return self._prefix + text + self._end

    def _comment(self) -> bytes:
        return (b":" if self.options.comments == "bare" else b": ping") + self._end

    def _done(self) -> bytes:
        return self._prefix + b"[DONE]" + self._end


def _whole_call() -> dict[str, Any]:
    return {
        "id": "call_0",
        "type": "function",
        "function": {"name": "lookup", "arguments": '{"key": "blue"}'},
    }
