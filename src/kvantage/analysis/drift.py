"""Whether the control still is what it was: a later look at it over the first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kvantage.analysis.compare import Ratio, compare_pair
from kvantage.analysis.measure import MeasuredCell
from kvantage.analysis.stats import judge
from kvantage.core.columns import RequestColumns

MARGIN = 0.05
"""A relative change under which, without an interval, nothing is said to have moved."""


@dataclass(frozen=True)
class Drift:
    """The control's speed at `measured_at` over its first, on the same prompts.

    `moved` is True when the interval leaves 1 (without one, when it changed by more than 5 %): arms that
    were measured on both sides of it are then not compared like with like.
    """

    arm: str
    block: int
    workload: str
    measured_at: str
    ratio: Ratio
    moved: bool

    @property
    def words(self) -> str:
        """The drift in a sentence."""
        reading = self.ratio.ratio
        if reading.value is None:
            return f"The control's recheck of {self.measured_at} tells nothing: {reading.missing}."
        spans = ""
        if reading.low is not None and reading.high is not None:
            spans = f" ({reading.low:.2f} to {reading.high:.2f})"
        told = f"The control was looked at again on {self.measured_at}: {reading.value:.3f}x its first{spans}"
        if self.moved:
            return f"{told}. It drifted: ratios across that time hold the drift as well."
        if reading.low is None or reading.high is None or max(reading.high, 1 / reading.low) > 1 + MARGIN:
            return f"{told}: too uncertain to tell a drift of {MARGIN:.0%}."
        return f"{told}, no drift seen."


def find_drift(
    requests: RequestColumns, rechecks: Sequence[MeasuredCell], control: Sequence[MeasuredCell]
) -> tuple[Drift, ...]:
    """Each recheck of the control against the short cell of the same boot and workload."""
    found = []
    for again in rechecks:
        key = again.cell.key
        first = [
            each
            for each in control
            if each.cell.key.phase == "short"
            and (each.cell.key.block, each.cell.key.workload) == (key.block, key.workload)
        ]
        if first:
            ratio = compare_pair(requests, "decode_tok_s", again, first[0])
            found.append(
                Drift(key.arm, key.block, key.workload, again.findings.measured_at, ratio, _moved(ratio))
            )
    return tuple(found)


def _moved(ratio: Ratio) -> bool:
    reading = ratio.ratio
    if reading.value is None:
        return False
    if reading.low is None:
        return abs(reading.value - 1) > MARGIN
    return judge(reading.low, reading.high) != "inconclusive"
