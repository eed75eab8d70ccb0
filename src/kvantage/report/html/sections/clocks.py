"""Clocks and heat of the machines, and the energy of a token."""

from __future__ import annotations

import altair as alt

from kvantage.analysis.findings import Findings
from kvantage.report.blocks import Block, Bullets, Figure, Prose, Rows, Section, Value
from kvantage.report.charts import arms
from kvantage.report.charts.tips import spans, tips
from kvantage.report.clocks import absences, devices_table, energy_table, machines_table, unequal

UNITS = {"joules_per_token": "J/token", "low": "J/token", "high": "J/token", "to_control": "ratio"}
CLOCK_UNITS = {"sm_clock": "MHz", "low": "MHz", "high": "MHz", "power": "W", "temperature": "°C"}
SAID = (
    "Every machine was looked at once a second. A cell whose clock changed its level while requests were at "
    "work is void (clock_steady)."
)


def section(findings: Findings) -> Section | None:
    """Energy and clocks where devices were looked at; else what was seen of the machines."""
    clocks = findings.clocks
    if clocks is None or not (clocks.cells or clocks.absences):
        return None
    blocks: list[Block] = [Prose(SAID)]
    blocks += [figure for figure in (_energy(findings), _clocks(findings)) if figure is not None]
    tables = (energy_table(findings), devices_table(findings), machines_table(findings))
    blocks += [Rows(table) for table in tables if table.rows]
    if apart := unequal(findings):
        told = tuple((f"{where}:", f"{what}.") for where, what in apart)
        blocks.append(Bullets(told, "Clocks that stood elsewhere than the control's:"))
    if gone := absences(findings):
        blocks.append(Bullets(tuple((f"{where}:", f"{why}.") for where, why in gone), "Not told:"))
    return Section("clocks", "Clocks, heat and energy", tuple(blocks))


def _energy(findings: Findings) -> Figure | None:
    rows: list[dict[str, Value]] = [
        {
            "arm": each.arm,
            "cell": f"{each.phase} {each.workload} at {each.concurrency}",
            "joules_per_token": each.joules_per_token.value,
            "low": each.joules_per_token.low,
            "high": each.joules_per_token.high,
            "to_control": each.to_control.value,
        }
        for each in (findings.clocks.energy if findings.clocks else ())
    ]
    if not rows:
        return None
    shown = [str(row["arm"]) for row in rows]
    base = alt.Chart().encode(
        y=alt.Y("cell:N", title=None, sort=None, axis=alt.Axis(labelLimit=180, grid=True, tickBand="extent")),
        color=arms.colour(findings, shown),
        yOffset=alt.YOffset("arm:N", sort=arms.order(findings), scale=alt.Scale(paddingOuter=0.3)),
    )
    x = alt.X("joules_per_token:Q", title="energy (J/token)", scale=alt.Scale(zero=True))
    strokes = [base.mark_rule(strokeWidth=2, opacity=0.5).encode(x="low:Q", x2="high:Q")]
    chart = alt.layer(
        *(strokes if spans(rows) else []),
        base.mark_point(filled=True, size=60, opacity=1).encode(
            x=x, shape=arms.shape(findings, shown), tooltip=tips(rows, UNITS)
        ),
    ).properties(width="container", height=arms.height(shown, 14, len({row["cell"] for row in rows})))
    least = min(rows, key=lambda row: float(row["joules_per_token"] or 0))
    return Figure(
        name="energy",
        title=f"Least energy a token: {least['arm']} on {least['cell']}, {least['joules_per_token']:.3g} J",
        alt="Joules an output token, an arm and cell a point. "
        + "; ".join(f"{row['arm']}, {row['cell']}: {row['joules_per_token']:.3g}" for row in rows[:50])
        + ".",
        chart=chart,
        rows=rows,
        units=UNITS,
        note="All GPUs that serve, together; idle power not taken off. Strokes: least and most of the boots.",
    )


def _clocks(findings: Findings) -> Figure | None:
    cells = findings.clocks.cells if findings.clocks else ()
    rows: list[dict[str, Value]] = [
        {
            "arm": cell.key.arm,
            "boot": cell.key.block,
            "cell": f"{cell.key.phase} {cell.key.workload} at {cell.key.concurrency}",
            "device": f"{use.host} {use.device}",
            "sm_clock": use.sm_mhz.value,
            "low": use.sm_mhz.low,
            "high": use.sm_mhz.high,
            "power": use.power_w.value,
            "temperature": use.temperature_c.value,
            "clock": cell.clock,
        }
        for cell in cells
        for use in cell.devices
        if use.sm_mhz.value is not None
    ]
    if not rows:
        return None
    shown = [str(row["arm"]) for row in rows]
    stepped = [cell for cell in cells if cell.clock == "stepped"]
    base = alt.Chart().encode(
        y=alt.Y("cell:N", title=None, sort=None, axis=alt.Axis(labelLimit=180, grid=True, tickBand="extent")),
        color=arms.colour(findings, shown),
        yOffset=alt.YOffset("arm:N", sort=arms.order(findings), scale=alt.Scale(paddingOuter=0.3)),
    )
    x = alt.X("sm_clock:Q", title="SM clock (MHz)", scale=alt.Scale(zero=False, padding=12))
    strokes = [base.mark_rule(strokeWidth=2, opacity=0.5).encode(x="low:Q", x2="high:Q")]
    chart = alt.layer(
        *(strokes if spans(rows) else []),
        base.mark_point(filled=True, size=45, opacity=1).encode(
            x=x, shape=arms.shape(findings, shown), tooltip=tips(rows, CLOCK_UNITS)
        ),
    ).properties(width="container", height=arms.height(shown, 14, len({row["cell"] for row in rows})))
    title = (
        f"A clock changed its level in {len(stepped)} of {len(cells)} cells, which are void"
        if stepped
        else "No clock changed its level while requests were at work"
    )
    return Figure(
        name="sm-clock",
        title=title,
        alt="SM clock over each cell, median with the least and most seen. "
        + "; ".join(f"{row['arm']}, {row['cell']}: {row['sm_clock']:,.0f} MHz" for row in rows[:50])
        + ".",
        chart=chart,
        rows=rows,
        units=CLOCK_UNITS,
        note="Points: median of the looks in one cell of one boot; strokes: least and most, ramps too.",
    )
