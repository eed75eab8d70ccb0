"""How fast a cell decoded: per user, in aggregate with all slots busy, and end to end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kvantage.analysis.cells import Cell, ranges, wave_labels
from kvantage.analysis.identities import itl_matches_rate
from kvantage.analysis.timing import NANO, Timing, time_requests
from kvantage.core.columns import Bools, Floats, Ints, RequestColumns
from kvantage.core.reading import Reading

OUTLIER_TIMES = 4.0
OUTLIER_SECONDS = 0.5
OUTLIER_OTHERS = 2
FIRST_CHUNK_NOTE = "the first chunk's size is not told and was taken as one token"


@dataclass(frozen=True, slots=True)
class Excluded:
    """A request that counts in no speed, and the rule that says so. It is shown."""

    prompt_id: str
    repeat: int
    stream: int
    why: str


@dataclass(frozen=True)
class Speed:
    """The speeds of one cell. Each reading's note says what it is.

    decode        median over requests of the steady rate of one user
    steady        tokens a second of all users together, while every slot was decoding
    end_to_end    output tokens / time with a request in flight
    ttft          median time from the request's last byte sent to the first content or reasoning
    itl_chunk     median gap between chunks; `itl_token` per token
    """

    decode: Reading
    steady: Reading
    end_to_end: Reading
    ttft: Reading
    itl_chunk: Reading
    itl_token: Reading
    excluded: tuple[Excluded, ...] = ()
    notes: tuple[str, ...] = ()


def absent_speed(reason: str, excluded: tuple[Excluded, ...] = ()) -> Speed:
    """No speed at all, and why."""
    gone = Reading.absent(reason)
    return Speed(gone, gone, gone, gone, gone, gone, excluded)


def measure_speed(requests: RequestColumns, cell: Cell) -> Speed:
    """The speeds of a cell from its measured requests; warm-ups and first-of-shape outliers left out."""
    timing = time_requests(requests, cell.rows)
    late = first_of_shape(requests, timing)
    excluded = tuple(_exclusion(requests, timing, place) for place in np.flatnonzero(late))
    kept = ~late
    if not kept.any():
        return absent_speed("no measured request", excluded)
    whole = ~_in_wave_of(requests, timing.rows, late)
    per_user = _median(timing.rate[kept], "tok/s", "no request told when its tokens came", _guess(timing))
    token_gap = np.full(len(timing), np.nan)
    np.divide(1.0, timing.rate, out=token_gap, where=timing.rate > 0)
    itl_token = _median(token_gap[kept], "s", "no request told when its tokens came")
    notes = []
    if cell.key.concurrency == 1 and per_user.value is not None and itl_token.value is not None:
        fault = itl_matches_rate(itl_token.value, per_user.value)
        if fault:
            notes.append(fault)
    return Speed(
        decode=per_user,
        steady=steady_rate(requests, timing, whole, cell.key.concurrency),
        end_to_end=end_to_end_rate(requests, timing.rows[whole]),
        ttft=_median(timing.ttft[kept], "s", "no first token was seen"),
        itl_chunk=_median(timing.gap[kept], "s", "fewer than two chunks a request"),
        itl_token=itl_token,
        excluded=excluded,
        notes=tuple(notes),
    )


def first_of_shape(requests: RequestColumns, timing: Timing) -> Bools:
    """Which requests are first-of-a-shape outliers, as when an engine compiles at first use.

    The rule: it belongs to the first wave of the cell, its first token took more than 4 times the median
    of the later waves' and more than 0.5 s longer, and at least two later requests are there to compare
    with. A 39.6 s first token before others of 2.3 s is one.
    """
    late = np.zeros(len(timing), dtype=np.bool_)
    if len(timing) == 0:
        return late
    wave = wave_labels(requests, timing.rows)
    opening = wave == wave[np.argmin(requests.sent_ns[timing.rows])]
    others = timing.ttft[~opening]
    others = others[np.isfinite(others)]
    if others.size < OUTLIER_OTHERS:
        return late
    usual = float(np.median(others))
    bound = max(OUTLIER_TIMES * usual, usual + OUTLIER_SECONDS)
    marked: Bools = opening & (np.nan_to_num(timing.ttft, nan=0.0) > bound)
    return marked


def steady_rate(requests: RequestColumns, timing: Timing, kept: Bools, concurrency: int) -> Reading:
    """Tokens a second of all users together while `concurrency` streams were decoding; the ramp is cut.

    A stream decodes from its first chunk to its last. A chunk counts where it came inside such a span,
    with its own tokens where told, else with the request's mean.
    """
    use = kept & np.isfinite(timing.after) & (timing.last_ns > timing.first_ns)
    if not use.any():
        return Reading.absent("no request told when its tokens came")
    opened, closed = busy_spans(timing.first_ns[use], timing.last_ns[use], concurrency)
    seconds = float((closed - opened).sum()) * NANO
    if seconds <= 0:
        return Reading.absent(f"{concurrency} streams were never decoding at the same time")
    times, tokens = _later_chunks(requests, timing, use)
    place = np.searchsorted(opened, times, side="left") - 1
    inside = (place >= 0) & (times <= closed[np.maximum(place, 0)])
    total = float(tokens[inside].sum())
    wall = float((timing.last_ns[use].max() - timing.first_ns[use].min()) * NANO)
    note = f"all {concurrency} slots decoding, {seconds:.3g} s of {wall:.3g} s" if concurrency > 1 else None
    return Reading.of(total / seconds, "tok/s", "client", note=note)


def end_to_end_rate(requests: RequestColumns, rows: Ints) -> Reading:
    """Output tokens / wall time with a request in flight: prefill, ramp and stragglers are inside."""
    if not len(rows):
        return Reading.absent("every wave held an excluded request")
    output = requests.output_tokens[rows]
    if np.isnan(output).any():
        return Reading.absent("the server does not report output tokens")
    opened, closed = busy_spans(requests.sent_ns[rows], requests.end_ns[rows], 1)
    seconds = float((closed - opened).sum()) * NANO
    if seconds <= 0:
        return Reading.absent("the requests took no time")
    return Reading.of(
        float(output.sum()) / seconds,
        "tok/s",
        "client",
        note="output tokens / wall time with a request in flight, prefill included",
    )


def busy_spans(starts: Ints, ends: Ints, least: int) -> tuple[Ints, Ints]:
    """The spans in which at least `least` of the intervals [start, end] run, as (opened, closed)."""
    moments = np.concatenate((starts, ends))
    steps = np.concatenate((np.ones(len(starts), np.int64), -np.ones(len(ends), np.int64)))
    order = np.lexsort((steps, moments))
    busy = np.cumsum(steps[order]) >= least
    moments = moments[order]
    turns = np.flatnonzero(np.diff(np.concatenate(([False], busy, [False])).astype(np.int8)))
    opened, closed = moments[turns[0::2]], moments[np.minimum(turns[1::2], len(moments) - 1)]
    some = closed > opened
    return opened[some], closed[some]


def most_at_once(starts: Ints, ends: Ints, groups: Ints) -> Ints:
    """For each group, ascending, the largest number of its intervals [start, end) that run at one moment."""
    if not len(starts):
        return np.empty(0, dtype=np.int64)
    moments = np.concatenate((starts, ends))
    steps = np.concatenate((np.ones(len(starts), np.int64), -np.ones(len(ends), np.int64)))
    both = np.concatenate((groups, groups))
    order = np.lexsort((steps, moments, both))
    # every group ends where it began, at none: one running sum serves all
    running = np.cumsum(steps[order])
    edges = np.flatnonzero(np.diff(both[order], prepend=both[order][0] - 1))
    most: Ints = np.maximum.reduceat(running, edges)
    return most


def _later_chunks(requests: RequestColumns, timing: Timing, use: Bools) -> tuple[Ints, Floats]:
    rows = timing.rows[use]
    starts = requests.chunk_offsets[rows] + 1
    counts = timing.chunks_after[use]
    where = ranges(starts, counts)
    own = requests.chunk_tokens[where].astype(np.float64)
    mean = np.repeat(timing.after[use] / np.maximum(counts, 1), counts)
    tokens = np.where(np.repeat(timing.told[use], counts), own, mean)
    return requests.chunk_ns[where], tokens


def _in_wave_of(requests: RequestColumns, rows: Ints, marked: Bools) -> Bools:
    wave = wave_labels(requests, rows)
    inside: Bools = np.isin(wave, wave[marked])
    return inside


def _exclusion(requests: RequestColumns, timing: Timing, place: np.intp) -> Excluded:
    row = timing.rows[place]
    return Excluded(
        str(requests.prompt_id[row]),
        int(requests.repeat[row]),
        int(requests.stream[row]),
        f"first of its shape: its first token took {timing.ttft[place]:.3g} s, more than 4 times the others'",
    )


def _guess(timing: Timing) -> str | None:
    return FIRST_CHUNK_NOTE if timing.guessed.any() else None


def _median(values: Floats, unit: str, otherwise: str, note: str | None = None) -> Reading:
    known = values[np.isfinite(values)]
    if not known.size:
        return Reading.absent(otherwise)
    missing = len(values) - known.size
    said = f"{missing} of {len(values)} requests do not tell" if missing else None
    notes = "; ".join(text for text in (note, said) if text)
    return Reading.of(float(np.median(known)), unit, "client", note=notes or None)
