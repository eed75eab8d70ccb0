"""One arm over another by what is maximised, with its inference."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from kvantage.analysis.asked import Objective
from kvantage.analysis.compare import infer_of
from kvantage.analysis.inference import Inference
from kvantage.analysis.measure import MeasuredCell
from kvantage.analysis.objective import effects
from kvantage.analysis.spending import Level
from kvantage.core.columns import RequestColumns
from kvantage.core.reading import Reading

Standing = Literal["ahead", "behind", "tied", "inconclusive"]


@dataclass(frozen=True)
class Margin:
    """The objective of `arm` over that of `baseline`, with its interval and the level of replication."""

    arm: str
    baseline: str
    ratio: Reading
    inference: Inference

    def inverted(self) -> Margin:
        """The baseline over the arm."""
        return Margin(self.baseline, self.arm, invert(self.ratio), self.inference.inverted())

    def standing(self, margin: float) -> Standing:
        """`ahead` or `behind` for certain; `tied` where the interval lies within the margin that matters;
        `inconclusive` where it spans 1 and holds more than the margin.
        """
        side = self.inference.side
        if side != "inconclusive":
            return "ahead" if side == "above" else "behind"
        return "tied" if within(self.ratio, margin) else "inconclusive"


def within(ratio: Reading, margin: float) -> bool:
    """True where the whole interval differs from 1 by less than the margin: 0.98 to 1.02 within 3 %."""
    if ratio.low is None or ratio.high is None:
        return False
    return ratio.high < 1 + margin and ratio.low > 1 / (1 + margin)


def invert(ratio: Reading) -> Reading:
    """1 / ratio, its interval with it."""
    if ratio.value is None:
        return ratio
    return replace(
        ratio,
        value=1 / ratio.value,
        low=1 / ratio.high if ratio.high is not None else None,
        high=1 / ratio.low if ratio.low is not None else None,
    )


def margins_of(
    requests: RequestColumns,
    objective: Objective,
    measured: Mapping[str, Sequence[MeasuredCell]],
    level: Level | None,
    least: int = 1,
) -> dict[tuple[str, str], Margin]:
    """The margin of every pair of arms with at least `least` sound blocks, the later arm over the earlier."""
    names = list(measured)
    found = {}
    for place, early in enumerate(names):
        for late in names[place + 1 :]:
            told = effects(requests, objective, measured[late], measured[early])
            if len(told) >= least:
                inference = infer_of(told, level)
                value = math.exp(float(np.mean([effect.log for effect in told])))
                ratio = Reading.of(
                    value,
                    "ratio",
                    "computed",
                    low=inference.low,
                    high=inference.high,
                    note=inference.level,
                )
                found[late, early] = Margin(late, early, ratio, inference)
    return found


def between(a: str, b: str, margins: Mapping[tuple[str, str], Margin]) -> Margin | None:
    """Arm a over arm b, whichever way it was computed."""
    if (a, b) in margins:
        return margins[a, b]
    return margins[b, a].inverted() if (b, a) in margins else None


def best_first(figures: Mapping[str, Reading], margins: Mapping[tuple[str, str], Margin]) -> list[str]:
    """The arms by what is maximised, best first: by the mean of each one's log-margins over the others.

    A margin is of blocks that both arms have; where a pair has none their figures stand in. So an arm does
    not lead because its void boots were the slow ones.
    """

    def over(arm: str, other: str) -> float:
        found = between(arm, other, margins)
        if found is not None and found.ratio.value is not None:
            return math.log(found.ratio.value)
        return math.log((figures[arm].value or 1.0) / (figures[other].value or 1.0))

    scores = {
        arm: float(np.mean([over(arm, other) for other in figures if other != arm] or [0.0]))
        for arm in figures
    }
    return sorted(figures, key=lambda arm: -scores[arm])
