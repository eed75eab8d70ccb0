"""The parser of events: against the standard's own words, and against anything at all."""

from __future__ import annotations

import json
import re
from array import array
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_core import from_json

from kvantage.client import Exchange, StreamReading, read_exchange
from kvantage.client.sse import read_events

LINES = st.sampled_from(
    [
        b"data: a",
        b"data:b",
        b"data:  c",
        b"data",
        b": ping",
        b":",
        b"",
        b"",
        b"event: x",
        b"id: 1",
        b"retry: 5",
        b"dat: no",
        "data: \u2028\u0085é✅".encode(),
        b"data: [DONE]",
        b"\x00",
        b"\xff\xfe",
    ]
)
ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])


def by_the_standard(body: bytes) -> list[bytes]:
    """Events as the standard's algorithm dispatches them, written line by line and slowly."""
    events: list[bytes] = []
    data: list[bytes] = []
    lines = re.split(rb"\r\n|\n|\r", body.removeprefix(b"\xef\xbb\xbf"))
    for line in lines[:-1]:
        if not line:
            if data:
                events.append(b"\n".join(data))
            data = []
        elif not line.startswith(b":"):
            name, _, value = line.partition(b":")
            if name == b"data":
                data.append(value.removeprefix(b" "))
    return events


@given(st.lists(st.tuples(LINES, ENDS)), st.booleans())
def test_events_are_the_standards(lines: list[tuple[bytes, bytes]], mark: bool) -> None:
    body = (b"\xef\xbb\xbf" if mark else b"") + b"".join(line + end for line, end in lines)
    assert [event.data for event in read_events(body).events] == by_the_standard(body)


@given(st.binary())
def test_any_bytes_are_read(body: bytes) -> None:
    cut = read_events(body)
    assert [event.data for event in cut.events] == by_the_standard(body)
    ends = [event.end for event in cut.events]
    assert ends == sorted(ends)
    assert all(0 < end <= len(body) for end in ends)


@given(st.lists(st.tuples(LINES, ENDS)))
def test_an_event_is_complete_at_its_end_and_not_a_byte_before(lines: list[tuple[bytes, bytes]]) -> None:
    body = b"".join(line + end for line, end in lines)
    for number, event in enumerate(read_events(body).events):
        assert len(read_events(body[: event.end]).events) == number + 1
        assert len(read_events(body[: event.end - 1]).events) == number


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_blank_line_after_a_comment_is_no_event(end: str) -> None:
    cut = read_events((f": ping{end}{end}" * 3).encode())
    assert (cut.events, cut.comments, cut.rest) == ((), 3, b"")


def test_a_long_unfinished_line_is_read_in_linear_time() -> None:
    assert read_events(b"data: " + b"x" * 5_000_000).events == ()
    assert len(read_events(b"data: x\n\n" * 200_000).events) == 200_000


def exchange_of(body: bytes, reads: int = 1) -> Exchange:
    """A whole answer that came in so many reads, a nanosecond apart."""
    ends = [len(body) * (number + 1) // reads for number in range(reads)]
    return Exchange(
        intended_ns=0,
        begun_ns=0,
        sent_ns=0,
        end_ns=reads,
        http_status=200,
        headers=(("content-type", "text/event-stream"),),
        body=body,
        read_ns=array("q", range(1, reads + 1)),
        read_ends=array("q", ends),
    )


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "choices",
                    "delta",
                    "content",
                    "reasoning",
                    "reasoning_content",
                    "usage",
                    "completion_tokens",
                    "token_ids",
                    "tool_calls",
                    "index",
                    "function",
                    "arguments",
                    "finish_reason",
                    "error",
                    "message",
                    "text",
                    "prompt_token_ids",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


def numbers_are_the_servers(reading: StreamReading) -> None:
    times = reading.chunks.times_ns
    assert list(times) == sorted(times)
    assert all(tokens >= -1 for tokens in reading.chunks.tokens)
    assert (reading.first_ns is None) == (
        not reading.content and not reading.reasoning and not reading.tool_calls
    )
    assert (reading.status == "ok") == (reading.error is None)
    reading.content.encode()
    reading.reasoning.encode()


@settings(max_examples=300)
@given(st.lists(JSON, max_size=6), st.integers(1, 9))
def test_no_json_is_too_strange(chunks: list[object], reads: int) -> None:
    body = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks).encode()
    numbers_are_the_servers(read_exchange(exchange_of(body, reads)))


@given(st.binary(max_size=300), st.integers(1, 5))
def test_no_bytes_are_too_strange(body: bytes, reads: int) -> None:
    reading = read_exchange(exchange_of(body, reads))
    numbers_are_the_servers(reading)
    assert reading.final == {} or b"{" in body


DELTAS = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "content": st.text(max_size=4) | st.none(),
            "reasoning": st.text(max_size=4) | st.none(),
            "reasoning_content": st.text(max_size=4) | st.none(),
            "role": st.just("assistant"),
        },
    ),
    max_size=8,
)


@given(DELTAS, st.integers(1, 20), st.sampled_from(["\n", "\r\n", "\r"]))
def test_text_and_stamps_are_what_was_sent(deltas: list[dict[str, str | None]], reads: int, end: str) -> None:
    texts = [json.dumps({"choices": [{"index": 0, "delta": each}]}, ensure_ascii=False) for each in deltas]
    events = [f"data: {text}{end}{end}".encode() for text in texts]
    body = b"".join(events)
    exchange = exchange_of(body, reads)
    reading = read_exchange(exchange)
    assert reading.content == "".join(each.get("content") or "" for each in deltas)
    assert reading.reasoning == "".join(
        each.get("reasoning") or each.get("reasoning_content") or "" for each in deltas
    )
    expected = []
    place = 0
    for delta, event in zip(deltas, events, strict=True):
        place += len(event)
        done = place - (1 if end == "\r\n" else 0)
        if any(delta.get(name) for name in ("content", "reasoning", "reasoning_content")):
            expected.append(
                next(number for number, stop in enumerate(exchange.read_ends) if stop >= done) + 1
            )
    assert list(reading.chunks.times_ns) == expected


def test_surrogates_that_were_escaped_apart_are_joined() -> None:
    body = (
        b'data: {"choices":[{"delta":{"content":"\\ud83d"}}]}\n\n'
        b'data: {"choices":[{"delta":{"content":"\\ude80 \\ud800"},"finish_reason":"stop"}]}\n\n'
    )
    assert read_exchange(exchange_of(body)).content == "🚀 \ufffd"


def test_deep_json_and_huge_numbers_are_told_not_raised() -> None:
    for text in (b"[" * 100_000, b'{"usage":' * 50_000, b"1" * 10_000):
        assert read_exchange(exchange_of(b"data: " + text + b"\n\n")).status == "failed"


def chunk(**choice: object) -> dict[str, object]:
    return {"choices": [{"index": 0, **choice}]}


def read(*chunks: dict[str, object]) -> StreamReading:
    body = "".join(f"data: {json.dumps(each)}\n\n" for each in chunks) + "data: [DONE]\n\n"
    return read_exchange(exchange_of(body.encode()))


def test_token_ids_count_tokens_and_a_chunk_may_carry_nothing_else() -> None:
    reading = read(
        {"prompt_token_ids": [1, 2, 3], **chunk(delta={"role": "assistant", "content": ""}, token_ids=[])},
        chunk(delta={"content": "ab"}, token_ids=[7, 8]),
        chunk(delta={"content": ""}, token_ids=[9]),
        chunk(delta={}, finish_reason="stop", token_ids=[2]),
    )
    assert list(reading.chunks.tokens) == [2, 1, 1]
    assert reading.token_ids == (7, 8, 9, 2)
    assert reading.prompt_token_ids == (1, 2, 3)
    assert "prompt_token_ids" not in reading.final


def test_a_running_count_tells_tokens_a_chunk() -> None:
    def counted(text: str, total: int) -> dict[str, object]:
        return {**chunk(delta={"content": text}), "usage": {"completion_tokens": total}}

    assert list(read(counted("a", 1), counted("bc", 4), counted("d", 5)).chunks.tokens) == [1, 3, 1]


def test_a_running_count_that_runs_back_or_comes_late_counts_nothing() -> None:
    def counted(text: str, total: int | None) -> dict[str, object]:
        usage = None if total is None else {"completion_tokens": total}
        return {**chunk(delta={"content": text}), "usage": usage}

    assert list(read(counted("a", 3), counted("b", 2)).chunks.tokens) == [3, -1]
    assert list(read(counted("a", None), counted("b", 5), counted("c", 6)).chunks.tokens) == [-1, -1, 1]


def test_final_merges_the_last_chunks_and_null_changes_nothing() -> None:
    reading = read(
        {**chunk(delta={"content": "x"}, finish_reason="stop", stop_reason=151645), "usage": None},
        {"choices": [], "usage": {"prompt_tokens": 3, "prompt_tokens_details": {"cached_tokens": 0}}},
        {"choices": [], "usage": None, "timings": {"draft_n": 4}},
        {"usage": {"completion_tokens": 1, "prompt_tokens_details": None}, "metrics": {"a": 1}},
    )
    assert reading.final == {
        "usage": {"prompt_tokens": 3, "prompt_tokens_details": {"cached_tokens": 0}, "completion_tokens": 1},
        "timings": {"draft_n": 4},
        "metrics": {"a": 1},
        "choices": [{"stop_reason": 151645, "finish_reason": "stop"}],
    }


def test_tool_calls_are_put_together() -> None:
    def call(index: int, **function: str) -> dict[str, object]:
        return {"index": index, "function": function}

    reading = read(
        chunk(delta={"tool_calls": [{**call(0, name="add", arguments=""), "id": "a", "type": "function"}]}),
        chunk(delta={"tool_calls": [call(0, arguments='{"x":')]}),
        chunk(delta={"tool_calls": [call(0, arguments=" 1}"), {**call(1, name="sub"), "id": "b"}]}),
        chunk(delta={"tool_calls": [call(1, arguments="{}")]}, finish_reason="tool_calls"),
    )
    assert [each["id"] for each in reading.tool_calls] == ["a", "b"]
    assert [each["function"] for each in reading.tool_calls] == [
        {"name": "add", "arguments": '{"x": 1}'},
        {"name": "sub", "arguments": "{}"},
    ]
    assert len(reading.chunks) == 4
    assert reading.first_ns is not None
    assert reading.first_content_ns is None


def test_the_second_choice_is_not_read_as_the_first() -> None:
    two = {"choices": [{"index": 1, "delta": {"content": "no"}}, {"index": 0, "delta": {"content": "yes"}}]}
    reading = read(two, {"choices": [{"index": 1, "delta": {"content": "no"}, "finish_reason": "stop"}]})
    assert (reading.content, reading.finish_reason) == ("yes", None)


@pytest.mark.parametrize("reason", ["abort", "error"])
def test_a_request_that_the_server_gave_up_is_no_answer(reason: str) -> None:
    reading = read(chunk(delta={"content": "ab"}), chunk(delta={}, finish_reason=reason))
    assert (reading.status, reading.content) == ("failed", "ab")
    assert reading.error == f"the server broke the request off (finish reason '{reason}')"


def test_plain_completions_are_read_too() -> None:
    reading = read(
        {"choices": [{"index": 0, "text": "ab"}]}, {"choices": [{"text": "c", "finish_reason": "stop"}]}
    )
    assert (reading.content, len(reading.chunks), reading.finish_reason) == ("abc", 2, "stop")


TEXTS = st.one_of(
    st.text(max_size=6),
    st.sampled_from(
        ['"', "\\", '"}}]}', 'x","usage":{"completion_tokens":9},"y":"', "\n", "\t", "é\u2028", "\\n"]
    ),
)


CHUNKS = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "content": TEXTS | st.none(),
            "role": st.just("assistant"),
            "reasoning": TEXTS | st.none(),
            "reasoning_content": TEXTS | st.none(),
            "text": TEXTS,
            "tool_calls": st.sampled_from([None, [], [{"index": 0, "function": {"arguments": "{}"}}]]),
            "usage": st.none() | st.builds(lambda count: {"completion_tokens": count}, st.integers(1, 9)),
            "token_ids": st.none() | st.just([1, 2]),
            "finish_reason": st.none() | st.just("stop"),
            "stop_reason": st.none() | st.integers(0, 3),
            "id": st.sampled_from(["a", "b"]),
            "error": st.none() | st.just("died"),
        },
    ),
    min_size=1,
    max_size=4,
)
IN_DELTA = ("content", "role", "reasoning", "reasoning_content", "tool_calls")
IN_CHOICE = ("token_ids", "finish_reason", "stop_reason")


def stream_of(
    kinds: list[dict[str, Any]], order: list[int], ascii_only: bool, spaced: bool, whole: bool
) -> list[bytes]:
    """Events of a few kinds in any order, as servers send them: again and again, with another text."""
    events = []
    for place, number in enumerate(order):
        fields = dict(kinds[number % len(kinds)])
        for name in ("content", "reasoning", "reasoning_content", "text"):
            if fields.get(name) and place % 3:
                fields[name] = f"{'' if place % 2 else ' '}w{place}"
        choice = {name: fields.pop(name) for name in IN_CHOICE if name in fields}
        if "text" in fields:
            choice["text"] = fields.pop("text")
        else:
            choice["delta"] = {name: fields.pop(name) for name in IN_DELTA if name in fields}
        chunk = {"choices": [{"index": 0, **choice}], **fields}
        text = json.dumps(chunk, ensure_ascii=ascii_only, separators=None if spaced else (",", ":"))
        events.append(f"data: {text}\n\n".encode())
    return [*events, b"data: [DONE]\n\n"] if whole else events


def read_slowly(exchange: Exchange) -> StreamReading:
    """Every event parsed for itself."""
    with mock.patch("kvantage.client.stream.find_form", return_value=None):
        return read_exchange(exchange)


ORDERS = st.lists(st.sampled_from([0, 0, 0, 0, 1, 2, 3]), max_size=12)


@settings(max_examples=400)
@given(CHUNKS, ORDERS, st.booleans(), st.booleans(), st.booleans(), st.integers(1, 15))
def test_the_short_cut_changes_nothing(
    kinds: list[dict[str, Any]], order: list[int], ascii_only: bool, spaced: bool, whole: bool, reads: int
) -> None:
    exchange = exchange_of(b"".join(stream_of(kinds, order, ascii_only, spaced, whole)), reads)
    assert read_exchange(exchange) == read_slowly(exchange)


@settings(max_examples=400)
@given(
    CHUNKS,
    ORDERS,
    st.integers(0, 3000),
    st.sampled_from(
        [b"", b'"', b"\\", b"\n", b"\r", b"\xff", b": x\n\n", b'"content":"a",', b"event: error\n"]
    ),
    st.integers(0, 3),
)
def test_the_short_cut_changes_nothing_in_a_spoilt_stream(
    kinds: list[dict[str, Any]], order: list[int], place: int, put: bytes, cut: int
) -> None:
    body = b"".join(stream_of(kinds, order, False, False, True))
    place %= len(body)
    exchange = exchange_of(body[:place] + put + body[place + cut :], 3)
    assert read_exchange(exchange) == read_slowly(exchange)


@pytest.mark.parametrize(
    "delta",
    [
        '"content":"%s"',
        '"role":"assistant","content":"%s","tool_calls":[]',
        '"content":null,"reasoning":"%s"',
    ],
)
def test_chunks_of_one_form_are_parsed_once(delta: str) -> None:
    chunks = [
        f'data: {{"id":"a","choices":[{{"index":0,"delta":{{{delta % word}}}}}],"usage":null}}\n\n'
        for word in ("one", " two", "drei ✅", " four") * 16
    ]
    body = "".join(chunks).encode() + b"data: [DONE]\n\n"
    with mock.patch("kvantage.client.stream.from_json", wraps=from_json) as parse:
        reading = read_exchange(exchange_of(body, 64))
    assert parse.call_count == 2
    assert reading.content + reading.reasoning == "one twodrei ✅ four" * 16
    assert len(reading.chunks) == 64
