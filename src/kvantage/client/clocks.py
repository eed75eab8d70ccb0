"""Two machines' clocks, compared: how far apart they are, and how far off that can be."""

from __future__ import annotations

from array import array
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic_ns

from kvantage.client.exchange import Exchange

ROUNDS = 24
_BOOT = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class Offset:
    """Another clock's time less this one's, ns: at least `low`, at most `high`.

    One question and answer bounds it without any assumption about the way: the other clock was read after
    the question left and before the answer came (Cristian, 'Probabilistic clock synchronization', 1989).
    """

    low: int
    high: int

    @property
    def best(self) -> int:
        """The middle of what is possible."""
        return (self.low + self.high) // 2

    @property
    def bound(self) -> int:
        """How far off `best` can be."""
        return max(self.high - self.best, self.best - self.low)

    @classmethod
    def of(cls, asked_ns: int, told_ns: int, heard_ns: int) -> Offset:
        """From one round trip: our clock, theirs, ours."""
        return cls(told_ns - heard_ns, told_ns - asked_ns)

    def meet(self, other: Offset) -> Offset:
        """What both allow, of two comparisons at about the same time; their hull where they contradict
        each other, as they do when a clock has drifted meanwhile.
        """
        low, high = max(self.low, other.low), min(self.high, other.high)
        return Offset(low, high) if low <= high else self.join(other)

    def join(self, other: Offset) -> Offset:
        """What either allows: holds over a time with a comparison at both of its ends."""
        return Offset(min(self.low, other.low), max(self.high, other.high))


async def compare(ask: Callable[[], Awaitable[int]], rounds: int = ROUNDS) -> Offset:
    """Ask another clock so often, and keep what all of the answers allow."""
    found: Offset | None = None
    for _ in range(rounds):
        asked_ns = monotonic_ns()
        told_ns = await ask()
        seen = Offset.of(asked_ns, told_ns, monotonic_ns())
        found = seen if found is None else found.meet(seen)
    assert found is not None, "at least one round"
    return found


def in_our_time(exchange: Exchange, offset: Offset) -> Exchange:
    """An exchange that was stamped by the other clock, by ours."""
    shift = offset.best
    return replace(
        exchange,
        intended_ns=exchange.intended_ns - shift,
        begun_ns=exchange.begun_ns - shift,
        sent_ns=exchange.sent_ns - shift,
        end_ns=exchange.end_ns - shift,
        read_ns=array("q", [each - shift for each in exchange.read_ns]),
        lag_ns=exchange.lag_ns + offset.bound,
    )


def machine_id() -> str:
    """The same for all processes of one running machine, which share a monotonic clock; "" is not known."""
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return ""
