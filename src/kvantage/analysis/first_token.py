"""The first tokens of a ladder's rung: what was sent for the first time, and what the engine compiled for."""

from __future__ import annotations

import numpy as np

from kvantage.analysis.speed import OUTLIER_SECONDS, OUTLIER_TIMES, Excluded, Speed, absent_speed
from kvantage.analysis.timing import Timing
from kvantage.core.columns import Bools, Floats, RequestColumns
from kvantage.core.reading import Reading

FEW_TOKENS = "an answer of a few tokens tells no rate"


def sent_as(requests: RequestColumns, timing: Timing, turn: int) -> Bools:
    """Which requests sent their document for the first time (turn 0), or again (1, 2)."""
    chosen: Bools = requests.repeat[timing.rows] == turn
    return chosen


def compiled_for(requests: RequestColumns, timing: Timing) -> Bools:
    """Which uncached requests are outliers of a compilation, as at the first use of a length.

    The rule: it is the first of its length, and its first token took more than 4 times the median of the
    other documents' and more than 0.5 s longer. With a single document nothing is told.
    """
    marked = np.zeros(len(timing), dtype=np.bool_)
    fresh = np.flatnonzero(sent_as(requests, timing, 0) & np.isfinite(timing.ttft))
    if fresh.size < 2:
        return marked
    first = fresh[np.argmin(requests.sent_ns[timing.rows[fresh]])]
    others = timing.ttft[fresh[fresh != first]]
    marked[first] = is_outlier(float(timing.ttft[first]), float(np.median(others)))
    return marked


def is_outlier(seconds: float, usual: float) -> bool:
    """More than 4 times the usual and more than 0.5 s longer: 39.6 s before others of 2.3 s are one."""
    return seconds > max(OUTLIER_TIMES * usual, usual + OUTLIER_SECONDS)


def uncached(requests: RequestColumns, timing: Timing) -> Bools:
    """Which requests tell the uncached first token: sent for the first time, and not compiled for."""
    return sent_as(requests, timing, 0) & ~compiled_for(requests, timing)


def first_token_speed(requests: RequestColumns, timing: Timing, kept: Bools) -> Speed:
    """The uncached TTFT of a rung, and no other speed."""
    excluded = tuple(
        Excluded(
            str(requests.prompt_id[timing.rows[place]]),
            0,
            int(requests.stream[timing.rows[place]]),
            f"first of its length: its first token took {timing.ttft[place]:.3g} s, "
            "more than 4 times the others'",
        )
        for place in np.flatnonzero(compiled_for(requests, timing))
    )
    none = absent_speed(FEW_TOKENS, excluded)
    return Speed(
        none.decode,
        none.steady,
        none.end_to_end,
        seconds(timing.ttft[kept], "uncached"),
        none.itl_chunk,
        none.itl_token,
        excluded,
    )


def seconds(values: Floats, what: str) -> Reading:
    """The median with the range over documents."""
    known = values[np.isfinite(values)]
    if not known.size:
        return Reading.absent("no first token was seen")
    low, high = (float(known.min()), float(known.max())) if known.size > 1 else (None, None)
    note = (
        f"{what}, median and range of {known.size} documents" if known.size > 1 else f"{what}, one document"
    )
    return Reading.of(float(np.median(known)), "s", "client", low=low, high=high, note=note)
