"""How many drafts a step accepts: position by position, with the rates given."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from operator import mul

import numpy as np

BLOCK = 64
BALANCED = np.tile(np.arange(BLOCK), (BLOCK, 1))


class Drafting:
    """Draws the accepted drafts of step after step. `rates` are conditional on all before being accepted.

    Draws are balanced over each 64 steps, so that a short wave's mean is that of the rates, not of its luck.
    """

    def __init__(self, rates: Sequence[float], seed: int) -> None:
        if any(not 0 <= rate <= 1 for rate in rates):
            raise ValueError("an acceptance rate is between 0 and 1")
        self.drafts = len(rates)
        self._reached = np.array(list(accumulate(rates, mul)))
        self._random = np.random.default_rng(seed)
        self._drawn: list[int] = []

    @property
    def length(self) -> float:
        """The acceptance length that the rates give, bonus included."""
        return 1.0 + float(self._reached.sum())

    def next(self) -> int:
        """Accepted drafts of the next step, 0 to k."""
        if not self._drawn:
            draws = (
                self._random.permuted(BALANCED, axis=1) + self._random.random(BALANCED.shape)
            ).ravel() / BLOCK
            counts: list[int] = (draws[:, None] < self._reached[None, :]).sum(axis=1).tolist()
            self._drawn = counts
        return self._drawn.pop()
