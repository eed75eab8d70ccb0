"""What servers and networks do to a client, and what it says of it."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kvantage.client import ChatRequest, Client, prepare, read_exchange, run_wave
from kvantage.core import UsageError
from tests.client.canned import HEAD, Canned, http_chunk, streamed, whole

HELLO = b'data: {"choices":[{"index":0,"delta":{"content":"Hello"},"finish_reason":null}]}\n\n'
STOP = b'data: {"choices":[{"index":0,"delta":{"content":"!"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'


def free_port() -> int:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return int(made.getsockname()[1])


async def until(true: Callable[[], bool]) -> None:
    while not true():  # noqa: ASYNC110
        await asyncio.sleep(0)


async def test_nothing_listens() -> None:
    port = free_port()
    async with Client() as client:
        exchange = await client.stream(ChatRequest(f"http://127.0.0.1:{port}/v1/chat/completions", {}))
    assert exchange.error == f"127.0.0.1:{port} refused the connection: nothing listens there"
    reading = read_exchange(exchange)
    assert (reading.status, reading.error, reading.first_ns) == ("failed", exchange.error, None)
    assert exchange.end_ns >= exchange.sent_ns >= exchange.intended_ns


async def test_a_host_that_does_not_exist() -> None:
    async with Client() as client:
        exchange = await client.stream(ChatRequest("http://no-such-host.invalid/v1", {}, deadline_s=5))
        strange = await client.stream(ChatRequest(f"http://{'x' * 80}.invalid/v1", {}, deadline_s=5))
    assert "no-such-host.invalid:80" in (exchange.error or "")
    assert strange.error is not None


async def test_a_reset_before_the_answer() -> None:
    async with Canned(after="reset") as server, Client() as client:
        exchange = await client.stream(ChatRequest(server.url, {}))
        assert server.connections == 1
    assert "the server closed the connection before it answered" in (exchange.error or "")


@pytest.mark.parametrize("after", ["close", "reset"])
async def test_a_cut_stream_keeps_what_came(after: str) -> None:
    async with (
        Canned(HEAD, http_chunk(HELLO), http_chunk(HELLO[:30]), after=after) as server,
        Client() as client,
    ):
        server.between = lambda: asyncio.sleep(0.005)
        exchange = await client.stream(ChatRequest(server.url, {}))
    reading = read_exchange(exchange)
    assert reading.status == "failed"
    assert reading.content == "Hello"
    assert len(reading.chunks) == 1
    assert f"cut after {len(HELLO) + 30} bytes" in (reading.error or "")


async def test_a_stream_that_never_ends_is_cut_at_its_deadline() -> None:
    async with Canned(HEAD, http_chunk(HELLO), after="hang") as server, Client() as client:
        started = time.monotonic()
        exchange = await client.stream(ChatRequest(server.url, {}, deadline_s=0.1))
        assert 0.09 < time.monotonic() - started < 1
        assert exchange.error == "no end within 0.1 s (the request's deadline)"
        assert read_exchange(exchange).content == "Hello"
        assert client.progress.in_flight == 0
        other = await client.stream(ChatRequest(server.url, {}, deadline_s=0.1))
        assert not other.reused


async def test_a_server_that_never_answers() -> None:
    async with Canned(after="hang") as server, Client() as client:
        exchange = await client.stream(ChatRequest(server.url, {}, deadline_s=0.05))
    assert exchange.http_status is None
    assert "deadline" in (exchange.error or "")


async def test_cancelling_closes_the_socket_and_says_nothing() -> None:
    async with Canned(HEAD, http_chunk(HELLO), after="hang") as server, Client() as client:
        wave = asyncio.create_task(run_wave(client, [ChatRequest(server.url, {})] * 3))
        await until(lambda: client.progress.reads >= 3)
        wave.cancel()
        with pytest.raises(asyncio.CancelledError):
            await wave
        assert client.progress.in_flight == 0
        assert not client.connections


async def test_leaving_the_client_ends_what_is_under_way() -> None:
    async with Canned(HEAD, http_chunk(HELLO), after="hang") as server:
        async with Client() as client:
            running = asyncio.create_task(client.stream(ChatRequest(server.url, {})))
            await until(lambda: client.progress.reads >= 1)
        exchange = await running
    assert exchange.error == "the client was closed"


async def test_a_connection_serves_again_and_again() -> None:
    async with Canned(streamed(HELLO + STOP)) as server, Client() as client:
        exchanges = [await client.stream(ChatRequest(server.url, {})) for _ in range(5)]
        assert server.connections == 1
    assert [each.reused for each in exchanges] == [False, True, True, True, True]
    assert all(read_exchange(each).status == "ok" for each in exchanges)


async def test_a_connection_that_is_not_kept_is_not_reused() -> None:
    head = HEAD.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    async with Canned(streamed(HELLO + STOP, head=head), after="hang") as server, Client() as client:
        for _ in range(2):
            exchange = await client.stream(ChatRequest(server.url, {}, deadline_s=2))
            assert read_exchange(exchange).content == "Hello!"
        assert server.connections == 2


async def test_an_idle_connection_that_the_server_closed_is_replaced() -> None:
    async with Canned(streamed(HELLO + STOP), after="close") as server, Client() as client:
        for _ in range(3):
            exchange = await client.stream(ChatRequest(server.url, {}))
            assert exchange.ok
            await asyncio.sleep(0.01)
        assert server.connections == 3


async def test_a_reused_connection_that_dies_under_the_request_is_tried_once_more_anew() -> None:
    async with Canned(streamed(HELLO + STOP)) as server, Client() as client:
        await client.stream(ChatRequest(server.url, {}))
        server.pieces, server.after = (), "reset"
        exchange = await client.stream(ChatRequest(server.url, {}))
        assert "before it answered" in (exchange.error or "")
        assert server.connections == 2
        assert not exchange.reused


async def test_an_answer_that_ends_with_the_connection() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
    async with Canned(head, HELLO, STOP, after="close") as server, Client() as client:
        reading = read_exchange(await client.stream(ChatRequest(server.url, {})))
    assert (reading.status, reading.content) == ("ok", "Hello!")


async def test_a_stream_without_finish_and_done_is_not_ok_though_http_is_whole() -> None:
    async with Canned(streamed(HELLO)) as server, Client() as client:
        reading = read_exchange(await client.stream(ChatRequest(server.url, {})))
    assert reading.status == "failed"
    assert reading.error == "the stream ended after 1 chunks with neither a finish reason nor [DONE]"


async def test_the_last_blank_line_may_be_missing_when_http_is_whole() -> None:
    async with Canned(streamed((HELLO + STOP).rstrip())) as server, Client() as client:
        reading = read_exchange(await client.stream(ChatRequest(server.url, {})))
    assert (reading.status, reading.content, reading.done) == ("ok", "Hello!", True)


async def test_an_empty_200() -> None:
    async with Canned(streamed(b"")) as server, Client() as client:
        reading = read_exchange(await client.stream(ChatRequest(server.url, {})))
    assert reading.error == "the server answered 200 with nothing in it"


async def test_an_empty_answer_that_ended_well_is_ok() -> None:
    body = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    async with Canned(streamed(body)) as server, Client() as client:
        reading = read_exchange(await client.stream(ChatRequest(server.url, {})))
    assert (reading.status, reading.content, len(reading.chunks)) == ("ok", "", 0)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"error":{"message":"no such model","code":404}}', "the server answered 404: no such model"),
        (b'{"object":"error","message":"too long"}', "the server answered 404: too long"),
        (b'{"detail":"Not Found"}', 'the server answered 404: {"detail":"Not Found"}'),
        (b"<html>gone</html>", "the server answered 404: <html>gone</html>"),
        (b"", "the server answered 404"),
    ],
)
async def test_a_refusal_is_told_in_the_servers_words(body: bytes, words: str) -> None:
    async with Canned(whole(body, status="404 Not Found")) as server, Client() as client:
        exchange = await client.stream(ChatRequest(server.url, {}))
    reading = read_exchange(exchange)
    assert (reading.status, reading.error, exchange.ok) == ("failed", words, False)


@pytest.mark.parametrize(
    ("event", "words", "code"),
    [
        (b'data: {"error":{"message":"died","code":500}}', "the server sent an error: died", 500),
        (b'data: {"error":"died"}', "the server sent an error: died", None),
        (b'data: {"object":"error","message":"died","code":40303}', "the server sent an error: died", 40303),
        (b'data: "died"', "the server sent an error: died", None),
        (b"event: error\ndata: died", "the server sent an error: died", None),
        (b'event: error\ndata: {"message":"died"}', "the server sent an error: died", None),
        (b"data: died", "the stream holds an event that is not a JSON object: 'died'", None),
        (b"data: [1]", "the stream holds an event that is not a JSON object: '[1]'", None),
        (b'data: {"error":{}}', "the server sent an error: {}", None),
    ],
)
async def test_an_error_inside_a_200(event: bytes, words: str, code: int | None) -> None:
    async with Canned(streamed(HELLO + event + b"\n\ndata: [DONE]\n\n")) as server, Client() as client:
        reading = read_exchange(await client.stream(ChatRequest(server.url, {})))
    assert (reading.status, reading.error, reading.error_code) == ("failed", words, code)
    assert reading.content == "Hello"


async def test_what_is_not_http() -> None:
    async with Canned(b"SSH-2.0-OpenSSH_9.6\r\n", after="hang") as server, Client() as client:
        exchange = await client.stream(ChatRequest(server.url, {}, deadline_s=2))
    assert "the answer is not HTTP" in (exchange.error or "")


async def test_a_preliminary_answer_is_passed_over() -> None:
    answer = b"HTTP/1.1 100 Continue\r\n\r\n" + streamed(HELLO + STOP)
    async with Canned(answer) as server, Client() as client:
        exchange = await client.stream(ChatRequest(server.url, {}))
    assert exchange.http_status == 200
    assert read_exchange(exchange).content == "Hello!"


async def test_compression_that_was_not_asked_for() -> None:
    head = HEAD.replace(b"\r\n\r\n", b"\r\nContent-Encoding: gzip\r\n\r\n")
    async with Canned(streamed(b"\x1f\x8b", head=head)) as server, Client() as client:
        reading = read_exchange(await client.stream(ChatRequest(server.url, {})))
    assert reading.error == "the answer is compressed (gzip), which was not asked for"


async def test_an_answer_that_was_not_streamed_has_no_first_token() -> None:
    message = {"role": "assistant", "content": "Hello", "tool_calls": None}
    body = {
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3},
    }
    async with Canned(whole(json.dumps(body).encode())) as server, Client() as client:
        exchange = await client.post(server.url, {"a": 1})
        assert server.requests[0].endswith(b'{"a":1}')
    reading = read_exchange(exchange)
    assert exchange.json() == body
    assert (reading.status, reading.content, reading.first_ns, len(reading.chunks)) == (
        "ok",
        "Hello",
        None,
        0,
    )
    assert reading.final["usage"] == {"prompt_tokens": 3}


async def test_get_sends_no_body() -> None:
    async with Canned(whole(b"# HELP x\nx 1\n", content_type="text/plain")) as server, Client() as client:
        exchange = await client.get(server.url, headers={"Authorization": "Bearer k"})
        request = server.requests[0].decode()
    assert exchange.text == "# HELP x\nx 1\n"
    assert request.startswith("GET /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:")
    assert "Authorization: Bearer k\r\n" in request
    assert "content-length" not in request.lower()


async def test_a_long_prompt_is_sent_when_its_last_byte_is() -> None:
    async with Canned(streamed(HELLO + STOP)) as server, Client() as client:
        prompt = "x" * 20_000_000
        exchange = await client.stream(ChatRequest(server.url, {"prompt": prompt}, deadline_s=20))
        assert len(server.requests[0]) > len(prompt)
    reading = read_exchange(exchange)
    assert reading.status == "ok"
    assert exchange.begun_ns < exchange.sent_ns
    assert reading.first_ns is not None
    assert exchange.sent_ns < reading.first_ns


async def test_more_requests_than_connections_wait_and_it_shows() -> None:
    async with Canned(HEAD, streamed(HELLO + STOP, head=b"")) as server, Client(max_connections=1) as client:
        server.between = lambda: asyncio.sleep(0.02)
        exchanges = await run_wave(client, [ChatRequest(server.url, {})] * 3)
        assert server.connections == 1
    delays = sorted(each.send_delay_ns for each in exchanges)
    assert delays[1] > 15_000_000
    assert delays[2] > 30_000_000


async def test_tls(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(  # noqa: ASYNC221
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1",
         "-keyout", str(key), "-out", str(certificate)],
        check=True, capture_output=True,
    )  # fmt: skip
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    serving.load_cert_chain(certificate, key)
    trusting = ssl.create_default_context(cafile=str(certificate))
    async with Canned(HEAD, http_chunk(HELLO), http_chunk(STOP) + b"0\r\n\r\n", ssl=serving) as server:
        server.between = lambda: asyncio.sleep(0.005)
        async with Client(tls=trusting) as client:
            exchanges = [await client.stream(ChatRequest(server.url, {})) for _ in range(2)]
            readings = [read_exchange(each) for each in exchanges]
            assert [each.content for each in readings] == ["Hello!", "Hello!"]
            assert [each.reused for each in exchanges] == [False, True]
            assert len(readings[0].chunks) == 2
        async with Client() as doubting:
            exchange = await doubting.stream(ChatRequest(server.url, {}))
            assert "its certificate is not trusted" in (exchange.error or "")
    async with Canned() as plain, Client(tls=trusting) as client:
        exchange = await client.stream(ChatRequest(plain.url.replace("http:", "https:"), {}, deadline_s=0.3))
        assert exchange.error is not None


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("localhost:8000/v1", "is not an http address"),
        ("ftp://host/v1", "is not an http address"),
        ("http:///v1", "is not an http address"),
        ("http://host:99999/v1", "is not an address"),
        ("http://me:secret@host/v1", "holds a name or a password"),
        ("http://host/a b", "holds a space"),
    ],
)
def test_an_address_that_cannot_be_used(url: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        prepare(ChatRequest(url, {}))
    assert "secret" not in str(caught.value)


def test_a_header_that_would_break_out() -> None:
    with pytest.raises(UsageError, match="line break"):
        prepare(ChatRequest("http://host/", {}, headers={"Authorization": "Bearer k\r\nX: y"}))
    with pytest.raises(UsageError, match="latin-1"):
        prepare(ChatRequest("http://host/", {}, headers={"Authorization": "Bearer “k”"}))


def test_a_deadline_is_positive() -> None:
    with pytest.raises(UsageError, match="deadline"):
        ChatRequest("http://host/", {}, deadline_s=0)


def test_the_body_is_json_whatever_it_holds() -> None:
    prepared = prepare(
        ChatRequest("http://[::1]:8000/v1?a=b", {"text": "é\u2028\ud800"}, headers={"host": "me"})
    )
    head, _, body = prepared.data.partition(b"\r\n\r\n")
    assert json.loads(body) == {"text": "é\u2028\ud800"}
    assert head.startswith(b"POST /v1?a=b HTTP/1.1\r\n")
    assert head.lower().count(b"host:") == 1
    assert str(prepared.origin) == "[::1]:8000"
