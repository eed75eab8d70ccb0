"""How far boots of one arm were seen to lie apart by others: what a study of one boot cannot know."""

from __future__ import annotations

import math
from dataclasses import dataclass

RANGE_OF_THREE = 1.693
"""Expected range of three normal values, in standard deviations (Tippett 1925; quality control's d2)."""


@dataclass(frozen=True, slots=True)
class BootNoise:
    """A published spread between boots of one arm.

    `sd` is the standard deviation of the logarithm of the speed. The reports tell a range and not over how
    many boots; it is read as that of three. `words` say what was seen and where.
    """

    sd: float
    words: str
    source: str


def sd_of_range(low: float, high: float) -> float:
    """The standard deviation of logarithms that a range of three boots suggests: 92 to 111 tok/s is 0.111."""
    return math.log(high / low) / RANGE_OF_THREE


PINNED = BootNoise(
    sd_of_range(1 - 0.016, 1 + 0.016),
    "within 1.6 % of their middle, a deviation of 1.9 %",
    "a public report of one stack on two GB10, eight requests at once",
)
AUTOTUNED = BootNoise(
    sd_of_range(92.0, 111.0),
    "92 to 111 tok/s, steady to the decimal within each boot",
    "the same report",
)
POOL_SHARE = 0.03
"""Pools of one arm were seen to move by 3 % between boots (public reports)."""
