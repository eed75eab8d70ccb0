"""The steady part of a closed loop: its ramp cut at both ends."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from kvantage.analysis.cells import Cell, ranges
from kvantage.analysis.speed import Speed, measure_speed
from kvantage.analysis.timing import NANO, Timing, time_requests
from kvantage.core.columns import Bools, Floats, Ints, RequestColumns
from kvantage.core.reading import Reading

LEAST_SHARE = 0.5
"""A request's own rate counts where at least this share of its decoding lies in the steady window."""


RAMPS_CUT = "median between the ramps of the closed loop"


@dataclass(frozen=True, slots=True)
class Steady:
    """From the moment at which each of the first requests, one a place, had its first token, to that at which
    a place stayed empty for good. Aggregates are counted up to `turned_ns`, the last first token in it: from
    first token to first token there are as many prefills as decodes, so that neither is favoured. `loop_s`
    is the whole loop, from its first send to its last end.
    """

    opened_ns: int
    turned_ns: int
    closed_ns: int
    loop_s: float

    @property
    def seconds(self) -> float:
        """How long aggregates are counted."""
        return (self.turned_ns - self.opened_ns) * NANO

    def holds(self, moments_ns: Ints) -> Bools:
        """Which moments lie in it, its opening left out."""
        inside: Bools = (moments_ns > self.opened_ns) & (moments_ns <= self.closed_ns)
        return inside

    def counts(self, moments_ns: Ints) -> Bools:
        """Which moments aggregates are counted in."""
        inside: Bools = (moments_ns > self.opened_ns) & (moments_ns <= self.turned_ns)
        return inside


def steady_window(requests: RequestColumns, timing: Timing, concurrency: int) -> Steady | None:
    """The steady window of a cell that ran as one closed loop; None where the ramps leave nothing between.

    Between its ends `concurrency` requests are in flight at every moment, prefills among them.
    """
    rows = timing.rows[timing.first_ns >= 0]
    if not len(rows):
        return None
    sent, ended = requests.sent_ns[rows], requests.end_ns[rows]
    order = np.argsort(sent, kind="stable")
    opening = order[:concurrency]
    firsts = requests.chunk_ns[requests.chunk_offsets[rows]]
    still = ended[ended > int(sent.max())]
    opened, closed = int(firsts[opening].max()), int(still.min())
    if closed <= opened:
        return None
    turned = min(closed, int(firsts.max()))
    if turned <= opened:
        turned = closed
    return Steady(opened, turned, closed, float(ended.max() - sent.min()) * NANO)


def measure_loop(requests: RequestColumns, cell: Cell) -> tuple[Timing, Speed]:
    """(times, speeds) of a cell that ran as one closed loop, both of its steady window alone.

    Rates and TTFTs of requests outside of it are NaN in the times, so that no ratio takes them up.
    """
    timing = time_requests(requests, cell.rows)
    plain = measure_speed(requests, cell)
    steady = steady_window(requests, timing, cell.key.concurrency)
    if steady is None:
        none = Reading.absent("no moment lies between the ramps: more `rounds` or a longer output are needed")
        unknown = np.full(len(timing), np.nan)
        return replace(timing, rate=unknown, ttft=unknown), replace(
            plain, decode=none, steady=none, itl_token=none, ttft=none
        )
    inside = steady.holds(requests.sent_ns[timing.rows])
    cut = replace(
        timing,
        rate=cut_rates(requests, timing, steady),
        ttft=np.where(inside, timing.ttft, np.nan),
    )
    rate = median(cut.rate, "tok/s", "no request decoded for long enough between the ramps", RAMPS_CUT)
    return cut, replace(
        plain,
        decode=rate,
        steady=loop_rate(requests, timing, steady, cell.key.concurrency),
        ttft=median(cut.ttft, "s", "no request left between the ramps", RAMPS_CUT),
        itl_token=rate
        if rate.value is None
        else Reading.of(1 / rate.value, "s", "client", note="1 / the rate of one user"),
    )


def median(values: Floats, unit: str, otherwise: str, note: str) -> Reading:
    """The median of those that are known, or why there is none."""
    known = values[np.isfinite(values)]
    if not known.size:
        return Reading.absent(otherwise)
    return Reading.of(float(np.median(known)), unit, "client", note=f"{note}, {known.size} requests")


def loop_rate(requests: RequestColumns, timing: Timing, steady: Steady, concurrency: int) -> Reading:
    """Tokens a second of all users together in the steady window: prefills of later requests are inside."""
    times, tokens, _ = _chunks(requests, timing)
    total = float(tokens[steady.counts(times)].sum())
    note = f"closed loop, {concurrency} in flight, ramps cut: {steady.seconds:.3g} s of {steady.loop_s:.3g} s"
    return Reading.of(total / steady.seconds, "tok/s", "client", note=note)


def cut_rates(requests: RequestColumns, timing: Timing, steady: Steady) -> Floats:
    """Each user's decode rate inside the steady window, NaN where less than half of it lies there.

    Tokens after its first chunk in the window / (its last - its first chunk there).
    """
    number = len(timing)
    times, tokens, owner = _chunks(requests, timing)
    inside = steady.holds(times)
    times, tokens, owner = times[inside], tokens[inside], owner[inside]
    first = np.full(number, np.iinfo(np.int64).max)
    last = np.full(number, -1, dtype=np.int64)
    np.minimum.at(first, owner, times)
    np.maximum.at(last, owner, times)
    later = times > first[owner]
    after = np.bincount(owner[later], weights=tokens[later], minlength=number)
    spans = (last - first) * NANO
    whole = (timing.last_ns - timing.first_ns) * NANO
    usable = (last > first) & (whole > 0)
    usable &= np.where(usable, spans, 0.0) >= LEAST_SHARE * whole
    rates = np.full(number, np.nan)
    np.divide(after, spans, out=rates, where=usable)
    return rates


def _chunks(requests: RequestColumns, timing: Timing) -> tuple[Ints, Floats, Ints]:
    """(when, tokens, whose) of every chunk: as told, else one token in the first, the mean in the others."""
    starts = requests.chunk_offsets[timing.rows]
    counts = requests.chunk_offsets[timing.rows + 1] - starts
    where = ranges(starts, counts)
    owner = np.repeat(np.arange(len(timing), dtype=np.int64), counts)
    mean = np.nan_to_num(timing.after) / np.maximum(timing.chunks_after, 1)
    guess = np.where(where == starts[owner], 1.0, mean[owner])
    own = requests.chunk_tokens[where].astype(np.float64)
    return requests.chunk_ns[where], np.where(timing.told[owner], own, guess), owner
