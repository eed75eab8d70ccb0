"""Each client's mean TTFT error, the request rate that it reached, and its CPU, by streams."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import altair as alt

PANELS = (
    ("ttft_error_ms", "mean TTFT error, ms", "log"),
    ("request_share", "request rate, share of the possible", "linear"),
    ("whole_cpu_ms_per_1000_chunks", "CPU of 1,000 chunks with start-up, ms", "log"),
)
COLOURS = ("#d62728", "#1f77b4", "#2ca02c", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f")


def draw(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Three panels as one SVG; the streams are on a logarithmic axis, and so are errors and CPU."""
    tools = list(dict.fromkeys(row["tool"] for row in rows))
    colour = alt.Color(
        "tool:N", title=None, sort=tools, scale=alt.Scale(domain=tools, range=list(COLOURS[: len(tools)]))
    )
    streams = sorted({row["streams"] for row in rows})
    charts = []
    for name, title, scale in PANELS:
        data = [
            {"tool": row["tool"], "streams": row["streams"], "value": abs(row[name])}
            for row in rows
            if row.get(name)
        ]
        base = alt.Chart(alt.Data(values=data), width=240, height=220, title=title).encode(
            x=alt.X(
                "streams:Q",
                scale=alt.Scale(type="log", base=2),
                axis=alt.Axis(values=streams, title="streams"),
            ),
            y=alt.Y("value:Q", title=None, scale=alt.Scale(type=scale, zero=False)),
            color=colour,
        )
        charts.append(base.mark_line(strokeWidth=2) + base.mark_point(filled=True, size=40))
    chart = (
        alt.hconcat(*charts).configure_legend(orient="bottom", columns=len(tools)).configure_view(stroke=None)
    )
    chart.properties(background="white").save(str(path))
