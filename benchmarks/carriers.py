"""How late and how dear is each way of reading 256 streams? The figures of docs/decisions/0001.

    python benchmarks/carriers.py            # every way, once
    python benchmarks/carriers.py uvloop     # one of them

A sender on one processor writes 12,800 chunks a second to 256 sockets, one at a time, and notes when; a
reader on another stamps each read, takes HTTP's framing off and stores. Printed: the reader's CPU a chunk,
and how much later than the write a stamp is.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import resource
import select
import socket
import subprocess
import sys
import time
from array import array
from collections.abc import Callable
from multiprocessing.queues import Queue

import httptools
import numpy as np

from kvantage.core.stamps import NOTES_BYTES, arrival_ns, ask_for_stamps, stamping

STREAMS, CHUNKS_PER_S, SECONDS = 256, 12_800, 4
EVENT = (
    b'data: {"id":"chatcmpl-0","object":"chat.completion.chunk","created":1700000000,"model":"m",'
    b'"choices":[{"index":0,"delta":{"content":"water "},"finish_reason":null}]}\n\n'
)
CHUNK = b"%x\r\n%b\r\n" % (len(EVENT), EVENT)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
GATHER_S = 0.002


def send(port: int, written: Queue[bytes]) -> None:
    """Write the chunks on time from a processor of its own, and hand back when each was written."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    sockets = [socket.create_connection(("127.0.0.1", port)) for _ in range(STREAMS)]
    for each in sockets:
        each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        each.send(HEAD)
    time.sleep(0.3)
    times, start = array("q"), time.monotonic_ns()
    for place in range(CHUNKS_PER_S * SECONDS):
        due = start + place * 1_000_000_000 // CHUNKS_PER_S
        while time.monotonic_ns() < due:
            pass
        times.append(time.monotonic_ns())
        sockets[place % STREAMS].send(CHUNK)
    for each in sockets:
        each.send(b"0\r\n\r\n")
    written.put(times.tobytes())
    time.sleep(0.5)


class Stream:
    """One answer while it arrives."""

    def __init__(self) -> None:
        self.body = bytearray()
        self.on_body = self.body.extend
        self.stamps = array("q")
        self.done = False
        self.parser = httptools.HttpResponseParser(self)

    def on_message_complete(self) -> None:
        self.done = True

    def take(self, data: memoryview, stamp_ns: int) -> bool:
        self.parser.feed_data(data)
        self.stamps.append(stamp_ns)
        return self.done


INBOX = memoryview(bytearray(256 * 1024))


def plain(sock: socket.socket, stream: Stream) -> Callable[[], bool]:
    """Stamped when it is read."""

    def read() -> bool:
        size = sock.recv_into(INBOX)
        return stream.take(INBOX[:size], time.monotonic_ns())

    return read


def by_kernel(sock: socket.socket, stream: Stream) -> Callable[[], bool]:
    """Stamped by the kernel."""
    ask_for_stamps(sock)

    def read() -> bool:
        size, notes, _, _ = sock.recvmsg_into((INBOX,), NOTES_BYTES)
        wall_ns, now = time.time_ns(), time.monotonic_ns()
        told = arrival_ns(notes, wall_ns, now)
        return stream.take(INBOX[:size], now if told is None else told)

    return read


class Protocol(asyncio.BufferedProtocol):
    """asyncio's own way."""

    def __init__(self, stream: Stream, ended: Callable[[], None]) -> None:
        self.stream, self.ended = stream, ended

    def get_buffer(self, sizehint: int) -> memoryview:
        return INBOX

    def buffer_updated(self, nbytes: int) -> None:
        if self.stream.take(INBOX[:nbytes], time.monotonic_ns()):
            self.ended()


async def accept(listener: socket.socket) -> socket.socket:
    made, _ = await asyncio.get_running_loop().sock_accept(listener)
    made.setblocking(False)
    return made


async def through_loop(listener: socket.socket, streams: list[Stream], way: str) -> float:
    """Protocols, or readers of the loop's own selector."""
    loop = asyncio.get_running_loop()
    left, over = STREAMS, loop.create_future()

    def ended() -> None:
        nonlocal left
        left -= 1
        if not left:
            over.set_result(None)

    kept = []
    for stream in streams:
        sock = await accept(listener)
        kept.append(sock)
        if "protocol" in way or way == "uvloop":
            await loop.connect_accepted_socket(lambda stream=stream: Protocol(stream, ended), sock)  # type: ignore[misc]
            continue
        read = by_kernel(sock, stream)

        def on_readable(read: Callable[[], bool] = read, sock: socket.socket = sock) -> None:
            if read():
                loop.remove_reader(sock.fileno())
                ended()

        loop.add_reader(sock.fileno(), on_readable)
    before = cpu_s()
    await over
    return cpu_s() - before


def through_epoll(listener: socket.socket, streams: list[Stream], way: str) -> float:
    """One epoll, waited for or looked at every two milliseconds."""
    epoll, reads, kept = select.epoll(), {}, []
    for stream in streams:
        sock, _ = listener.accept()
        sock.setblocking(False)
        kept.append(sock)
        reads[sock.fileno()] = (plain if way == "epoll, read" else by_kernel)(sock, stream)
        epoll.register(sock.fileno(), select.EPOLLIN)
    before, left = cpu_s(), STREAMS
    while left:
        if "gathered" in way:
            time.sleep(GATHER_S)
        for fd, _ in epoll.poll(0 if "gathered" in way else 1):
            if reads[fd]():
                left -= 1
                epoll.unregister(fd)
    return cpu_s() - before


def cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


WAYS = (
    "asyncio protocol",
    "uvloop",
    "asyncio, kernel stamps",
    "uvloop, kernel stamps",
    "epoll, read",
    "epoll, kernel stamps",
    "epoll gathered, kernel stamps",
)


def measure(way: str) -> None:
    """One way, in this process."""
    os.sched_setaffinity(0, os.sched_getaffinity(0) - {max(os.sched_getaffinity(0))} or {0})
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    context = multiprocessing.get_context("spawn")
    written: Queue[bytes] = context.Queue()
    keep = stamping()
    sender = context.Process(target=send, args=(listener.getsockname()[1], written))
    sender.start()
    streams = [Stream() for _ in range(STREAMS)]
    if way.startswith("epoll"):
        used_s = through_epoll(listener, streams, way)
    else:
        listener.setblocking(False)
        if way.startswith("uvloop"):
            import uvloop

            used_s = uvloop.run(through_loop(listener, streams, way))
        else:
            used_s = asyncio.run(through_loop(listener, streams, way))
    times = np.frombuffer(written.get(), dtype=np.int64)
    sender.join()
    keep.close()
    late = []
    for place, stream in enumerate(streams):
        wrote = times[place::STREAMS]
        stamps = np.array(stream.stamps)[-1 - len(wrote) : -1]
        if len(stamps) == len(wrote):  # no two chunks in one read
            late.append((stamps - wrote) / 1e6)
    if not late:
        raise SystemExit(f"{way}: the machine is too busy: in every stream chunks came in one read")
    error = np.concatenate(late)
    print(
        f"{way:30s} {used_s / len(times) * 1e6:5.1f} us a chunk   late "
        f"{np.median(error):.3f} / {np.percentile(error, 99):.3f} / {error.max():.3f} ms "
        f"(median, p99, most)   over 1 ms {np.mean(error > 1):.2%}   streams compared {len(late)}",
        flush=True,
    )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        measure(" ".join(sys.argv[1:]))
    else:
        for way in WAYS:
            subprocess.run([sys.executable, __file__, way], check=True)
