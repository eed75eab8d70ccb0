"""On each axis the arm that comes nearest to the best one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kvantage.analysis import wording
from kvantage.analysis.capacity import Pool
from kvantage.core.reading import Reading


@dataclass(frozen=True)
class Rival:
    """The nearest arm on one axis, ruled out or not: its figure over the best arm's."""

    axis: str
    arm: str
    ratio: Reading

    @property
    def words(self) -> str:
        """'`mtp` on the KV pool, 1.89x'."""
        assert self.ratio.value is not None
        return f"{wording.named(self.arm)} on {self.axis}, {wording.times(self.ratio.value)}"


def find_rivals(
    best: str,
    arms: Sequence[tuple[str, Reading, Pool]],
    objective: str,
    paired: Mapping[str, Reading],
) -> tuple[Rival, ...]:
    """The nearest rival of `best` by what is maximised and by the pool in tokens; by ratio, either way.

    `paired` are the others' objectives over the best one's, block by block; where there is none the figures
    themselves are divided.
    """
    speeds = {arm: figure for arm, figure, _ in arms}
    pools = {arm: pool.tokens for arm, _, pool in arms}
    found = []
    for axis, values, known in (
        (objective, speeds, paired),
        ("the KV pool in tokens", pools, dict[str, Reading]()),
    ):
        others = {
            arm: known[arm] if arm in known else _over(values[arm], values[best])
            for arm in values
            if arm != best
        }
        told = {arm: ratio for arm, ratio in others.items() if ratio.value}
        if told:
            near = min(told, key=lambda arm: abs(math.log(told[arm].value or 1.0)))
            found.append(Rival(axis, near, told[near]))
    return tuple(found)


def _over(value: Reading, best: Reading) -> Reading:
    if not value.value or not best.value:
        return Reading.absent(value.missing or best.missing or "not known")
    return Reading.of(value.value / best.value, "ratio", "computed", note="unpaired: no interval")
