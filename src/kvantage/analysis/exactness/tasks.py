"""Right and wrong on the same items: McNemar's test, and equivalence within a margin."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from scipy import special

from kvantage.core import Answer


@dataclass(frozen=True, slots=True)
class TaskResult:
    """One arm against the control on paired items. A request that failed or timed out is a wrong answer.

    `gained` items only the arm has right, `lost` only the control. `difference` is the arm's share of right
    items less the control's, with its 90 % interval; `equivalent` says whether that lies inside the margin
    (two one-sided tests at 5 %).
    """

    arm: str
    items: int
    right: int
    control_right: int
    gained: tuple[str, ...]
    lost: tuple[str, ...]
    mcnemar_p: float
    difference: float
    low: float
    high: float
    margin: float

    @property
    def equivalent(self) -> bool:
        """True when the difference is surely smaller than the margin, either way."""
        return -self.margin < self.low and self.high < self.margin


def compare_tasks(arm: str, on: Sequence[Answer], off: Sequence[Answer], margin: float) -> TaskResult | None:
    """Pair the items by name; an item with several answers counts as right when all are. None without one."""
    mine, theirs = _right(on), _right(off)
    both = [name for name in mine if name in theirs]
    if not both:
        return None
    gained = tuple(name for name in both if mine[name] and not theirs[name])
    lost = tuple(name for name in both if theirs[name] and not mine[name])
    low, high = paired_interval(len(gained), len(lost), len(both))
    return TaskResult(
        arm,
        len(both),
        sum(mine[name] for name in both),
        sum(theirs[name] for name in both),
        gained,
        lost,
        mcnemar_p(len(gained), len(lost)),
        (len(gained) - len(lost)) / len(both),
        low,
        high,
        margin,
    )


def _right(answers: Sequence[Answer]) -> Mapping[str, bool]:
    found: dict[str, bool] = {}
    for answer in answers:
        right = answer.ok and answer.checks.get("status") == "pass"
        found[answer.prompt_id] = found.get(answer.prompt_id, True) and right
    return found


def mcnemar_p(gained: int, lost: int) -> float:
    """Two-sided exact p (McNemar 1947, binomial form): 1 where nothing is discordant."""
    total = gained + lost
    if not total:
        return 1.0
    tail: float = math.fsum(math.comb(total, k) for k in range(min(gained, lost) + 1)) / 2**total
    return min(1.0, 2.0 * tail)


def paired_interval(gained: int, lost: int, items: int, confidence: float = 0.90) -> tuple[float, float]:
    """Score interval of the difference of two paired shares (Tango 1998): those differences that a score test
    does not reject. It has a width even where nothing is discordant: 40 items then give +-6.3 points.
    """
    z = float(special.ndtri(0.5 + confidence / 2))
    middle = (gained - lost) / items

    def outside(delta: float) -> float:
        return abs(_score(delta, gained, lost, items)) - z

    return _edge(outside, middle, -1.0), _edge(outside, middle, 1.0)


def _score(delta: float, gained: int, lost: int, items: int) -> float:
    a = 2.0 * items
    b = -gained - lost + (2 * items - gained + lost) * delta
    c = -lost * delta * (1 - delta)
    q = (math.sqrt(max(0.0, b * b - 4 * a * c)) - b) / (2 * a)
    variance = items * (2 * q + delta * (1 - delta))
    distance = gained - lost - items * delta
    if variance <= 0:
        return 0.0 if distance == 0 else math.copysign(math.inf, distance)
    return distance / math.sqrt(variance)


def _edge(beyond: Callable[[float], float], inside: float, end: float) -> float:
    if beyond(end) <= 0:
        return end
    good, bad = inside, end
    for _ in range(80):
        half = (good + bad) / 2
        good, bad = (half, bad) if beyond(half) <= 0 else (good, half)
    return good
