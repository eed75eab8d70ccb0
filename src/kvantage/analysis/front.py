"""The Pareto front: the arms that no other arm beats on both axes."""

from __future__ import annotations

from collections.abc import Sequence


def on_front(points: Sequence[tuple[float, float]]) -> list[bool]:
    """For each (x, y), more being better on both: True unless another is at least as good on both axes and
    better on one. (4, 1), (2, 2) and (1, 1) give True, True, False.
    """
    return [
        not any(
            other[0] >= x and other[1] >= y and (other[0] > x or other[1] > y)
            for place, other in enumerate(points)
            if place != mine
        )
        for mine, (x, y) in enumerate(points)
    ]
