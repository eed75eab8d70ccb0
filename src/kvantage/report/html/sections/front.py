"""Speed against room: which arms no other arm beats on both."""

from __future__ import annotations

import altair as alt

from kvantage.analysis import wording
from kvantage.analysis.findings import Findings
from kvantage.analysis.front import on_front
from kvantage.report.blocks import Chart, Figure, Section, Value
from kvantage.report.charts import arms
from kvantage.report.charts.tips import spans, tips
from kvantage.report.html.places import headline, levels, place


def section(findings: Findings) -> Section | None:
    """A point an arm: resident sessions to the right, speed upwards, and the line of the front."""
    rows, across, where, rests = _rows(findings)
    if len(rows) < 2:
        return None
    best = [str(row["arm"]) for row in rows if row["on_front"]]
    verb = "is" if len(best) == 1 else "are"
    units = {"ratio": "x", "low": "x", "high": "x", "speed": "tok/s"}
    figure = Figure(
        name="pareto-front",
        title=f"{wording.listed(best)} {verb} on the front: no other arm has both more room and more speed",
        alt=f"Speed on {where} as a ratio to the control, over {across}: "
        + "; ".join(f"{row['arm']} {row['ratio']:.2f}x at {row['room']:,.1f}" for row in rows)
        + f". On the front: {wording.listed(best)}.",
        chart=_chart(findings, rows, across, where, units),
        rows=rows,
        units=units,
        note=f"By the estimates; where intervals overlap, so may the places. Strokes: {rests}.",
    )
    return Section("front", "Speed against room", (figure,))


def _rows(findings: Findings) -> tuple[list[dict[str, Value]], str, str, str]:
    """(a row an arm, what lies across, where the speed was measured, the intervals' levels)."""
    told = {arm.name: headline(findings, arm.name) for arm in findings.arms if not arm.control}
    known = [ratio for ratio in told.values() if ratio is not None and ratio.ratio.known]
    if not known:
        return [], "", "", ""
    held = [arm.sessions[0] for arm in findings.arms if arm.sessions and arm.pool.tokens.known]
    sessions = bool(held) and all(each.sessions.known for each in held)
    across = "KV pool (tokens)"
    if sessions:
        across = f"resident sessions of {held[0].session_tokens.value:,.0f} tokens"
    rows: list[dict[str, Value]] = []
    for arm in findings.arms:
        room = arm.sessions[0].sessions.value if sessions and arm.sessions else arm.pool.tokens.value
        ratio = told.get(arm.name)
        if room is None or (not arm.control and (ratio is None or ratio.ratio.value is None)):
            continue
        row: dict[str, Value] = {"arm": arm.name, "room": room, "ratio": 1.0, "low": None, "high": None}
        if ratio is not None:
            row |= {"ratio": ratio.ratio.value, "low": ratio.ratio.low, "high": ratio.ratio.high}
        row["speed"] = known[0].baseline.value if ratio is None else ratio.value.value
        rows.append(row)
    front = on_front([(float(row["room"] or 0), float(row["ratio"] or 0)) for row in rows])
    for row, on in zip(rows, front, strict=True):
        row["on_front"] = on
    rests = levels(ratio.replication for ratio in known)
    return rows, across, place(*known[0].place), rests


def _chart(
    findings: Findings, rows: list[dict[str, Value]], across: str, where: str, units: dict[str, str]
) -> Chart:
    shown = [str(row["arm"]) for row in rows]
    x = alt.X("room:Q", title=across, scale=alt.Scale(zero=False, padding=45, nice=False))
    y = alt.Y(
        "ratio:Q",
        title=f"{where}, ratio to the control (x)",
        scale=alt.Scale(zero=False, padding=25),
        axis=alt.Axis(grid=True),
    )
    base = alt.Chart().encode(x=x, y=y, color=arms.colour(findings, shown, legend=False))
    front = (
        alt.Chart()
        .transform_filter("datum.on_front")
        .mark_line(interpolate="step-after", opacity=0.35, strokeDash=[5, 4])
        .encode(x=x, y=y, color=alt.value("var(--ink)"))
    )
    strokes = [base.mark_rule(strokeWidth=2, opacity=0.6).encode(y="low:Q", y2="high:Q")]
    return alt.layer(
        front,
        *(strokes if spans(rows) else []),
        base.mark_point(filled=True, size=130, opacity=1).encode(
            shape=arms.shape(findings, shown, legend=False), tooltip=tips(rows, units)
        ),
        base.mark_text(dx=11, dy=-9, align="left", fontWeight=600, fontSize=13).encode(text="arm:N"),
    ).properties(width="container", height=320)
