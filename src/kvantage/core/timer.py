"""Kernel timers with a file descriptor, which an event loop waits for to the microsecond.

asyncio's own timers round up to a millisecond.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import time
from collections.abc import Callable
from functools import cache
from types import TracebackType


class _Spec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _TimerSpec(ctypes.Structure):
    _fields_ = (("interval", _Spec), ("first", _Spec))


_CLOCK_MONOTONIC = 1
_TFD_NONBLOCK_CLOEXEC = 0o4000 | 0o2000000
_TFD_TIMER_ABSTIME = 1


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def open_timer(first_ns: int, period_ns: int) -> int:
    """A timerfd on the monotonic clock (period 0: once), or -1 where there is none.

    os.timerfd_create came with Python 3.13; the C library has had it for long.
    """
    try:
        fd = int(_libc().timerfd_create(_CLOCK_MONOTONIC, _TFD_NONBLOCK_CLOEXEC))
    except (OSError, AttributeError):
        return -1
    if fd < 0:
        return -1
    if first_ns and not set_timer(fd, first_ns, period_ns):
        os.close(fd)
        return -1
    return fd


def set_timer(fd: int, first_ns: int, period_ns: int = 0) -> bool:
    """Let the timer expire at that moment, and every `period_ns` after it; False when it cannot be set."""
    spec = _TimerSpec(_Spec(*divmod(period_ns, 10**9)), _Spec(*divmod(first_ns, 10**9)))
    return bool(_libc().timerfd_settime(fd, _TFD_TIMER_ABSTIME, ctypes.byref(spec), None) == 0)


def read_timer(fd: int) -> int:
    """How often the timer has expired since it was last read; 0 when it has not."""
    try:
        return int.from_bytes(os.read(fd, 8), "little")
    except BlockingIOError:
        return 0


class Alarm:
    """Sleeps until an exact moment.

    with Alarm() as alarm:
        await alarm.until(time.monotonic_ns() + 1_500_000)
    """

    def __enter__(self) -> Alarm:
        self._loop = asyncio.get_running_loop()
        self._rung: asyncio.Future[None] | None = None
        self._fd = open_timer(0, 0)
        if self._fd >= 0:
            self._loop.add_reader(self._fd, self._ring)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)

    async def until(self, at_ns: int) -> None:
        """Return at that moment (time.monotonic_ns), or at once when it has passed."""
        while (left_ns := at_ns - time.monotonic_ns()) > 0:
            if self._fd < 0 or not set_timer(self._fd, at_ns):
                await asyncio.sleep(left_ns / 1e9)
                continue
            self._rung = self._loop.create_future()
            await self._rung

    def _ring(self) -> None:
        if read_timer(self._fd) and self._rung is not None and not self._rung.done():
            self._rung.set_result(None)


class Ticker:
    """Calls a function when its moment has come, again and again: the function says what the next is, or
    there is a period.

        with Ticker(write_what_is_due) as ticker:
            ticker.ring_at(first_ns)

        with Ticker(look) as ticker:
            ticker.ring_every(2_000_000, first_ns)

    Without a kernel timer, asyncio's own is used, late by up to a millisecond.
    """

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call
        self._at_ns: int | None = None
        self._period_ns = 0
        self._handle: asyncio.TimerHandle | None = None
        self._fd = -1

    def __enter__(self) -> Ticker:
        self._loop = asyncio.get_running_loop()
        self._fd = open_timer(0, 0)
        if self._fd >= 0:
            self._loop.add_reader(self._fd, self._ring)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1
        if self._handle is not None:
            self._handle.cancel()
        self._at_ns = None

    def ring_at(self, at_ns: int | None) -> None:
        """Call at that moment (time.monotonic_ns; at once when it has passed); None calls no more."""
        if at_ns == self._at_ns and not self._period_ns:
            return
        self._at_ns, self._period_ns = at_ns, 0
        self._set()

    def ring_every(self, period_ns: int, first_ns: int) -> None:
        """Call at `first_ns` and every period after it; periods that were missed are one call."""
        self._at_ns, self._period_ns = first_ns, period_ns
        self._set()

    def _set(self) -> None:
        at_ns = self._at_ns
        if self._fd >= 0:
            set_timer(self._fd, 0 if at_ns is None else max(at_ns, 1), self._period_ns)
            return
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        if at_ns is not None:
            self._handle = self._loop.call_later(max(0, at_ns - time.monotonic_ns()) / 1e9, self._ring)

    def _ring(self) -> None:
        if self._fd >= 0 and not read_timer(self._fd):
            return
        if not self._period_ns:
            self._at_ns = None
        elif self._fd < 0:
            self._at_ns = time.monotonic_ns() + self._period_ns
            self._set()
        self._call()
