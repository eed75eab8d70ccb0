"""One HTTP/1.1 connection. Its read path stamps, strips HTTP's framing, and stores; nothing else."""

from __future__ import annotations

import asyncio
from array import array
from dataclasses import dataclass
from time import monotonic_ns
from typing import TYPE_CHECKING, Protocol

import httptools

from kvantage.client.request import Origin

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(slots=True)
class Progress:
    """Counters that anything may poll while requests run."""

    in_flight: int = 0
    sent: int = 0
    finished: int = 0
    failed: int = 0
    reads: int = 0
    bytes: int = 0


class Answer:
    """An answer while it arrives. The HTTP parser calls `on_*`; `on_body` is the bytearray's own method."""

    __slots__ = (
        "begun_ns",
        "body",
        "complete",
        "done",
        "end_ns",
        "error",
        "framed",
        "headers",
        "keep_alive",
        "on_body",
        "parser",
        "read_ends",
        "read_ns",
        "sent_ns",
        "status",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.body = bytearray()
        self.on_body: Callable[[bytes], None] = self.body.extend
        self.read_ns: array[int] = array("q")
        self.read_ends: array[int] = array("q")
        self.headers: list[tuple[str, str]] = []
        self.status: int | None = None
        self.framed = False
        self.complete = False
        self.keep_alive = False
        self.begun_ns = 0
        self.sent_ns = 0
        self.end_ns = 0
        self.error: str | None = None
        self.done: asyncio.Future[None] = loop.create_future()
        self.parser = httptools.HttpResponseParser(self)

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.decode("latin-1"), value.decode("latin-1")))

    def on_headers_complete(self) -> None:
        status = self.parser.get_status_code()
        if 100 <= status < 200:
            self.headers.clear()
            return
        self.status = status
        self.framed = any(name.lower() in ("content-length", "transfer-encoding") for name, _ in self.headers)

    def on_message_complete(self) -> None:
        if self.status is not None:
            self.complete = True
            self.keep_alive = self.parser.should_keep_alive()

    def settle(self, end_ns: int, error: str | None) -> None:
        """The answer is over; `error` says why it is not whole."""
        self.end_ns = max(end_ns, self.sent_ns)
        self.error = error
        del self.parser  # it holds this object's methods: a cycle that only the collector would free
        if not self.done.done():
            self.done.set_result(None)


class Carrier(Protocol):
    """What moves a connection's bytes. It calls `Connection.received`, `.drained` and `.lost`."""

    def write(self, data: bytes) -> bool:
        """Hand bytes over; False while some of them are still ours."""
        ...

    def abort(self) -> None:
        """Close at once, whatever is unsent; safe to call again."""
        ...


class Connection:
    """Serves one request at a time, and says whether it can serve another."""

    __slots__ = ("_answer", "_carrier", "_loop", "_lost", "_progress", "closed", "origin", "served")

    def __init__(self, loop: asyncio.AbstractEventLoop, origin: Origin, progress: Progress) -> None:
        self.origin = origin
        self.served = 0
        self.closed: asyncio.Future[None] = loop.create_future()
        self._loop = loop
        self._progress = progress
        self._answer: Answer | None = None
        self._carrier: Carrier | None = None
        self._lost = False

    @property
    def usable(self) -> bool:
        """True when it can take a request now."""
        return not self._lost and self._answer is None and self._carrier is not None

    def send(self, data: bytes) -> Answer:
        """Write a request and return the answer-to-be. `sent_ns` is when its last byte left our hands."""
        assert self.usable
        assert self._carrier is not None
        answer = self._answer = Answer(self._loop)
        answer.begun_ns = answer.sent_ns = monotonic_ns()
        self._carrier.write(data)
        return answer

    def cut(self, error: str) -> None:
        """Give up on the answer that is under way and close at once."""
        self._end(monotonic_ns(), error)
        self.close()

    def close(self) -> None:
        """Close at once; safe to call again."""
        self._lost = True
        if self._carrier is not None:
            self._carrier.abort()

    # the carrier calls these

    def carried_by(self, carrier: Carrier) -> None:
        """The socket is connected."""
        self._carrier = carrier

    def received(self, data: memoryview, arrived_ns: int) -> None:
        """A read: its bytes (valid during the call), and when the last of them arrived."""
        answer = self._answer
        if answer is None:
            self.close()
            return
        try:
            answer.parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._end(arrived_ns, f"the answer is not HTTP: {error or type(error).__name__}")
            self.close()
            return
        answer.read_ns.append(arrived_ns)
        answer.read_ends.append(len(answer.body))
        progress = self._progress
        progress.reads += 1
        progress.bytes += len(data)
        if answer.complete:
            self._end(arrived_ns, None)
            if not answer.keep_alive:
                self.close()

    def drained(self, at_ns: int) -> None:
        """The last byte of a request that did not go out at once has gone out now."""
        if self._answer is not None and not self._answer.read_ns:
            self._answer.sent_ns = at_ns

    def lost(self, exc: Exception | None) -> None:
        """The connection is gone: closed by the server (None), broken, or closed by us."""
        self._lost = True
        answer = self._answer
        if answer is not None:
            whole = answer.status is not None and not answer.framed and exc is None
            self._end(monotonic_ns(), None if whole else _why_lost(answer, exc))
        if not self.closed.done():
            self.closed.set_result(None)

    def _end(self, now: int, error: str | None) -> None:
        answer, self._answer = self._answer, None
        if answer is not None:
            self.served += 1
            answer.settle(now, error)


def _why_lost(answer: Answer, exc: Exception | None) -> str:
    what = f" ({exc.strerror or exc})" if isinstance(exc, OSError) else f" ({exc})" if exc else ""
    if answer.status is None:
        return f"the server closed the connection before it answered{what}"
    return f"the answer was cut after {len(answer.body)} bytes: the server closed the connection{what}"
