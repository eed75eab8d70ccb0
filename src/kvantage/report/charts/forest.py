"""Ratios with their intervals around 1, a row each, and the dot of every boot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import altair as alt

from kvantage.analysis.compare import Ratio
from kvantage.analysis.findings import Findings
from kvantage.report.blocks import Chart, Value
from kvantage.report.charts import arms
from kvantage.report.charts.tips import spans, tips

UNITS = {"ratio": "x", "low": "x", "high": "x"}


def forest_rows(arm: str, where: str, ratio: Ratio) -> list[dict[str, Value]]:
    """A row for the ratio with its interval, and one for each boot where there are several."""
    base: dict[str, Value] = {"arm": arm, "place": where, "arm_value": ratio.value.value}
    base |= {"control_value": ratio.baseline.value, "unit": ratio.value.unit}
    rows = [
        {
            **base,
            "ratio": ratio.ratio.value,
            "low": ratio.ratio.low,
            "high": ratio.ratio.high,
            "told_apart": {"above": "above 1", "below": "below 1"}.get(ratio.side, "not told apart from 1"),
            "interval": ratio.replication,
            "boot": None,
        }
    ]
    if len(ratio.boots) > 1:
        rows += [{"arm": arm, "place": where, "boot": block, "ratio": each} for block, each in ratio.boots]
    return rows


def forest(
    findings: Findings, rows: Sequence[Mapping[str, Value]], places: Sequence[str], title: str
) -> Chart:
    """Intervals as strokes and estimates as marks on a logarithmic axis with 1 marked; small dots are boots.

    With one place the arms are the rows; with several, the places are, and the arms lie within each.
    """
    shown = [str(row["arm"]) for row in rows]
    ends = [row.get(name) for row in rows for name in ("ratio", "low", "high")]
    known = [float(end) for end in ends if isinstance(end, int | float) and end > 0] or [1.0]
    domain = [max(0.02, min(0.9, min(known) * 0.97)), min(50.0, max(1.1, max(known) * 1.03))]
    x = alt.X(
        "ratio:Q",
        title=title,
        scale=alt.Scale(type="log", base=2, domain=domain, nice=False, clamp=True),
        axis=alt.Axis(tickCount=5, format="~g"),
    )
    colour = arms.colour(findings, shown, legend=len(places) > 1)
    base = alt.Chart().encode(x=x, color=colour)
    one = alt.Chart().mark_rule(opacity=0.7, strokeDash=[4, 3]).encode(x=alt.datum(1))
    if len(places) > 1:
        rank = arms.order(findings)
        base = base.encode(
            y=alt.Y("place:N", sort=list(places), title=None, axis=alt.Axis(grid=True, tickBand="extent")),
            yOffset=alt.YOffset("arm:N", sort=rank, scale=alt.Scale(paddingOuter=0.3)),
        )
    else:
        base = base.encode(y=arms.rows(findings, shown))
    estimate = base.transform_filter("!isValid(datum.boot)")
    strokes = [estimate.mark_rule(strokeWidth=2.5).encode(x="low:Q", x2="high:Q")] if spans(rows) else []
    return alt.layer(
        one,
        base.transform_filter("isValid(datum.boot)").mark_circle(size=22, opacity=0.55),
        *strokes,
        estimate.mark_point(filled=True, size=70, opacity=1).encode(
            shape=arms.shape(findings, shown, legend=len(places) > 1),
            tooltip=tips(rows, UNITS, "boot"),
        ),
    ).properties(
        width="container",
        height=arms.height(shown, 14, len(places)) if len(places) > 1 else arms.height(shown, 30),
    )
