"""A figure as a complete Vega-Lite specification, and as a picture without a browser."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from kvantage.core.errors import LedgerError
from kvantage.report.blocks import Figure
from kvantage.report.charts.theme import GROUND, Theme, config, filled

FIT = {"type": "fit-x", "contains": "padding"}
"""A chart is as wide as its place and as high as it needs."""
WIDTH = 720
"""Of a picture, in CSS pixels; a page's charts are as wide as their place."""
SCALE = 2.0
"""Pixels of a PNG for each CSS pixel."""


def specification(figure: Figure) -> dict[str, Any]:
    """The figure as Vega-Lite without its data, its colours as CSS variables."""
    spec: dict[str, Any] = _without_data(figure.chart.to_dict())
    return {**spec, "autosize": FIT, "config": config(), "description": figure.alt}


def _without_data(spec: Any) -> Any:
    """The chart and its layers without the empty data that Altair gives each; all take the figure's rows."""
    if isinstance(spec, list):
        return [_without_data(each) for each in spec]
    if not isinstance(spec, dict):
        return spec
    unused = ("$schema", "data", "datasets")
    return {name: _without_data(value) for name, value in spec.items() if name not in unused}


@cache
def runtime() -> str:
    """Vega-Embed, Vega-Lite and Vega as one script that needs nothing else: vl-convert's bundle.

    It is wrapped in a function, so that it leaves nothing in the page but `vegaEmbed`; Vega's own
    expression interpreter is in it, so that a page may forbid `eval`. Their licence goes before it.
    """
    import vl_convert

    bundle = str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;"))
    bundle = bundle.replace("\r", "").replace("</script", "<\\/script").replace("<!--", "<\\!--")
    notice = resources.files("kvantage.report.charts").joinpath("VEGA-LICENSE").read_text(encoding="utf-8")
    return f"/*!\n{notice}*/\n(()=>{{{bundle}\n}})();"


def write_pictures(figures: list[Figure], folder: Path, theme: Theme = "light") -> list[Path]:
    """Each figure as NAME.svg and NAME.png in `folder`, which is made. Returns the paths.

    Raises LedgerError when the folder cannot be written.
    """
    import vl_convert

    paths: list[Path] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for figure in figures:
            svg = vl_convert.vegalite_to_svg(json.dumps(_alone(figure, theme)))
            for ending, content in (
                ("svg", svg.encode()),
                ("png", vl_convert.svg_to_png(svg, scale=SCALE)),
            ):
                path = folder / f"{figure.name}.{ending}"
                path.write_bytes(content)
                paths.append(path)
    except OSError as error:
        raise LedgerError(
            f"the charts cannot be written: {error.strerror or error}",
            where=str(folder),
            hint="name a folder that you may write to: `--charts DIR`",
        ) from error
    return paths


def _alone(figure: Figure, theme: Theme) -> dict[str, Any]:
    """The figure with data, title, ground and width, as it is when no page is around it."""
    spec: dict[str, Any] = filled(specification(figure), theme)
    spec["data"] = {"values": [dict(row) for row in figure.rows]}
    spec["width"] = WIDTH
    spec["background"] = GROUND[theme]
    spec["title"] = {"text": _lines(figure.title), "subtitle": _lines(figure.note)}
    spec["config"]["padding"] = 16
    spec["config"]["font"] = "DejaVu Sans, sans-serif"
    ink = spec["config"]["title"]["color"]
    spec["config"]["title"] |= {"offset": 12, "subtitleColor": ink, "subtitlePadding": 6}
    return spec


def _lines(text: str, width: int = 100) -> list[str]:
    import textwrap

    return textwrap.wrap(text, width)
