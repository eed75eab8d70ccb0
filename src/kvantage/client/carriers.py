"""What moves bytes: sockets stamped by the kernel, and asyncio's own transports where TLS is spoken.

The kernel notes when a segment arrived, so a stamp is right to microseconds however late this process
reads it. That is Linux and plain TCP; elsewhere a stamp is the moment of the read.
"""

from __future__ import annotations

import asyncio
import select
import socket
from collections.abc import Sequence
from time import monotonic_ns, time_ns
from typing import Any, cast

from kvantage.client.connection import Connection, Progress
from kvantage.core.stamps import NOTES_BYTES, arrival_ns, ask_for_stamps, stamping
from kvantage.core.timer import Ticker

INBOX_BYTES = 256 * 1024

# what getaddrinfo gives
Addresses = Sequence[tuple[int, int, int, str, Any]]

# From so many requests in flight on, reads are gathered: one waking then serves several. Stamps are the
# kernel's, so nothing is lost but that chunks of one stream less than a period apart share a stamp.
GATHER_FROM = 32
GATHER_NS = 2_000_000


class Sockets:
    """Every plain socket of a client, behind one epoll that the event loop waits for.

    `tick_ns` is a moment at which the loop is woken anyway, every so many periods: gathering keeps in step.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, progress: Progress, tick_ns: int) -> None:
        self._loop = loop
        self._progress = progress
        self._tick_ns = tick_ns
        self._open: dict[int, PlainCarrier] = {}
        self._gathering = False
        self._inbox = memoryview(bytearray(INBOX_BYTES))
        self._stamping = stamping()
        self._epoll = select.epoll()
        self._ticker = Ticker(self._gather)
        self._ticker.__enter__()
        loop.add_reader(self._epoll.fileno(), self._drain)

    def close(self) -> None:
        """Close every socket and the epoll."""
        for carrier in list(self._open.values()):
            carrier.abort()
        self._ticker.__exit__(None, None, None)
        self._loop.remove_reader(self._epoll.fileno())
        self._epoll.close()
        self._stamping.close()

    async def find(self, host: str, port: int) -> Addresses:
        """The addresses of a host. Raises OSError."""
        return await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)

    async def connect(self, found: Addresses, connection: Connection) -> None:
        """Open a socket for a connection, trying each of the host's addresses. Raises OSError."""
        failure: OSError = OSError(f"{connection.origin.host} has no address")
        for family, kind, protocol, _, address in found:
            made = socket.socket(family, kind, protocol)
            made.setblocking(False)
            try:
                made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                ask_for_stamps(made)
                await self._loop.sock_connect(made, address)
            except OSError as error:
                made.close()
                failure = error
                continue
            except BaseException:
                made.close()
                raise
            connection.carried_by(self._carry(made, connection))
            return
        raise failure

    def _carry(self, made: socket.socket, connection: Connection) -> PlainCarrier:
        carrier = PlainCarrier(self, made, connection)
        self._open[made.fileno()] = carrier
        self._epoll.register(made.fileno(), select.EPOLLIN)
        return carrier

    def busier(self) -> None:
        """A request is sent."""
        if not self._gathering and self._progress.in_flight >= GATHER_FROM:
            self._gathering = True
            self._loop.remove_reader(self._epoll.fileno())
            now = monotonic_ns()
            self._ticker.ring_every(GATHER_NS, now + 1 + (self._tick_ns - now - 1) % GATHER_NS)

    def forget(self, fd: int) -> None:
        """A socket is about to be closed."""
        if self._open.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def want_writable(self, fd: int, wanted: bool) -> None:
        """Whether a socket waits for room to write."""
        self._epoll.modify(fd, select.EPOLLIN | (select.EPOLLOUT if wanted else 0))

    def _gather(self) -> None:
        self._drain()
        if self._progress.in_flight < GATHER_FROM // 2:
            self._gathering = False
            self._ticker.ring_at(None)
            self._loop.add_reader(self._epoll.fileno(), self._drain)

    def _drain(self) -> None:
        inbox, found = self._inbox, self._open
        for fd, events in self._epoll.poll(0):
            carrier = found.get(fd)
            if carrier is None:
                continue
            if events & ~select.EPOLLOUT:
                carrier.read(inbox)
            if events & select.EPOLLOUT:
                carrier.flush()


class PlainCarrier:
    """A TCP socket whose reads carry the kernel's stamp."""

    __slots__ = ("_connection", "_fd", "_last_ns", "_recv", "_socket", "_sockets", "_unsent")

    def __init__(self, sockets: Sockets, made: socket.socket, connection: Connection) -> None:
        self._sockets = sockets
        self._socket = made
        self._fd = made.fileno()
        self._recv = made.recvmsg_into
        self._connection = connection
        self._unsent = b""
        self._last_ns = 0

    def read(self, inbox: memoryview) -> None:
        """Read what is there, once."""
        try:
            size, notes, _, _ = self._recv((inbox,), NOTES_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            self._lose(error)
            return
        wall_ns, now = time_ns(), monotonic_ns()
        if not size:
            self._lose(None)
            return
        arrived_ns = now
        if notes:
            # a wall clock that was set meanwhile would put it outside what is possible
            told_ns = arrival_ns(notes, wall_ns, now)
            if told_ns is not None and self._last_ns <= told_ns <= now:
                arrived_ns = told_ns
        self._last_ns = arrived_ns
        self._connection.received(inbox[:size], arrived_ns)

    def write(self, data: bytes) -> bool:
        """See `Carrier`."""
        self._last_ns = monotonic_ns()
        self._sockets.busier()
        if not self._unsent:
            try:
                sent = self._socket.send(data)
            except BlockingIOError:
                sent = 0
            except OSError as error:
                self._sockets._loop.call_soon(self._lose, error)
                return True
            data = data[sent:]
            if data:
                self._sockets.want_writable(self._fd, True)
        self._unsent += data
        return not self._unsent

    def flush(self) -> None:
        """There is room: write on."""
        now = monotonic_ns()
        try:
            sent = self._socket.send(self._unsent)
        except BlockingIOError:
            return
        except OSError as error:
            self._lose(error)
            return
        self._unsent = self._unsent[sent:]
        if not self._unsent:
            self._sockets.want_writable(self._fd, False)
            self._connection.drained(now)

    def abort(self) -> None:
        """See `Carrier`."""
        self._lose(None)

    def _lose(self, error: OSError | None) -> None:
        if self._socket.fileno() < 0:
            return
        self._sockets.forget(self._fd)
        self._socket.close()
        self._connection.lost(error)


class LoopCarrier(asyncio.BufferedProtocol):
    """asyncio's transport, for TLS: a stamp is the moment at which the loop read it."""

    def __init__(self, connection: Connection, inbox: memoryview) -> None:
        self._connection = connection
        self._inbox = inbox
        self._transport: asyncio.Transport | None = None

    def write(self, data: bytes) -> bool:
        """See `Carrier`."""
        assert self._transport is not None
        self._transport.write(data)
        return self._transport.get_write_buffer_size() == 0

    def abort(self) -> None:
        """See `Carrier`."""
        if self._transport is not None:
            self._transport.abort()

    # asyncio calls these

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=0)
        self._connection.carried_by(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._inbox

    def buffer_updated(self, nbytes: int) -> None:
        self._connection.received(self._inbox[:nbytes], monotonic_ns())

    def resume_writing(self) -> None:
        self._connection.drained(monotonic_ns())

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._connection.lost(exc)
