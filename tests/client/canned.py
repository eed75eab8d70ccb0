"""A server that sends exactly the bytes it is told, in exactly the writes it is told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Any

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def http_chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def streamed(body: bytes, *, head: bytes = HEAD) -> bytes:
    """A whole chunked answer, in one HTTP chunk."""
    return head + (http_chunk(body) if body else b"") + b"0\r\n\r\n"


def whole(body: bytes, *, status: str = "200 OK", content_type: str = "application/json") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


class Canned:
    """Answers every request with `pieces`, one write each, waiting `between` them.

    `after` is what happens at the end: keep (the connection), close, reset, or hang.
    """

    def __init__(self, *pieces: bytes, after: str = "keep", ssl: Any = None) -> None:
        self.pieces: Sequence[bytes] = pieces
        self.after = after
        self.between: Callable[[], Awaitable[None]] | None = None
        self.requests: list[bytes] = []
        self.connections = 0
        self.lost = 0
        self._ssl = ssl
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Canned:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=self._ssl)
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"{'https' if self._ssl else 'http'}://127.0.0.1:{port}/v1/chat/completions"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = 0
                for line in head.split(b"\r\n"):
                    name, _, value = line.partition(b":")
                    if name.lower() == b"content-length":
                        length = int(value)
                self.requests.append(head + await reader.readexactly(length))
                for piece in self.pieces:
                    writer.write(piece)
                    if self.between is not None:
                        await self.between()
                if self.after == "reset":
                    writer.transport.abort()
                if self.after in ("close", "reset"):
                    return
                if self.after == "hang":
                    await reader.read()
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            self.lost += 1
        finally:
            writer.close()
