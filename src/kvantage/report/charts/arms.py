"""Arms in charts: everywhere the same order, colour and shape."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from kvantage.analysis.findings import Findings
from kvantage.report.charts.theme import SHAPES, arm_colour, colour_places


def order(findings: Findings) -> list[str]:
    """The arms' names, the control first."""
    names = [arm.name for arm in findings.arms]
    return sorted(names, key=lambda name: (name != findings.study.control, names.index(name)))


def places(findings: Findings) -> dict[str, int]:
    """Each arm's place in the palette."""
    return colour_places(findings.study.control, [arm.name for arm in findings.arms])


LEAST = 24
"""Pixels of a place, so that its name has room."""


def colour(findings: Findings, arms: Sequence[str] | None = None, legend: bool = True) -> alt.Color:
    """The field `arm` as colour; of `arms` only those that the chart shows."""
    shown, place = _shown(findings, arms), places(findings)
    return alt.Color(
        "arm:N",
        scale=alt.Scale(domain=shown, range=[arm_colour(place[name]) for name in shown]),
        legend=alt.Legend(title=None) if legend else None,
    )


def shape(findings: Findings, arms: Sequence[str] | None = None, legend: bool = True) -> alt.Shape:
    """The field `arm` as shape, for who does not tell the colours apart. Give `arms` as to `colour`."""
    shown, place = _shown(findings, arms), places(findings)
    return alt.Shape(
        "arm:N",
        scale=alt.Scale(domain=shown, range=[SHAPES[place[name]] for name in shown]),
        legend=alt.Legend(title=None) if legend else None,
    )


def rows(findings: Findings, arms: Sequence[str] | None = None) -> alt.Y:
    """The field `arm` downwards, a row each, the control first."""
    return alt.Y("arm:N", sort=_shown(findings, arms), title=None)


def _shown(findings: Findings, arms: Sequence[str] | None) -> list[str]:
    names = order(findings)
    return names if arms is None else [name for name in names if name in set(arms)]


def one(findings: Findings, arm: str) -> str:
    """The colour of one arm."""
    return arm_colour(places(findings)[arm])


def height(shown: Sequence[str], step: int, places: int = 1) -> int:
    """Pixels for a row of `step` for each arm that is shown, in each of `places`.

    Vega-Lite's own steps would do the same, and warn in the console that they cannot fit the height.
    """
    return max(LEAST, step * len(set(shown))) * places
