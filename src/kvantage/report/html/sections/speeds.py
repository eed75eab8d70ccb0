"""Speeds by workload and concurrency: every boot's dot, and every ratio with its interval."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from kvantage.analysis.compare import Place, Ratio
from kvantage.analysis.findings import Findings
from kvantage.report import tables
from kvantage.report.blocks import Block, Bullets, Figure, Folded, Rows, Section, Value
from kvantage.report.charts import arms
from kvantage.report.charts.forest import UNITS, forest, forest_rows
from kvantage.report.charts.tips import tips
from kvantage.report.compared import doubts, noise, ratios
from kvantage.report.html.places import against_control, label, levels

PHASES = ("short", "cold", "repeat")
SPEED_UNITS = {"speed": "tok/s"}


def section(findings: Findings) -> Section | None:
    """One user's rate, then what all users get together, then the ratios to the control."""
    places = _places(findings)
    if not places:
        return None
    alone = [place for place in places if place[2] == 1]
    together = [place for place in places if place[2] > 1]
    made = (
        _dots(findings, alone, "speed-one-user", "One user", "steady decode rate of one user (tok/s)"),
        _dots(
            findings,
            together,
            "speed-together",
            "All users together",
            "aggregate, every slot decoding (tok/s)",
        ),
        _ratios(findings, places),
    )
    blocks: list[Block] = [figure for figure in made if figure is not None]
    blocks.append(Rows(tables.results(findings)))
    for table in (tables.first_tokens(findings),):
        if table.rows:
            blocks.append(Rows(table))
    if told := tuple(dict.fromkeys((f"{who}:", f"{said}.") for who, said in doubts(findings))):
        blocks.append(Folded(f"What a mean may hide ({len(told)})", (Bullets(told),)))
    every = tuple(Rows(table) for table in (ratios(findings), noise(findings)) if table.rows)
    if every:
        blocks.append(Folded("Every ratio, with both figures, and its noise", every))
    return Section("speeds", "Speeds by workload and concurrency", tuple(blocks))


def _places(findings: Findings) -> list[Place]:
    found = dict.fromkeys(
        (cell.key.phase, cell.key.workload, cell.key.concurrency)
        for arm in findings.arms
        for cell in arm.cells
        if cell.key.phase in PHASES
    )
    return sorted(found, key=lambda place: (PHASES.index(place[0]), place[2], place[1]))


def _dots(findings: Findings, places: Sequence[Place], name: str, who: str, axis: str) -> Figure | None:
    rows: list[dict[str, Value]] = []
    void = 0
    for arm in findings.arms:
        for place in places:
            for cell in arm.cell(*place):
                speed = cell.speed.decode if place[2] == 1 else cell.speed.steady
                void += not cell.ok
                if speed.value is not None:
                    row: dict[str, Value] = {"arm": arm.name, "place": label(*place), "boot": cell.key.block}
                    rows.append(row | {"speed": speed.value})
    if not rows:
        return None
    shown, order = [str(row["arm"]) for row in rows], [label(*place) for place in places]
    base = alt.Chart().encode(
        x=alt.X("speed:Q", title=axis, scale=alt.Scale(zero=True)),
        y=alt.Y("place:N", sort=order, title=None, axis=alt.Axis(grid=True, tickBand="extent")),
        yOffset=alt.YOffset("arm:N", sort=arms.order(findings), scale=alt.Scale(paddingOuter=0.3)),
        color=arms.colour(findings, shown),
    )
    several = len({row["boot"] for row in rows}) > 1
    means = [base.mark_tick(thickness=2, size=12, opacity=0.6).encode(x="mean(speed):Q")] if several else []
    chart = alt.layer(
        *means,
        base.mark_point(filled=True, size=60, opacity=1).encode(
            shape=arms.shape(findings, shown), tooltip=tips(rows, SPEED_UNITS)
        ),
    ).properties(width="container", height=arms.height(shown, 14, len({row["place"] for row in rows})))
    top = max(rows, key=lambda row: float(row["speed"] or 0))
    gone = f" {void} void cells are not drawn." if void else ""
    return Figure(
        name=name,
        title=f"{who}: the highest is {top['arm']} on {top['place']}, {top['speed']:,.0f} tok/s",
        alt=f"{axis[0].upper()}{axis[1:]} by place, arm and boot. "
        + "; ".join(f"{row['place']}, {row['arm']}: {row['speed']:,.1f}" for row in rows[:60])
        + ".",
        chart=chart,
        rows=rows,
        units=SPEED_UNITS,
        note=f"A mark is one boot's cell{'; the tick is the mean over boots' if several else ''}.{gone}",
    )


def _ratios(findings: Findings, places: Sequence[Place]) -> Figure | None:
    known: list[tuple[str, Ratio]] = []
    for arm, comparison in against_control(findings).items():
        for place in places:
            metric = "decode_tok_s" if place[2] == 1 else "steady_tok_s"
            for ratio in comparison.ratios:
                if ratio.metric == metric and ratio.place == place and ratio.ratio.known:
                    known.append((arm, ratio))
    if not known:
        return None
    rows = [row for arm, ratio in known for row in forest_rows(arm, label(*ratio.place), ratio)]
    told = [(arm, ratio) for arm, ratio in known if ratio.side != "inconclusive"]
    title = f"{len(told)} of {len(known)} ratios are told apart from 1"
    if told:
        arm, ratio = max(told, key=lambda each: each[1].ratio.value or 0)
        title += f"; the largest is {arm} on {label(*ratio.place)}, {ratio.ratio.value:.2f}x"
    rests = levels(ratio.replication for _, ratio in known)
    places_shown = {str(row["place"]) for row in rows}
    return Figure(
        name="speed-ratios",
        title=title,
        alt="Ratio of each arm's speed to the control's by place, with its interval. "
        + "; ".join(
            f"{label(*ratio.place)}, {arm}: {ratio.ratio.value:.2f}" + _ends(ratio)
            for arm, ratio in known[:60]
        )
        + ".",
        chart=forest(
            findings,
            rows,
            [label(*place) for place in places if label(*place) in places_shown],
            f"speed, ratio to {findings.study.control} (x)",
        ),
        rows=rows,
        units=UNITS,
        note=f"Strokes are intervals: {rests}. Small dots are single boots. A stroke that "
        "crosses 1 tells nothing apart. The axis is logarithmic.",
    )


def _ends(ratio: Ratio) -> str:
    if ratio.ratio.low is None or ratio.ratio.high is None:
        return ", no interval"
    return f" ({ratio.ratio.low:.2f} to {ratio.ratio.high:.2f})"
