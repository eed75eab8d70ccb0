"""What each arm costs and buys, and how the verdict was reached."""

from __future__ import annotations

import altair as alt

from kvantage.analysis import wording
from kvantage.analysis.findings import Findings
from kvantage.report.blocks import Block, Bullets, Figure, Folded, Panels, Rows, Section, Value
from kvantage.report.charts import arms
from kvantage.report.charts.forest import UNITS, forest, forest_rows
from kvantage.report.charts.tips import tips
from kvantage.report.decision import standings
from kvantage.report.html.head import pool_words, speed_words
from kvantage.report.html.places import headline, levels, place

POOL_UNITS = {"change": "% of the control's pool"}


def section(findings: Findings) -> Section | None:
    """Pool and speed of each arm side by side, the trades in sentences, the policy's answer in parts."""
    if not findings.trades:
        return None
    figures = tuple(figure for figure in (_pool(findings), _speed(findings)) if figure is not None)
    blocks: list[Block] = [Panels(figures)] if figures else []
    blocks.append(Bullets(tuple((trade.arm, f"{trade.sentence}.") for trade in findings.trades)))
    pairs = tuple(
        f"{each.sentence}."
        for each in findings.comparisons
        if not each.against_control and any(ratio.ratio.known for ratio in each.ratios)
    )
    if pairs:
        blocks.append(Folded(f"Each pair of drafters ({len(pairs)})", (Bullets(pairs),)))
    blocks += _verdict(findings)
    return Section("trades", "What each arm costs and buys", tuple(blocks))


def _pool(findings: Findings) -> Figure | None:
    rows: list[dict[str, Value]] = []
    for arm in findings.arms:
        lost = arm.pool.lost_tokens if arm.pool.lost_tokens.known else arm.pool.lost_bytes
        if arm.control or lost.value is None:
            continue
        change, detail = pool_words(findings, arm)
        rows.append(
            {"arm": arm.name, "change": round(-lost.value, 4) or 0.0, "label": change, "pool": detail}
        )
    if not rows:
        return None
    shown = [str(row["arm"]) for row in rows]
    changes = [float(row["change"] or 0) for row in rows]
    room = max(4.0, *map(abs, changes))
    domain = [min(0.0, *changes) - 0.35 * room, max(0.0, *changes) + 0.35 * room]
    x = alt.X(
        "change:Q", title="KV pool, change to the control (%)", scale=alt.Scale(domain=domain, nice=False)
    )
    base = alt.Chart().encode(x=x, y=arms.rows(findings, shown))
    bars = base.mark_bar(height=16).encode(
        color=arms.colour(findings, shown, legend=False), tooltip=tips(rows, POOL_UNITS, "label")
    )
    label = base.mark_text(baseline="middle").encode(text="label:N")
    texts = [
        label.transform_filter("datum.change < 0").mark_text(align="right", dx=-5),
        label.transform_filter("datum.change >= 0").mark_text(align="left", dx=5),
    ]
    texts = [
        text
        for text, some in zip(texts, (any(c < 0 for c in changes), any(c >= 0 for c in changes)), strict=True)
        if some
    ]
    zero = alt.Chart().mark_rule(opacity=0.7).encode(x=alt.datum(0))
    least = min(rows, key=lambda row: float(row["change"] or 0))
    title = (
        f"Cost: {least['arm']} takes the most of the pool, {least['label']}"
        if float(least["change"] or 0) < 0
        else "Cost: no arm takes anything of the pool"
    )
    return Figure(
        name="pool-cost",
        title=title,
        alt="Change of each arm's KV pool against the control: "
        + "; ".join(f"{row['arm']} {row['label']} ({row['pool']})" for row in rows)
        + ".",
        chart=alt.layer(zero, bars, *texts).properties(width="container", height=arms.height(shown, 30)),
        rows=rows,
        units=POOL_UNITS,
        note="Median over an arm's boots, as the server tells it.",
    )


def _speed(findings: Findings) -> Figure | None:
    told = {
        trade.arm: ratio
        for trade in findings.trades
        if (ratio := headline(findings, trade.arm)) is not None and ratio.ratio.known
    }
    if not told:
        return None
    first = next(iter(told.values()))
    where = place(*first.place)
    rows = [row for arm, ratio in told.items() for row in forest_rows(arm, where, ratio)]
    above = [arm for arm, ratio in told.items() if ratio.side == "above"]
    below = [arm for arm, ratio in told.items() if ratio.side == "below"]
    parts = [
        f"{wording.listed(above)} faster" if above else "",
        f"{wording.listed(below)} slower" if below else "",
    ]
    said = ", ".join(part for part in parts if part)
    title = f"Gain on {where}: " + (said or f"no arm is told apart from {findings.study.control}")
    rests = levels(ratio.replication for ratio in told.values())
    return Figure(
        name="speed-bought",
        title=title,
        alt=f"Ratio of each arm's speed to the control's on {where}: "
        + "; ".join(
            f"{arm} {wording.times(ratio.ratio.value or 0)} ({speed_words(ratio)})"
            for arm, ratio in told.items()
        )
        + ".",
        chart=forest(findings, rows, [where], f"speed, ratio to {findings.study.control} (x)"),
        rows=rows,
        units=UNITS,
        note=f"Strokes are intervals: {rests}. Small dots are single boots.",
    )


def _verdict(findings: Findings) -> list[Block]:
    verdict = findings.verdict
    if verdict.status == "no policy":
        return []
    items = [f"Maximised: {verdict.objective}."]
    items += [f"{each.words[:1].upper()}{each.words[1:]}." for each in verdict.constraints]
    items += [f"Ruled out: {each.arm}, {each.why}." for each in verdict.ruled_out]
    items += [f"Would flip it: {flip}." for flip in verdict.flips]
    table = standings(findings)
    shown = [Rows(table)] if table.rows else []
    return [
        *shown,
        Bullets(tuple(items), "How the verdict was reached, by the policy that the study stated before:"),
    ]
