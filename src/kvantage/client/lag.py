"""How late this process itself is: the delay between a moment and the event loop noticing it."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import time
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from types import TracebackType

from kvantage.core.timer import open_timer, read_timer

PERIOD_NS = 4_000_000


class Peaks:
    """The largest value since any moment, in constant time a value: a stack of falling maxima."""

    def __init__(self) -> None:
        self._times: list[int] = []
        self._values: list[int] = []

    def add(self, at_ns: int, value: int) -> None:
        """Note a value; times must not fall."""
        while self._values and self._values[-1] <= value:
            self._values.pop()
            self._times.pop()
        self._times.append(at_ns)
        self._values.append(value)

    def since(self, at_ns: int) -> int:
        """The largest value noted at or after that moment, 0 where there is none."""
        place = bisect_left(self._times, at_ns)
        return self._values[place] if place < len(self._values) else 0


def quantile_ns(values_ns: Sequence[int], share: float) -> int | None:
    """The delay that this share (0 to 1) of the values stayed at or under; None where there is none."""
    if not values_ns:
        return None
    ordered = sorted(values_ns)
    return ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)]


class Delays:
    """The delays of a span of time, a value for each period of the probe, missed ones included."""

    def __init__(self, period_ns: int) -> None:
        self._period_ns = period_ns
        self.values_ns: array[int] = array("q")

    def __len__(self) -> int:
        return len(self.values_ns)

    def add(self, late_ns: int, expired: int) -> None:
        """Note a tick that came `late_ns` late, as the first of `expired` that were due by then."""
        for missed in range(expired):
            self.values_ns.append(max(0, late_ns - missed * self._period_ns))

    def quantile_ns(self, share: float) -> int | None:
        """The delay that this share (0 to 1) of the time stayed at or under; None when it was too short."""
        return quantile_ns(self.values_ns, share)


class LagProbe:
    """Measures the event loop's delay at its own period while it is open.

        with LagProbe() as probe:
            ...
            probe.since(sent_ns)   # the largest delay since then, ns

    A kernel timer wakes the loop, so the reading holds the loop's own work, the interpreter's lock and the
    time spent waiting for a processor. Where the system has no such timer, asyncio's own is used, which
    rounds to a millisecond and so reads up to one too many.
    """

    def __init__(self, period_ns: int = PERIOD_NS) -> None:
        self.period_ns = period_ns
        self.ticks = 0
        self.largest_ns = 0
        self._peaks = Peaks()
        self._spans: list[Delays] = []
        self._due_ns = 0
        self._fd = -1
        self._resting = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._handle: asyncio.TimerHandle | None = None

    def __enter__(self) -> LagProbe:
        self._loop = asyncio.get_running_loop()
        self._due_ns = time.monotonic_ns() + self.period_ns
        self._fd = open_timer(self._due_ns, self.period_ns)
        if self._fd >= 0:
            self._loop.add_reader(self._fd, self._on_timer)
        else:
            self._sleep()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._loop is not None and self._fd >= 0:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        self._loop = None

    @property
    def tick_ns(self) -> int:
        """A moment at which it wakes the loop; it does so a whole number of periods before and after."""
        return self._due_ns

    @contextlib.contextmanager
    def span(self) -> Iterator[Delays]:
        """Collect every delay while the block runs: `with probe.span() as delays`.

        A tick that is overdue as it begins is of what went before, and is noted first.
        """
        self._settle()
        delays = Delays(self.period_ns)
        self._spans.append(delays)
        try:
            yield delays
        finally:
            self._spans.remove(delays)

    @contextlib.contextmanager
    def at_rest(self) -> Iterator[None]:
        """Leave the block's delays out of every span: for work that is done while nothing is in flight.

        Streams are parsed after they ended, which may hold the loop for tens of milliseconds and delays no
        timestamp.
        """
        self._settle()
        self._resting += 1
        try:
            yield
        finally:
            self._settle()
            self._resting -= 1

    def since(self, at_ns: int) -> int:
        """The largest delay in ns since that moment, a tick that is overdue right now included."""
        overdue = time.monotonic_ns() - self._due_ns if self._loop is not None else 0
        return max(self._peaks.since(at_ns), overdue, 0)

    def _on_timer(self) -> None:
        if expired := read_timer(self._fd):
            self._note(time.monotonic_ns(), expired)

    def _settle(self) -> None:
        """Note the ticks that are due by now, before what they count for changes."""
        if self._loop is None:
            return
        if self._fd >= 0:
            self._on_timer()
        elif (now := time.monotonic_ns()) >= self._due_ns:
            self._note(now, (now - self._due_ns) // self.period_ns + 1)

    def _on_sleep(self) -> None:
        if (now := time.monotonic_ns()) >= self._due_ns:
            self._note(now, (now - self._due_ns) // self.period_ns + 1)
        self._sleep()

    def _sleep(self) -> None:
        assert self._loop is not None
        wait_s = max(0, self._due_ns - time.monotonic_ns()) / 1e9
        self._handle = self._loop.call_later(wait_s, self._on_sleep)

    def _note(self, now: int, expired: int) -> None:
        late = now - self._due_ns
        self._due_ns += expired * self.period_ns
        self.ticks += 1
        self.largest_ns = max(self.largest_ns, late)
        self._peaks.add(now, late)
        if not self._resting:
            for span in self._spans:
                span.add(late, expired)
