"""The HTTP server: writes what its source says, when it says so, and logs when it really did."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import TracebackType
from typing import Any, cast
from urllib.parse import parse_qsl, urlsplit

import httptools

from kvantage.core import UsageError
from kvantage.core.stamps import NOTES_BYTES, arrival_ns, ask_for_stamps, stamping
from kvantage.core.timer import Ticker
from kvantage.golden.log import Written
from kvantage.golden.options import Options
from kvantage.golden.script import Script
from kvantage.golden.source import Ask, Page, Piece, Source
from kvantage.golden.wire import Wire

COMPLETIONS = {"/v1/chat/completions": True, "/v1/completions": False}
LOG_PATH = "/golden/log"
REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 500: "Internal Server Error"}
STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
    b"Cache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n\r\n"
)


class GoldenServer:
    """Serves on the loopback while the block is open.

        async with GoldenServer(Script(Options(ttft_ms=50, step_ms=20))) as server:
            server.url          # http://127.0.0.1:PORT
            server.log          # what was written when, by request number

    `source` decides what is said and when; `options` are the stream's shape where a request does not say.
    Over HTTP, `GET /golden/log` gives the log as JSON and `DELETE /golden/log` empties it.
    """

    def __init__(
        self,
        source: Source | None = None,
        *,
        options: Options | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        script = source if source is not None else Script(options)
        self.source: Source = script
        self.options = options or (script.options if isinstance(script, Script) else Options())
        self.host = host
        self.port = port
        self.log: dict[int, Written] = {}
        self.inbox = memoryview(bytearray(256 * 1024))
        self._number = 0
        self._streams: dict[int, _Stream] = {}
        self._links: set[_Link] = set()

    @property
    def url(self) -> str:
        """The server's address, without a path."""
        return f"http://{self.host}:{self.port}"

    async def __aenter__(self) -> GoldenServer:
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(lambda: _Link(self), self.host, self.port, backlog=4096)
        except OSError as error:
            raise UsageError(
                f"the golden server cannot listen on {self.host}:{self.port}: {error.strerror or error}",
                hint="give it another port, or 0 for any free one",
            ) from error
        self._stamping = stamping()
        self.port = self._server.sockets[0].getsockname()[1]
        self._ticker = Ticker(self._write_due)
        self._ticker.__enter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ticker.__exit__(kind, error, trace)
        self._server.close()
        for link in list(self._links):
            link.close()
        self._stamping.close()
        await self._server.wait_closed()
        await asyncio.sleep(0)

    def take(self, link: _Link, request: _Request) -> None:
        """Answer one request, now or as its source says."""
        path, query = _split(request.target)
        if path == LOG_PATH:
            link.answer(self._log_page(request.method))
            return
        if request.method == "POST" and path in COMPLETIONS:
            self._start(link, request, COMPLETIONS[path], query)
            return
        if path == "/health":
            page: Page | None = Page(b"{}")
        elif path == "/v1/models":
            page = Page(
                json.dumps({"object": "list", "data": [{"id": "golden", "object": "model"}]}).encode()
            )
        else:
            page = None
        page = self.source.page(request.method, path, bytes(request.body)) or page
        link.answer(page or _error_page(404, f"there is nothing at {path}"))

    def drop(self, link: _Link) -> None:
        """The client closed its connection."""
        self._links.discard(link)
        if link.number is not None and (stream := self._streams.pop(link.number, None)) is not None:
            stream.written.ended = stream.written.ended or "gone"
            self.source.drop(link.number)
            self._ticker.ring_at(self.source.due())

    def join(self, link: _Link) -> None:
        """A client opened a connection."""
        self._links.add(link)

    def _start(self, link: _Link, request: _Request, chat: bool, query: Mapping[str, Any]) -> None:
        number, self._number = self._number, self._number + 1
        try:
            body = json.loads(bytes(request.body))
            if not isinstance(body, dict):
                raise ValueError("the body is not a JSON object")
            own = body.get("golden")
            asked = {**query, **(own if isinstance(own, dict) else {})}
            if isinstance(self.source, Script) and _wants_counts(body, self.options):
                asked.setdefault("usage", "every")
            options = self.options.with_changes(asked)
            ask = Ask(number, request.arrived_ns, chat, body, asked)
            if options.error_form == "status" and options.error_after is not None:
                link.answer(_error_page(500, "The golden server was told to fail."))
                return
            self.source.start(ask)
        except (ValueError, RecursionError, UsageError) as error:
            link.answer(_error_page(400, str(error)))
            return
        written = self.log[number] = Written(number, request.arrived_ns)
        self._streams[number] = stream = _Stream(link, Wire(ask, options), written, bool(body.get("stream")))
        link.number = number
        if stream.streamed:
            first = stream.wire.first() if options.early else b""
            link.write(STREAM_HEAD + (_http_chunk(first) if first else b""))
        self._ticker.ring_at(self.source.due())

    def _write_due(self) -> None:
        source, now = self.source, time.monotonic_ns()
        while (due := source.due()) is not None and due <= now:
            for piece in source.advance(now):
                stream = self._streams.get(piece.number)
                if stream is not None and not stream.put(piece):
                    del self._streams[piece.number]
                    stream.link.number = None
            now = time.monotonic_ns()
        self._ticker.ring_at(due)

    def _log_page(self, method: str) -> Page:
        if method == "DELETE":
            self.log = {number: each for number, each in self.log.items() if each.ended is None}
            return Page(b"{}")
        return Page(json.dumps({"requests": [each.to_json() for each in self.log.values()]}).encode())


@dataclass(slots=True)
class _Request:
    method: str
    target: str
    body: bytearray
    arrived_ns: int


class _Stream:
    """A request that is being answered."""

    __slots__ = ("kept", "link", "streamed", "torn", "wire", "written")

    def __init__(self, link: _Link, wire: Wire, written: Written, streamed: bool) -> None:
        self.link = link
        self.wire = wire
        self.written = written
        self.streamed = streamed
        self.torn = b""
        self.kept: list[Piece] = []

    def put(self, piece: Piece) -> bool:
        """Write a piece; False when the answer is over."""
        if piece.fault is not None:
            return self.fail(piece)
        if not self.streamed:
            self.kept.append(piece)
            now = time.monotonic_ns()
            self.written.note(piece.due_ns, now, len(piece.token_ids))
            if piece.finish is not None:
                self.written.ended = "done"
                self.link.answer(Page(self.wire.whole(self.kept)))
            return piece.finish is None
        data = self.wire.chunk(piece)
        if not self.written.written_ns and not self.torn and not self.wire.options.early:
            data = self.wire.first() + data
        data = b"%x\r\n%b\r\n" % (len(data), data)
        last = piece.finish is not None
        if last:
            data += b"0\r\n\r\n"
        if self.torn:
            self.link.write(self.torn)
            self.torn = b""
        if self.wire.options.torn and not last:
            half = _tear(data)
            self.link.write(data[:half])
            self.torn = data[half:]
            asyncio.get_running_loop().call_later(0.002, self.mend, piece)
            return True
        now = time.monotonic_ns()
        self.link.write(data)
        self.written.note(piece.due_ns, now, len(piece.token_ids))
        if last:
            self.written.ended = "done"
        return not last

    def mend(self, piece: Piece) -> None:
        """Write the second half of a torn chunk: the chunk is written when this is."""
        torn, self.torn = self.torn, b""
        now = time.monotonic_ns()
        self.written.note(piece.due_ns, now, len(piece.token_ids))
        if torn:
            self.link.write(torn)

    def fail(self, piece: Piece) -> bool:
        """Break as told."""
        self.written.ended = piece.fault
        if piece.fault == "hang":
            return True
        if piece.fault == "error" and self.streamed:
            self.link.write(_http_chunk(self.wire.error()) + b"0\r\n\r\n")
        elif piece.fault == "error":
            self.link.answer(_error_page(500, "The golden server was told to fail."))
        else:
            self.link.close()
        return False


class _Link(asyncio.BufferedProtocol):
    """One client's connection."""

    def __init__(self, server: GoldenServer) -> None:
        self.number: int | None = None
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpRequestParser(self)
        self._target = ""
        self._body = bytearray()
        self._inbox = server.inbox
        self._twin: socket.socket | None = None
        self._arrived_ns: int | None = None
        self._now = 0

    def write(self, data: bytes) -> None:
        """Hand bytes to the socket."""
        if self._transport is not None:
            self._transport.write(data)

    def answer(self, page: Page) -> None:
        """Write a whole answer."""
        head = (
            f"HTTP/1.1 {page.status} {REASONS.get(page.status, 'Status')}\r\n"
            f"Content-Type: {page.content_type}\r\nContent-Length: {len(page.body)}\r\n\r\n"
        )
        self.write(head.encode() + page.body)
        if self._transport is not None and not self._parser.should_keep_alive():
            self._transport.close()  # what is written still goes out

    def close(self) -> None:
        """Close at once, whatever is unsent."""
        if self._transport is not None:
            self._transport.abort()

    # asyncio and httptools call these

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        with contextlib.suppress(OSError):
            twin = socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno()))
            if ask_for_stamps(twin):
                self._twin = twin
            else:
                twin.close()
        self._server.join(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._twin is not None:
            self._twin.close()
        self._server.drop(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        # asyncio reads next, without the kernel's notes: look at the same bytes first, for their stamp
        self._arrived_ns = None
        if self._twin is not None:
            with contextlib.suppress(OSError):
                _, notes, _, _ = self._twin.recvmsg_into((self._inbox,), NOTES_BYTES, socket.MSG_PEEK)
                self._arrived_ns = arrival_ns(notes, time.time_ns(), time.monotonic_ns())
        return self._inbox

    def buffer_updated(self, nbytes: int) -> None:
        now = time.monotonic_ns()
        self._now = now if self._arrived_ns is None else min(now, self._arrived_ns)
        try:
            self._parser.feed_data(self._inbox[:nbytes])
        except httptools.HttpParserError:
            self.answer(_error_page(400, "this is not HTTP"))
            if self._transport is not None:
                self._transport.close()

    def on_message_begin(self) -> None:
        self._target = ""
        self._body = bytearray()

    def on_url(self, url: bytes) -> None:
        self._target += url.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        method = self._parser.get_method().decode("ascii")
        self._server.take(self, _Request(method, self._target, self._body, self._now))


@lru_cache(maxsize=256)
def _split(target: str) -> tuple[str, Mapping[str, str]]:
    """The path and the query of a request's target."""
    parts = urlsplit(target)
    return parts.path, dict(parse_qsl(parts.query))


def _wants_counts(body: Mapping[str, Any], options: Options) -> bool:
    """Whether a running count is asked for, as vLLM and SGLang give one, of a server that tells usage."""
    wants = body.get("stream_options")
    told = isinstance(wants, Mapping) and wants.get("include_usage") and wants.get("continuous_usage_stats")
    return bool(told) and options.usage in ("after", "null")


def _http_chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _tear(data: bytes) -> int:
    """Where to tear: inside the last character of several bytes, or in the middle."""
    for place in range(len(data) - 1, 0, -1):
        if data[place] & 0xC0 == 0x80:
            return place
    return len(data) // 2


def _error_page(status: int, message: str) -> Page:
    return Page(json.dumps({"error": {"message": message, "code": status}}).encode(), status)
