"""The client: connections by origin, and requests through them. It never raises what a server does."""

from __future__ import annotations

import asyncio
import select
import ssl
import time
from collections import defaultdict
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from kvantage.client.carriers import INBOX_BYTES, Addresses, LoopCarrier, Sockets
from kvantage.client.connection import Answer, Connection, Progress
from kvantage.client.exchange import Exchange
from kvantage.client.lag import LagProbe
from kvantage.client.request import ChatRequest, Origin, Prepared, prepare, split_url


class Client:
    """An HTTP/1.1 client that times streams.

        async with Client() as client:
            exchange = await client.stream(ChatRequest(url, body, deadline_s=120))
            answer = await client.get("http://127.0.0.1:8000/metrics")

    Whatever the network or the server does comes back inside the Exchange (`error`); only a cancellation
    or a request that cannot be formed (UsageError) is raised. Leaving the block, or cancelling a call,
    closes the sockets at once.

    max_connections  at most so many at a time to one origin; a request beyond them waits, and the wait
                     shows in its send delay
    tls              the context of https origins; the system's certificates when not given
    """

    def __init__(self, *, max_connections: int = 4096, tls: ssl.SSLContext | None = None) -> None:
        self.progress = Progress()
        self.lag = LagProbe()
        self._max_connections = max_connections
        self._tls = tls
        self._idle: dict[Origin, list[Connection]] = defaultdict(list)
        self._open: set[Connection] = set()
        self._places: dict[Origin, asyncio.Semaphore] = {}
        self._inbox = memoryview(bytearray(INBOX_BYTES))

    async def __aenter__(self) -> Client:
        self._loop = asyncio.get_running_loop()
        self.lag.__enter__()
        self._sockets = (
            Sockets(self._loop, self.progress, self.lag.tick_ns) if hasattr(select, "epoll") else None
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        connections = list(self._open)
        for connection in connections:
            connection.cut("the client was closed")
        if connections:
            await asyncio.wait([connection.closed for connection in connections], timeout=1.0)
        self._idle.clear()
        if self._sockets is not None:
            self._sockets.close()
        self.lag.__exit__(kind, error, trace)

    @property
    def connections(self) -> int:
        """How many sockets are open."""
        return len(self._open)

    async def stream(self, request: ChatRequest | Prepared) -> Exchange:
        """Send a request and store its answer as it comes, read by read."""
        prepared = prepare(request) if isinstance(request, ChatRequest) else request
        intended_ns = time.monotonic_ns() if prepared.intended_ns is None else prepared.intended_ns
        progress = self.progress
        progress.in_flight += 1
        try:
            exchange = await self._exchange(prepared, intended_ns)
        finally:
            progress.in_flight -= 1
        progress.finished += 1
        progress.failed += not exchange.ok
        return exchange

    async def post(
        self,
        url: str,
        body: Mapping[str, Any] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        deadline_s: float = 60.0,
    ) -> Exchange:
        """POST a body as JSON and return the whole answer."""
        return await self.stream(ChatRequest(url, body, headers or {}, deadline_s))

    async def get(
        self, url: str, *, headers: Mapping[str, str] | None = None, deadline_s: float = 30.0
    ) -> Exchange:
        """GET an address and return the whole answer."""
        return await self.stream(ChatRequest(url, None, headers or {}, deadline_s, method="GET"))

    async def delete(self, url: str, *, deadline_s: float = 30.0) -> Exchange:
        """DELETE an address and return the whole answer."""
        return await self.stream(ChatRequest(url, None, {}, deadline_s, method="DELETE"))

    async def warm(self, where: str | Origin, connections: int) -> int:
        """Hold that many idle connections ready, so that a wave leaves at once; returns how many there are.

        A server that cannot be reached gives 0 and no error: the wave itself will say so.
        """
        origin = split_url(where)[0] if isinstance(where, str) else where
        idle = self._idle[origin]
        missing = min(connections, self._max_connections) - sum(1 for each in idle if each.usable)
        found: Addresses | None = None
        if missing > 0 and self._sockets is not None and not origin.tls:
            try:
                found = await self._sockets.find(origin.host, origin.port)
            except (OSError, UnicodeError):
                return sum(1 for each in idle if each.usable)
        for start in range(0, missing, 64):
            opened = await asyncio.gather(
                *(self._connect(origin, found) for _ in range(min(64, missing - start))),
                return_exceptions=True,
            )
            idle.extend(each for each in opened if isinstance(each, Connection))
            if any(isinstance(each, BaseException) for each in opened):
                break
        return sum(1 for each in idle if each.usable)

    async def _exchange(self, prepared: Prepared, intended_ns: int) -> Exchange:
        origin = prepared.origin
        places = self._places.get(origin)
        if places is None:
            places = self._places[origin] = asyncio.Semaphore(self._max_connections)
        connection: Connection | None = None
        answer: Answer | None = None
        reused = False
        limit = asyncio.timeout_at(self._loop.time() + prepared.deadline_s)
        try:
            async with limit, places:
                while True:
                    connection = self._take(origin) or await self._connect(origin)
                    reused = connection.served > 0
                    answer = connection.send(prepared.data)
                    self.progress.sent += 1
                    await answer.done
                    # A server may close an idle connection just as we write to it: that is no answer.
                    if not (answer.error and reused and not answer.read_ns):
                        break
        except (OSError, UnicodeError) as error:
            late = limit.expired()
            why = f"no end within {prepared.deadline_s:g} s (the request's deadline)"
            if connection is not None:
                connection.cut(why)
            if connection is None or answer is None:
                return self._unsent(intended_ns, why if late else _why_unreachable(origin, error))
        except BaseException:
            if connection is not None:
                connection.cut("cancelled")
            raise
        if connection.usable:
            self._idle[origin].append(connection)
        return Exchange(
            intended_ns=intended_ns,
            sent_ns=answer.sent_ns,
            end_ns=answer.end_ns,
            http_status=answer.status,
            headers=tuple(answer.headers),
            body=bytes(answer.body),
            read_ns=answer.read_ns,
            read_ends=answer.read_ends,
            error=answer.error,
            begun_ns=answer.begun_ns,
            lag_ns=self.lag.since(answer.begun_ns),
            reused=reused,
        )

    def _unsent(self, intended_ns: int, error: str) -> Exchange:
        now = time.monotonic_ns()
        return Exchange(intended_ns=intended_ns, begun_ns=now, sent_ns=now, end_ns=now, error=error)

    def _take(self, origin: Origin) -> Connection | None:
        idle = self._idle[origin]
        while idle:
            connection = idle.pop()
            if connection.usable:
                return connection
        return None

    async def _connect(self, origin: Origin, found: Addresses | None = None) -> Connection:
        connection = Connection(self._loop, origin, self.progress)
        if self._sockets is not None and not origin.tls:
            found = found or await self._sockets.find(origin.host, origin.port)
            await self._sockets.connect(found, connection)
        else:
            if origin.tls and self._tls is None:
                self._tls = ssl.create_default_context()
            await self._loop.create_connection(
                lambda: LoopCarrier(connection, self._inbox),
                origin.host,
                origin.port,
                ssl=self._tls if origin.tls else None,
            )
        self._open.add(connection)
        connection.closed.add_done_callback(lambda _: self._open.discard(connection))
        return connection


def _why_unreachable(origin: Origin, error: OSError | UnicodeError) -> str:
    if isinstance(error, ConnectionRefusedError):
        return f"{origin} refused the connection: nothing listens there"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"{origin}: its certificate is not trusted ({error.verify_message})"
    if isinstance(error, ssl.SSLError):
        return f"{origin} does not speak TLS as asked ({error.reason or error})"
    if isinstance(error, UnicodeError):
        return f"{origin} is not the name of a host"
    return f"{origin} cannot be reached: {error.strerror or error}"
