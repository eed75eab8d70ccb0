"""Colours and type of every chart: one colour an arm in the whole report, in light and in dark.

A chart names colours as CSS variables, so that a page's theme (or the printer's) recolours it without
drawing it again; a static image has them filled in. The palettes were searched for the largest distance
(CIELAB) between any two colours as seen with and without a colour vision deficiency (Machado 2009), with
a contrast to the ground of 3:1 at least; where two are near all the same, marks differ in shape too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

Theme = Literal["light", "dark"]

ARMS: dict[Theme, tuple[str, ...]] = {
    "light": ("#69717a", "#1c5fd8", "#c8780c", "#8a2148", "#2f9a69", "#6b359f", "#b84d3f", "#524910"),
    "dark": ("#a3acb6", "#5c97ff", "#f0a33a", "#e868ae", "#3fd3a0", "#b99af7", "#e08a73", "#dbd55b"),
}
"""The control's first, then the arms' in the order of the study."""

PARTS: dict[Theme, tuple[str, ...]] = {
    "light": ("#2b4a6f", "#c8780c", "#8a6fb0", "#93a1af", "#dba858", "#4f8f8a", "#b9a58a", "#e6eaee"),
    "dark": ("#8db4e0", "#f0a33a", "#b9a3dd", "#66727e", "#a8762c", "#6fb8b2", "#8a7a63", "#2c333b"),
}
"""Parts of a memory, in the order of `analysis.memory.PARTS`; the last is what is free."""

STAGES: dict[Theme, tuple[str, ...]] = {
    "light": ("#c9cfd6", "#c8780c", "#2b6cb0", "#a8261f"),
    "dark": ("#4a535d", "#f0a33a", "#6fa8ef", "#ff8f86"),
}
"""Stages of a request: waiting, reading its prompt, writing its answer; and a miss of the cache."""

INK: dict[Theme, str] = {"light": "#1b1f24", "dark": "#e8ebee"}
GROUND: dict[Theme, str] = {"light": "#ffffff", "dark": "#14171b"}
ACCENT: dict[Theme, str] = {"light": "#0b57c2", "dark": "#8ab4ff"}

SHAPES = ("circle", "square", "diamond", "triangle-up", "cross", "triangle-down", "triangle-right", "stroke")
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"


def arm_colour(place: int) -> str:
    """The colour of the arm at that place, 0 the control."""
    return f"var(--arm-{place % len(ARMS['light'])})"


def part_colour(place: int) -> str:
    """The colour of the part of a memory at that place."""
    return f"var(--part-{place})"


def stage_colour(place: int) -> str:
    """The colour of a stage of a request, or of a miss."""
    return f"var(--stage-{place})"


def colour_places(control: str, arms: Sequence[str]) -> dict[str, int]:
    """Each arm's place in the palette, the control's 0. With more arms than colours those of the others
    come again, and never the control's.
    """
    others = [arm for arm in arms if arm != control]
    most = len(ARMS["light"]) - 1
    return {control: 0, **{arm: 1 + place % most for place, arm in enumerate(others)}}


def css_variables(theme: Theme) -> str:
    """The colours as declarations of CSS."""
    return "".join(f"{name[4:-1]}:{colour};" for name, colour in _named(theme).items())


def config() -> dict[str, Any]:
    """Vega-Lite's configuration for all charts: no frame, faint grid, small legible type, no chart junk."""
    return {
        "font": FONT,
        "background": "transparent",
        "aria": False,
        "padding": {"left": 2, "right": 10, "top": 4, "bottom": 4},
        "view": {"stroke": None},
        "axis": {
            "labelColor": "var(--ink)",
            "titleColor": "var(--ink)",
            "labelFontSize": 12,
            "titleFontSize": 12,
            "titleFontWeight": "normal",
            "labelLimit": 150,
            "gridColor": "var(--ink)",
            "gridOpacity": 0.12,
            "domainColor": "var(--ink)",
            "domainOpacity": 0.35,
            "tickColor": "var(--ink)",
            "tickOpacity": 0.35,
            "labelOverlap": "greedy",
        },
        "axisY": {"grid": False, "domain": False, "ticks": False, "labelPadding": 8},
        "axisX": {"tickCount": 5},
        "legend": {
            "labelColor": "var(--ink)",
            "titleColor": "var(--ink)",
            "labelFontSize": 12,
            "titleFontSize": 12,
            "titleFontWeight": "normal",
            "orient": "top",
            "direction": "horizontal",
            "columns": 6,
            "labelLimit": 140,
            "symbolOpacity": 1,
            "symbolSize": 90,
        },
        "title": {"color": "var(--ink)", "anchor": "start", "fontSize": 13},
        "text": {"color": "var(--ink)", "fontSize": 12},
        "rule": {"color": "var(--ink)"},
        "header": {"labelColor": "var(--ink)", "titleColor": "var(--ink)"},
    }


def filled(spec: Any, theme: Theme) -> Any:
    """The chart with every colour variable replaced by its colour, for a picture that stands alone."""
    if isinstance(spec, dict):
        return {name: filled(value, theme) for name, value in spec.items()}
    if isinstance(spec, list):
        return [filled(value, theme) for value in spec]
    return _named(theme).get(spec, spec) if isinstance(spec, str) else spec


def _named(theme: Theme) -> dict[str, str]:
    named = {"ink": INK[theme], "ground": GROUND[theme], "accent": ACCENT[theme]}
    named |= {f"arm-{place}": colour for place, colour in enumerate(ARMS[theme])}
    named |= {f"part-{place}": colour for place, colour in enumerate(PARTS[theme])}
    named |= {f"stage-{place}": colour for place, colour in enumerate(STAGES[theme])}
    return {f"var(--{name})": colour for name, colour in named.items()}
