"""Where a clock that is looked at once a second changes from one level to another."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kvantage.core.columns import Floats

SIDE = 5
"""Looks on each side of a change: a level is what lasts five seconds."""
NOISES = 4.0
"""A change must stand out of the clock's own noise by so many standard deviations."""


@dataclass(frozen=True, slots=True)
class Step:
    """Between looks `place - 1` and `place` the level goes from `before` to `after`."""

    place: int
    before: float
    after: float

    @property
    def share(self) -> float:
        """The change as a share of the higher level; negative where it falls."""
        return (self.after - self.before) / max(self.before, self.after)


def find_step(values: Floats, share: float) -> Step | None:
    """The largest change of level, None where there is none of at least `share`.

    At each place the median of the five looks before is held against that of the five after. They differ in
    level when it is by at least `share` of the higher one and by at least four times the noise: the robust
    standard deviation of one look, from the median absolute difference of neighbours. So a slow drift, a look
    or two that stick out, and a clock that dithers are no step. Needs ten looks.
    """
    known = values[np.isfinite(values)]
    if len(known) < 2 * SIDE:
        return None
    sides = np.lib.stride_tricks.sliding_window_view(known, SIDE)
    levels, means = np.median(sides, axis=1), sides.mean(axis=1)
    before, after = levels[:-SIDE], levels[SIDE:]
    change = np.abs(after - before)
    noise = float(np.median(np.abs(np.diff(known)))) / (0.6745 * np.sqrt(2))
    counts = (change >= share * np.maximum(before, after)) & (change >= NOISES * noise) & (change > 0)
    if not counts.any():
        return None
    largest = counts & (change >= change[counts].max() * (1 - 1e-9))
    sharpest = np.abs(means[SIDE:] - means[:-SIDE])  # medians see a change up to two looks beside it
    place = int(np.argmax(np.where(largest, sharpest, -1.0)))
    return Step(place + SIDE, float(before[place]), float(after[place]))
