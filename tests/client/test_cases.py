"""Every stream that was seen in the wild, over a real socket, torn at every byte."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from kvantage.client import ChatRequest, Client, StreamReading, read_exchange
from tests.client.canned import Canned, streamed

CASES: dict[str, dict[str, Any]] = {
    case["id"]: case
    for case in map(json.loads, (Path(__file__).parents[1] / "data" / "cases.jsonl").read_text().splitlines())
}
STREAMS = [name for name, case in CASES.items() if case["kind"].partition(".")[0] == "sse"]


def body_of(case: dict[str, Any]) -> bytes:
    """The case's stream; a list is of events, each ended by a blank line."""
    given = case["input"]
    if isinstance(given, dict):
        return bytes.fromhex("".join(given["hex_chunks"])) if "hex_chunks" in given else thought_only(given)
    text = given if isinstance(given, str) else "".join(f"{event}\n\n" for event in given)
    return text.encode()


def thought_only(given: dict[str, Any]) -> bytes:
    """A stream of reasoning alone, as the case tells of it."""
    deltas = [{"reasoning_content": "hm, " * (given["reasoning_chars"] // 40)} for _ in range(10)]
    chunks = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": given["finish_reason"]}]})
    body = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
    return body.encode()


def check(case: dict[str, Any], reading: StreamReading) -> None:
    """Everything that the case expects and a reading can show."""
    expected = case["expected"]
    usage = reading.final.get("usage", {})
    failed = "request_status" in expected
    assert reading.status == expected.get("request_status", "ok"), reading.error
    assert reading.done
    seen = {
        "events": reading.events
        if expected.get("done") or case["kind"] == "sse.bytes"
        else reading.events - 1,
        "content": reading.content,
        "text_content": reading.content,
        "partial_text": reading.content,
        "text_reasoning": reading.reasoning,
        "completion_tokens": usage.get("completion_tokens"),
        "prompt_tokens": usage.get("prompt_tokens"),
        "comments": reading.comments,
        "error_code": reading.error_code,
    }
    for name in seen.keys() & expected.keys() - {"events"}:
        assert seen[name] == expected[name], name
    if expected.get("answer_empty"):
        assert reading.content == ""
        assert len(reading.reasoning) == case["input"]["reasoning_chars"]
    if failed:
        assert reading.error is not None
        assert "EngineCore encountered an issue" in reading.error


@pytest.mark.parametrize("name", STREAMS)
async def test_a_stream_reads_the_same_wherever_it_is_torn(name: str) -> None:
    case = CASES[name]
    answer = streamed(body_of(case))
    async with Canned() as server, Client() as client:

        async def until_read() -> None:
            while client.progress.bytes < wanted:  # noqa: ASYNC110
                await asyncio.sleep(0)

        server.between = until_read
        for place in range(1, len(answer)):
            server.pieces = (answer[:place], answer[place:])
            wanted = client.progress.bytes + place
            exchange = await client.stream(ChatRequest(server.url, {}, deadline_s=10))
            check(case, read_exchange(exchange))
            assert len(exchange.read_ns) >= 2
        assert server.connections == 1


@pytest.mark.parametrize("name", STREAMS)
async def test_a_stream_reads_the_same_byte_by_byte(name: str) -> None:
    case = CASES[name]
    answer = streamed(body_of(case))
    async with (
        Canned(*(answer[place : place + 1] for place in range(len(answer)))) as server,
        Client() as client,
    ):

        async def until_read() -> None:
            before = client.progress.bytes
            while client.progress.bytes == before:  # noqa: ASYNC110
                await asyncio.sleep(0)

        server.between = until_read
        check(case, read_exchange(await client.stream(ChatRequest(server.url, {}, deadline_s=10))))


async def test_a_character_is_split_between_reads() -> None:
    case = CASES["sse-utf8-split"]
    chunks = [bytes.fromhex(each) for each in case["input"]["hex_chunks"]]
    framed = [b"%x\r\n%b\r\n" % (len(each), each) for each in chunks]
    head = streamed(b"")[: -len(b"0\r\n\r\n")]
    async with Canned(head, *framed, b"0\r\n\r\n") as server, Client() as client:
        server.between = lambda: asyncio.sleep(0.002)
        reading = read_exchange(await client.stream(ChatRequest(server.url, {})))
    assert reading.content == case["expected"]["content"]
    assert reading.events == case["expected"]["events"]
    assert reading.status == "ok"


async def stamps(case: dict[str, Any]) -> tuple[StreamReading, list[int]]:
    """The reading, and when each event's own write was read."""
    events = [f"{event}\n\n".encode() for event in case["input"]]
    framed = [b"%x\r\n%b\r\n" % (len(each), each) for each in events]
    head = streamed(b"")[: -len(b"0\r\n\r\n")]
    async with Canned(head, *framed, b"0\r\n\r\n") as server, Client() as client:
        server.between = lambda: asyncio.sleep(0.003)
        exchange = await client.stream(ChatRequest(server.url, {}))
    assert len(exchange.read_ns) == len(events) + 2
    return read_exchange(exchange), list(exchange.read_ns[1:-1])


async def test_a_role_is_no_token_and_reasoning_is_one() -> None:
    case = CASES["sse-reasoning-rename"]
    reading, read_ns = await stamps(case)
    assert reading.first_ns == read_ns[case["expected"]["first_token_event_index"]]
    assert reading.first_content_ns == read_ns[case["expected"]["first_answer_event_index"]]
    assert list(reading.chunks.times_ns) == read_ns[1:4]
    assert list(reading.chunks.tokens) == [-1, -1, -1]


async def test_a_ping_is_no_first_token() -> None:
    case = CASES["sse-ping-comments"]
    reading, read_ns = await stamps(case)
    place = next(number for number, event in enumerate(case["input"]) if "Hi" in event)
    assert reading.first_ns == reading.first_content_ns == read_ns[place]
    assert reading.comments == case["expected"]["comments"]


async def test_thinking_that_ate_the_budget_is_an_ok_request_with_an_empty_answer() -> None:
    given = CASES["sse-thinking-ate-budget"]["input"]
    body = thought_only(given)
    async with Canned(streamed(body)) as server, Client() as client:
        reading = read_exchange(await client.stream(ChatRequest(server.url, {})))
    assert reading.status == "ok"
    assert reading.content == ""
    assert len(reading.reasoning) == given["reasoning_chars"]
    assert reading.finish_reason == "length"
    assert reading.first_ns is not None
    assert reading.first_content_ns is None


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case["kind"].startswith("usage")])
async def test_what_the_server_counts_comes_through_as_it_was_said(name: str) -> None:
    given = CASES[name]["input"]
    for last in given if isinstance(given, list) else [given]:
        told = last if "usage" in last or "metrics" in last else {"timings": last}
        chunks = [
            {"choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": "stop"}], "usage": None},
            {"choices": [], **told},
        ]
        body = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
        async with Canned(streamed(body.encode())) as server, Client() as client:
            reading = read_exchange(await client.stream(ChatRequest(server.url, {})))
        assert {key: reading.final[key] for key in told} == told
