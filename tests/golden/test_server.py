"""The golden server tells the truth, in every shape, and breaks as told."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from kvantage.client import ChatRequest, Client, StreamReading, decode_rate, read_exchange, run_wave
from kvantage.core import UsageError
from kvantage.golden import Ask, GoldenProcess, GoldenServer, Options, Page, Piece, Script
from kvantage.golden.script import word

FAST = {"ttft_ms": 1, "step_ms": 1}


async def ask(
    server: GoldenServer, client: Client, *, path: str = "chat/completions", **golden: Any
) -> StreamReading:
    body = {
        "stream": True,
        "messages": [{"role": "user", "content": "one two three"}],
        "golden": {**FAST, **golden},
    }
    return read_exchange(await client.stream(ChatRequest(f"{server.url}/v1/{path}", body, deadline_s=20)))


def text(tokens: Iterable[int], kind: str = "plain") -> str:
    return "".join(word(each, kind) for each in tokens)


SHAPES: list[dict[str, Any]] = (
    [
        {"usage": place, "newline": newline, "space": space, "token_ids": token_ids}
        for place, newline, space, token_ids in itertools.product(
            ("after", "finish", "every", "null", "none"), ("lf", "crlf", "cr"), (True, False), (True, False)
        )
    ]
    + [
        {
            "comments": comments,
            "role_first": role,
            "empty_choices_first": empty,
            "multiline": multiline,
            "torn": torn,
            "early": not torn,
        }
        for comments, role, empty, multiline, torn in itertools.product(
            ("none", "bare", "ping"), (True, False), (True, False), (True, False), (True, False)
        )
    ]
    + [
        {"tool_call": True},
        {"timings": True, "usage": "none"},
        {"done": False},
        {"done": False, "usage": "finish"},
    ]
)


@pytest.mark.parametrize("tokens_per_chunk", [1, 3])
async def test_every_shape_carries_the_same_truth(tokens_per_chunk: int) -> None:
    async with GoldenServer() as server, Client() as client:

        async def check(shape: dict[str, Any]) -> None:
            name = ("reasoning", "reasoning_content", "both")[len(str(shape)) % 3]
            reading = await ask(
                server,
                client,
                tokens=10,
                tokens_per_chunk=tokens_per_chunk,
                reasoning_share=0.4,
                reasoning_name=name,
                text="unicode",
                **shape,
            )
            assert reading.status == "ok", (shape, reading.error)
            assert reading.reasoning == text(range(4), "unicode"), shape
            assert reading.content == text(range(4, 10), "unicode"), shape
            assert reading.done == shape.get("done", True)
            usage = reading.final.get("usage")
            if shape.get("usage") == "none":
                assert usage is None
            else:
                assert usage is not None, shape
                assert (usage["prompt_tokens"], usage["completion_tokens"]) == (3, 10)
                assert usage["completion_tokens_details"] == {"reasoning_tokens": 4}
            chunks = -(-10 // tokens_per_chunk)
            calls = 3 if shape.get("tool_call") else 0
            assert len(reading.chunks) == chunks + calls
            if shape.get("token_ids") or shape.get("usage") == "every":
                assert sum(reading.chunks.tokens) == 10, shape
            else:
                assert set(reading.chunks.tokens) == {-1}
            assert reading.token_ids == (tuple(range(10)) if shape.get("token_ids") else None)
            assert reading.finish_reason == ("tool_calls" if calls else "stop")
            if calls:
                assert json.loads(reading.tool_calls[0]["function"]["arguments"]) == {"key": "blue"}

        await asyncio.gather(*(check(shape) for shape in SHAPES))


async def test_plain_completions_and_whole_answers() -> None:
    async with GoldenServer() as server, Client() as client:
        reading = await ask(server, client, path="completions", tokens=4)
        assert (reading.content, reading.finish_reason, len(reading.chunks)) == (text(range(4)), "stop", 4)
        for path in ("chat/completions", "completions"):
            answer = await client.post(f"{server.url}/v1/{path}", {"max_tokens": 3, "golden": FAST})
            whole = read_exchange(answer)
            assert (whole.content, whole.finish_reason) == (text(range(3)), "length")
            assert whole.final["usage"]["completion_tokens"] == 3
        quiet = {"stream": True, "stream_options": {"include_usage": False}, "golden": FAST}
        final = read_exchange(await client.post(f"{server.url}/v1/chat/completions", quiet)).final
        assert "usage" not in final


async def test_what_is_told_of_cache_and_speculation_is_what_it_says() -> None:
    async with GoldenServer() as server, Client() as client:
        reading = await ask(
            server,
            client,
            tokens=9,
            prompt_tokens=100,
            cached_tokens=64,
            steps=4,
            accepted=5,
            drafted=12,
            timings=True,
        )
        silent = await ask(server, client, tokens=2)
    assert reading.final["usage"]["prompt_tokens_details"] == {"cached_tokens": 64}
    assert reading.final["metrics"]["speculative_decoding"]["num_accepted_draft_tokens"] == 5
    assert reading.final["timings"]["prompt_n"] == 36
    assert "prompt_tokens_details" not in silent.final["usage"]
    assert "metrics" not in silent.final


async def test_faults_come_where_they_were_ordered() -> None:
    async with GoldenServer() as server, Client() as client:
        cut = await ask(server, client, cut_after=3)
        assert (cut.status, len(cut.chunks), "cut after" in (cut.error or "")) == ("failed", 3, True)
        for form in ("object", "string", "text"):
            failed = await ask(server, client, error_after=2, error_form=form)
            assert (failed.status, len(failed.chunks)) == ("failed", 2)
            assert "told to fail" in (failed.error or "")
        refused = await ask(server, client, error_after=0, error_form="status")
        assert refused.error == "the server answered 500: The golden server was told to fail."
        body = {"stream": True, "golden": {**FAST, "hang_after": 2}}
        hung = await client.stream(ChatRequest(f"{server.url}/v1/chat/completions", body, deadline_s=0.1))
        assert len(read_exchange(hung).chunks) == 2
        assert "deadline" in (hung.error or "")
        await asyncio.sleep(0.01)
        assert isinstance(server.source, Script)
        assert server.source.running == server.source.waiting == 0
        assert [each.ended for each in server.log.values()] == ["cut", "error", "error", "error", "hang"]


async def test_rates_of_faults_are_drawn_the_same_again() -> None:
    ended: list[list[str | None]] = []
    for _ in range(2):
        options = Options(ttft_ms=0, step_ms=0, tokens=5, cut_rate=0.3, error_rate=0.3, seed=7)
        async with GoldenServer(Script(options)) as server, Client() as client:
            for _ in range(40):
                await client.post(f"{server.url}/v1/chat/completions", {"stream": True})
            ended.append([each.ended for each in server.log.values()])
    assert ended[0] == ended[1]
    assert 5 <= ended[0].count("cut") <= 20
    assert 3 <= ended[0].count("error") <= 17


async def test_times_are_as_ordered_and_the_log_is_when_it_really_wrote() -> None:
    options = Options(ttft_ms=30, step_ms=10, tokens=12, tokens_per_chunk=2, token_ids=True)
    async with GoldenServer(Script(options)) as server, Client() as client:
        exchange = await client.post(f"{server.url}/v1/chat/completions", {"stream": True})
        logged = (await client.get(f"{server.url}/golden/log")).json()["requests"][0]
        await client.stream(ChatRequest(f"{server.url}/golden/log", None))
    reading = read_exchange(exchange)
    written = server.log[0]
    assert logged == written.to_json()
    assert [due - written.arrived_ns for due in written.due_ns] == [
        30_000_000 + 10_000_000 * n for n in range(6)
    ]
    assert all(wrote >= due for wrote, due in zip(written.written_ns, written.due_ns, strict=True))
    assert list(written.tokens) == [2] * 6
    stamps = list(reading.chunks.times_ns)
    late = [stamp - wrote for stamp, wrote in zip(stamps, written.written_ns, strict=True)]
    assert 0 <= statistics.median(late) < 5_000_000
    rate, _, _ = decode_rate(stamps, reading.chunks.tokens)
    true_rate, _, _ = decode_rate(written.written_ns, written.tokens)
    assert rate == pytest.approx(true_rate, rel=0.3)


@pytest.mark.parametrize("early", [True, False])
async def test_what_precedes_the_first_token_is_none(early: bool) -> None:
    shape = {"early": early, "comments": "ping", "empty_choices_first": True}
    async with GoldenServer() as server, Client() as client:
        body = {"stream": True, "golden": {"ttft_ms": 40, "step_ms": 5, "tokens": 3, **shape}}
        exchange = await client.post(f"{server.url}/v1/chat/completions", body)
    reading = read_exchange(exchange)
    assert reading.first_ns is not None
    assert reading.first_ns - exchange.sent_ns >= 40_000_000
    assert len(reading.chunks) == 3


async def test_the_log_is_emptied() -> None:
    async with GoldenServer() as server, Client() as client:
        await ask(server, client, tokens=1)
        assert len(server.log) == 1
        await client.delete(f"{server.url}/golden/log")
        assert server.log == {}


async def test_a_limit_makes_the_rest_wait() -> None:
    options = Options(ttft_ms=10, step_ms=5, tokens=5)
    async with GoldenServer(Script(options, limit=2)) as server, Client() as client:
        await run_wave(client, [ChatRequest(f"{server.url}/v1/chat/completions", {"stream": True})] * 6)
        first = sorted(each.due_ns[0] - each.arrived_ns for each in server.log.values())
    assert first[1] == 10_000_000
    assert first[2] > 28_000_000
    assert first[4] > 55_000_000


async def test_a_client_that_leaves_frees_its_place() -> None:
    options = Options(ttft_ms=5, step_ms=5, tokens=1000)
    async with GoldenServer(Script(options, limit=1)) as server, Client() as client:
        url = f"{server.url}/v1/chat/completions"
        left = await asyncio.gather(
            client.stream(ChatRequest(url, {"stream": True}, deadline_s=0.05)),
            client.stream(ChatRequest(url, {"stream": True}, deadline_s=0.08)),
        )
        assert all("deadline" in (each.error or "") for each in left)
        stayed = await client.post(url, {"stream": True, "max_tokens": 2})
        assert read_exchange(stayed).status == "ok"
        assert {each.ended for each in server.log.values()} == {"gone", "done"}


def test_staggered_streams_are_spread_over_the_step() -> None:
    script = Script(Options(ttft_ms=50, step_ms=20, stagger=True))
    for number in range(64):
        script.start(Ask(number, 0, True, {}))
    due = sorted(piece.due_ns for piece in script.advance(70_000_000))[:64]
    gaps = [later - earlier for earlier, later in itertools.pairwise(due)]
    assert max(gaps) < 2.5 * 20_000_000 / 64


def test_jitter_only_delays() -> None:
    script = Script(Options(ttft_ms=0, step_ms=10, jitter_ms=5, tokens=50))
    script.start(Ask(0, 0, True, {}))
    due = [piece.due_ns for piece in script.advance(10**10)]
    late = [at - place * 10_000_000 for place, at in enumerate(due)]
    assert all(0 <= each <= 5_000_000 for each in late)
    assert len(set(late)) > 40


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tftt_ms": 3}, "no option 'tftt_ms'"),
        ({"ttft_ms": "soon"}, "ttft_ms is a number, not 'soon'"),
        ({"ttft_ms": -1}, "ttft_ms is at least 0"),
        ({"tokens": 1.5}, "tokens is a whole number"),
        ({"tokens": True}, "tokens is a whole number"),
        ({"usage": "somewhere"}, "usage is one of after, finish"),
        ({"done": "maybe"}, "done is true or false"),
        ({"cut_rate": 2}, "cut_rate is a share"),
        ({"tokens_per_chunk": 0}, "tokens_per_chunk is at least 1"),
    ],
)
async def test_an_order_that_cannot_be_kept_is_refused_in_words(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Options().with_changes(changes)
    async with GoldenServer() as server, Client() as client:
        reading = await ask(server, client, **changes)
    assert (reading.status, reading.error_code) == ("failed", 400)
    assert words in (reading.error or "")


def test_options_are_read_from_texts() -> None:
    changed = Options().with_changes(
        {"ttft_ms": "3", "tokens": "7", "done": "false", "cut_after": "", "usage": "none"}
    )
    assert (changed.ttft_ms, changed.tokens, changed.done, changed.cut_after, changed.usage) == (
        3.0,
        7,
        False,
        None,
        "none",
    )


async def test_requests_that_are_wrong() -> None:
    async with GoldenServer() as server, Client() as client:
        chat = f"{server.url}/v1/chat/completions"
        assert (await client.post(chat, {"max_tokens": 0})).http_status == 400
        assert (await client.get(chat)).http_status == 404
        assert (await client.get(f"{server.url}/nowhere")).http_status == 404
        assert (await client.get(f"{server.url}/v1/models")).json()["data"][0]["id"] == "golden"
        by_query = await client.post(f"{chat}?tokens=2&ttft_ms=1", {"stream": True})
        assert len(read_exchange(by_query).chunks) == 2
        reader, writer = await asyncio.open_connection(server.host, server.port)
        writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 3\r\n\r\n[1]")
        assert b"400 Bad Request" in await reader.readline()
        writer.write(b"\x00\x01 nonsense\r\n\r\n")
        assert b"not HTTP" in await reader.read()
        writer.close()


async def test_a_port_in_use_is_told() -> None:
    async with GoldenServer() as server:
        with pytest.raises(UsageError, match="cannot listen"):
            async with GoldenServer(port=server.port):
                pass


class Metronome:
    """The smallest other source: three pieces, and a page."""

    def __init__(self) -> None:
        self._pieces: list[Piece] = []

    def start(self, ask: Ask) -> None:
        for place in range(3):
            finish = "stop" if place == 2 else None
            due_ns = ask.arrived_ns + place * 1_000_000
            self._pieces.append(Piece(ask.number, due_ns, content="tick ", token_ids=(place,), finish=finish))

    def due(self) -> int | None:
        return self._pieces[0].due_ns if self._pieces else None

    def advance(self, now_ns: int) -> Iterator[Piece]:
        while self._pieces and self._pieces[0].due_ns <= now_ns:
            yield self._pieces.pop(0)

    def drop(self, number: int) -> None:
        self._pieces = [each for each in self._pieces if each.number != number]

    def page(self, method: str, path: str, body: bytes) -> Page | None:
        return Page(b"ticks 3\n", content_type="text/plain") if path == "/metrics" else None


async def test_another_source_takes_the_scripts_place() -> None:
    async with GoldenServer(Metronome()) as server, Client() as client:
        reading = await ask(server, client)
        page = await client.get(f"{server.url}/metrics")
    assert (reading.status, reading.content) == ("ok", "tick tick tick ")
    assert page.text == "ticks 3\n"


async def test_the_server_runs_in_a_process_of_its_own_and_ends_with_ours() -> None:
    with GoldenProcess("--ttft-ms", "1", "--step-ms", "1", "--tokens", "3", "--limit", "4") as golden:
        async with Client() as client:
            reading = read_exchange(await client.post(f"{golden.url}/v1/chat/completions", {"stream": True}))
        assert len(reading.chunks) == 3
        pid = golden.pid
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    with (
        pytest.raises(UsageError, match=r"did not start(.|\n)*step_ms is at least 0"),
        GoldenProcess("--step-ms", "-1"),
    ):
        pass


def test_the_server_does_not_outlive_a_parent_that_was_killed() -> None:
    code = (
        "import time\nfrom kvantage.golden import GoldenProcess\n"
        "with GoldenProcess() as golden:\n    print(golden.pid, flush=True)\n    time.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    parent.send_signal(signal.SIGKILL)
    parent.communicate()
    for _ in range(200):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    os.kill(pid, signal.SIGKILL)
    pytest.fail("the golden server outlived its parent")


async def test_a_running_count_is_told_to_who_asks_for_it() -> None:
    options = Options(ttft_ms=1, step_ms=1, tokens=10, tokens_per_chunk=4)
    counted = {"include_usage": True, "continuous_usage_stats": True}
    async with GoldenServer(Script(options)) as server, Client() as client:
        url = f"{server.url}/v1/chat/completions"
        for wants, tokens in ((counted, [4, 4, 2]), ({"include_usage": True}, [-1, -1, -1])):
            reading = read_exchange(
                await client.stream(ChatRequest(url, {"stream": True, "stream_options": wants}))
            )
            assert list(reading.chunks.tokens) == tokens
            assert reading.final["usage"]["completion_tokens"] == 10
