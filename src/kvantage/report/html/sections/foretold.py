"""What was predicted before the first boot, beside what was measured."""

from __future__ import annotations

import altair as alt

from kvantage.analysis.findings import Findings
from kvantage.report.blocks import Block, Bullets, Figure, Folded, Prose, Rows, Section, Value
from kvantage.report.charts import arms
from kvantage.report.charts.tips import tips
from kvantage.report.foretold import foresight_sentences, pools_foretold, speeds_foretold

UNITS = {"predicted": "tok/s", "low": "tok/s", "high": "tok/s", "measured": "tok/s", "error": "%"}
SAID = (
    "Written down before any server was started, from the model's config and a hardware file: no figure of "
    "this study is in it. A measurement far outside of its range is worth a second look."
)


def section(findings: Findings) -> Section | None:
    """The planner's ranges and the measured speeds in them; pools, sessions and errors as tables."""
    foresight = findings.foresight
    if not any(arm.rows for arm in foresight.arms):
        return None
    blocks: list[Block] = [Prose(SAID), Bullets(tuple(foresight_sentences(findings)))]
    if (figure := _speeds(findings)) is not None:
        blocks.append(figure)
    blocks.append(Rows(pools_foretold(findings)))
    if (table := speeds_foretold(findings)).rows:
        blocks.append(Folded("Every speed that was predicted", (Rows(table),)))
    return Section("foretold", "Predicted, and measured", tuple(blocks))


def _speeds(findings: Findings) -> Figure | None:
    rows: list[dict[str, Value]] = [
        {
            "arm": arm.arm,
            "cell": row.name,
            "predicted": row.predicted.value,
            "low": row.predicted.low,
            "high": row.predicted.high,
            "measured": row.measured.value,
            "error": row.error.value,
        }
        for arm in findings.foresight.arms
        for row in arm.find("speed")
        if row.predicted.value and row.measured.value
    ]
    if not rows:
        return None
    shown = [str(row["arm"]) for row in rows]
    cells = list(dict.fromkeys(str(row["cell"]) for row in rows))
    base = alt.Chart().encode(
        x=alt.X(
            "predicted:Q",
            title="one stream, steady (tok/s)",
            scale=alt.Scale(type="log", nice=False, padding=12),
            axis=alt.Axis(tickCount=5, format="~g"),
        ),
        y=alt.Y("cell:N", sort=cells, title=None, axis=alt.Axis(grid=True, tickBand="extent")),
        yOffset=alt.YOffset("arm:N", sort=arms.order(findings), scale=alt.Scale(paddingOuter=0.3)),
        color=arms.colour(findings, shown),
    )
    chart = alt.layer(
        base.mark_rule(strokeWidth=6, opacity=0.25).encode(x="low:Q", x2="high:Q"),
        base.mark_tick(thickness=2, size=12),
        base.mark_point(filled=True, size=60, opacity=1).encode(
            x="measured:Q", shape=arms.shape(findings, shown), tooltip=tips(rows, UNITS)
        ),
    ).properties(width="container", height=arms.height(shown, 14, len(cells)))
    within = sum(
        row.within is True and row.measured.known
        for arm in findings.foresight.arms
        for row in arm.find("speed")
    )
    return Figure(
        name="foretold-speeds",
        title=f"{within} of {len(rows)} measured speeds lie in the range that was predicted",
        alt="Predicted range and measured speed of each cell. "
        + "; ".join(
            f"{row['arm']}, {row['cell']}: {row['predicted']:.3g} predicted, {row['measured']:.3g} measured"
            for row in rows[:40]
        )
        + ".",
        chart=chart,
        rows=rows,
        units=UNITS,
        note="Wide strokes: the predicted range; ticks: its middle; marks: measured. Logarithmic.",
    )
