"""Whether a cell queued: for a slot, or for room in the pool."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kvantage.analysis.cells import wave_labels
from kvantage.analysis.evidence import Evidence
from kvantage.analysis.speed import most_at_once

QUEUE_SECONDS = 0.25
QUEUE_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a gate failed, and what the failure shows all the same."""

    reason: str
    finding: str | None = None


def no_queue(evidence: Evidence) -> Failure | None:
    """All users decode at once: none waits for a slot.

    Waiting that ends before the ramp is cut (prefills taking turns) leaves the steady rate sound, so what
    counts is whether the client saw every slot decode at the same time.
    """
    wanted = min(evidence.cell.key.concurrency, evidence.number)
    running = _running(evidence)
    waited = evidence.column("queue_s")
    spans = (evidence.timing.last_ns - evidence.timing.first_ns) * 1e-9
    waiting = evidence.gauge("waiting_max")
    gauge = f", {waiting:.0f} seen waiting" if waiting else ""
    if running is not None and running < wanted:
        return Failure(f"at most {running:.0f} of {wanted} requests ran at the same time{gauge}")
    if wanted == 1 and waiting and np.isnan(waited).all():
        return Failure(f"{waiting:.0f} requests seen waiting at concurrency 1")
    long = np.nan_to_num(waited) > np.maximum(QUEUE_SECONDS, QUEUE_SHARE * spans)
    if long.any():
        return Failure(
            f"{int(long.sum())} of {evidence.number} requests queued, up to {float(np.nanmax(waited)):.3g} s"
        )
    return None


def no_queue_cold(evidence: Evidence) -> Failure | None:
    """Cold prefills take turns by nature; a cold wave is void when the pool or the slots held one back."""
    wanted = min(evidence.cell.key.concurrency, evidence.number)
    running = _running(evidence)
    needed, pool = evidence.needed_tokens(), evidence.fact("kv_pool_tokens")
    if running is None or running >= wanted or needed is None or pool is None or needed <= pool:
        return None
    return Failure(
        f"at most {running:.0f} of {wanted} requests ran at the same time",
        f"did not fit: pool {pool:,.0f} tokens < {needed:,.0f} needed for {wanted} at once",
    )


def measured_queue(evidence: Evidence) -> str | None:
    """Why a closed loop measured a queue, None where the server ran all that were in flight.

    By what the server says that it runs at once; by the most that were seen at work at once; by preemptions
    in a pool that does not hold them all; by a median wait in the server's own queue.
    """
    offered = evidence.cell.key.concurrency
    effective = evidence.fact("effective_max_running")
    if effective is not None and effective < offered:
        return f"offered concurrency {offered} > effective {effective:.0f}: the rest waited"
    small = too_small(evidence)
    thrown_out = (evidence.moved("preemptions") or 0) + float(np.nansum(evidence.column("retractions")))
    if small and thrown_out:
        return f"{thrown_out:,.0f} requests were thrown out and run again: {small}"
    running = _running_in_loop(evidence)
    if running is not None and running < offered:
        why = f"; {small}" if small else ""
        return f"at most {running:.0f} of {offered} requests ran at the same time{why}"
    waited = evidence.column("queue_s")
    known = waited[np.isfinite(waited)]
    spans = (evidence.timing.last_ns - evidence.timing.first_ns) * 1e-9
    if known.size and spans.size:
        wait, allowed = float(np.median(known)), max(QUEUE_SECONDS, QUEUE_SHARE * float(np.median(spans)))
        if wait > allowed:
            return f"requests waited {wait:.3g} s in the server's queue (median)"
    return None


def _running(evidence: Evidence) -> float | None:
    """The most requests at work at once, in the wave where they were fewest: as the client saw them decode,
    or, of a single wave, as the gauge says.
    """
    timing = evidence.timing
    seen = timing.first_ns >= 0
    told = evidence.gauge("running_max")
    if not seen.any():
        return told
    waves = wave_labels(evidence.requests, timing.rows)
    most = most_at_once(timing.first_ns[seen], timing.last_ns[seen], waves[seen])
    least, one_wave = int(most.min()), len(most) == 1
    return max(float(least), told if told is not None and one_wave else 0.0, 1.0)


def _running_in_loop(evidence: Evidence) -> float | None:
    """The most requests at work at once, as the client saw them decode or as the gauge says."""
    timing, told = evidence.timing, evidence.gauge("running_max")
    seen = (timing.first_ns >= 0) & (timing.last_ns > timing.first_ns)
    if not seen.any():
        return told
    one_group = np.zeros(int(seen.sum()), dtype=np.int64)
    return max(float(most_at_once(timing.first_ns[seen], timing.last_ns[seen], one_group)[0]), told or 0.0)


def too_small(evidence: Evidence) -> str | None:
    """The pool and what the cell needs of it, where it does not hold that; None where it does."""
    needed, pool = evidence.needed_tokens(), evidence.fact("kv_pool_tokens")
    if needed is None or pool is None or pool >= needed:
        return None
    return f"pool {pool:,.0f} tokens < {needed:,.0f} needed"
