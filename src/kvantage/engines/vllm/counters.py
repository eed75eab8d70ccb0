"""What moved between two snapshots."""

from __future__ import annotations

from kvantage.core import CounterDelta, Snapshot

_SAME_START_S = 1.0
"""A process's start time is read to a hundredth of a second and never moves."""


def delta(before: Snapshot, after: Snapshot) -> CounterDelta:
    """Differences of the counters that both have.

    Where a counter ran backwards, or the server started in between, `reset` is True and nothing is
    told: a difference across a restart is no count of anything.
    """
    seconds = (after.taken_ns - before.taken_ns) / 1e9
    if restarted(before, after):
        return CounterDelta(seconds=seconds, reset=True)
    moved = {
        name: after.counters[name] - old for name, old in before.counters.items() if name in after.counters
    }
    positions = None
    if before.accepted_per_position is not None and after.accepted_per_position is not None:
        old = before.accepted_per_position + (0.0,) * len(after.accepted_per_position)
        positions = tuple(new - old[i] for i, new in enumerate(after.accepted_per_position))
    return CounterDelta(seconds=seconds, counters=moved, accepted_per_position=positions)


def restarted(before: Snapshot, after: Snapshot) -> bool:
    """True when these are not the counters of one life of one server."""
    starts = before.gauges.get("started_at"), after.gauges.get("started_at")
    if starts[0] is not None and starts[1] is not None and abs(starts[1] - starts[0]) > _SAME_START_S:
        return True
    old, new = before.accepted_per_position or (), after.accepted_per_position or ()
    backwards = any(b > a for b, a in zip(old, new, strict=False)) or (bool(new) and len(new) < len(old))
    return backwards or any(
        after.counters.get(name, value) < value for name, value in before.counters.items()
    )
