"""The sweep over concurrency: what each arm gives, and where its drafts stop paying."""

from __future__ import annotations

import altair as alt

from kvantage.analysis.findings import Findings
from kvantage.analysis.sweep import Sweep
from kvantage.report.blocks import Block, Bullets, Figure, Panels, Prose, Rows, Section, Value, slug
from kvantage.report.charts import arms
from kvantage.report.charts.tips import spans, tips
from kvantage.report.html.places import levels
from kvantage.report.sweep import sweep_sentences, sweep_table

UNITS = {"aggregate": "tok/s", "ratio": "x", "low": "x", "high": "x"}
LENGTH_UNITS = {"value": "tokens a step"}
BREAK_EVEN = (
    "rho is the cost of a step beside the control's, and so the acceptance length at which an arm breaks "
    "even: drafts pay where the acceptance length lies above rho."
)


def section(findings: Findings) -> Section | None:
    """Aggregates and ratios over the concurrency; acceptance length against rho, a panel an arm."""
    if not findings.sweeps:
        return None
    blocks: list[Block] = []
    for workload in dict.fromkeys(sweep.workload for sweep in findings.sweeps):
        mine = [sweep for sweep in findings.sweeps if sweep.workload == workload]
        pair = [figure for figure in (_aggregate(findings, mine), _ratio(findings, mine)) if figure]
        blocks.append(Panels(tuple(pair)))
        panels = [figure for sweep in mine if (figure := _break_even(findings, sweep)) is not None]
        if panels:
            blocks += [Prose(BREAK_EVEN), Panels(tuple(panels))]
    told = tuple((f"{arm}:", f"{said}.") for arm, said in sweep_sentences(findings))
    if told:
        blocks.append(Bullets(told, "Where each arm stops paying in the closed loop:"))
    blocks.append(Rows(sweep_table(findings)))
    return Section("sweep", "Sweep over concurrency", tuple(blocks))


def _rows(sweeps: list[Sweep]) -> list[dict[str, Value]]:
    return [
        {
            "arm": sweep.arm,
            "boot": row.block,
            "concurrency": row.concurrency,
            "aggregate": row.aggregate.value,
            "ratio": row.ratio.value,
            "low": row.ratio.low,
            "high": row.ratio.high,
            "measured": row.kind,
        }
        for sweep in sweeps
        for row in sweep.rows
    ]


def _concurrency() -> alt.X:
    return alt.X(
        "concurrency:Q",
        title="in flight (requests)",
        scale=alt.Scale(type="log", base=2, nice=False, padding=12),
        axis=alt.Axis(format="d", tickCount=4),
    )


def _aggregate(findings: Findings, sweeps: list[Sweep]) -> Figure | None:
    rows = [row for row in _rows(sweeps) if row["aggregate"] is not None]
    if not rows:
        return None
    shown = [str(row["arm"]) for row in rows]
    y = alt.Y("aggregate:Q", title="aggregate (tok/s)", axis=alt.Axis(grid=True, tickCount=5))
    base = alt.Chart().encode(x=_concurrency(), y=y, color=arms.colour(findings, shown), detail="boot:N")
    shape, hover = arms.shape(findings, shown), tips(rows, UNITS)
    steady = base.transform_filter("datum.measured == 'steady'")
    hollow = base.transform_filter("datum.measured == 'queue'").mark_point(
        filled=True, fill="var(--ground)", size=55, strokeWidth=1.8, opacity=1
    )
    kinds = {row["measured"] for row in rows}
    marks = [base.mark_line(strokeWidth=1.5, strokeDash=[3, 4], opacity=0.6)]
    if "steady" in kinds:
        marks.append(steady.mark_line(strokeWidth=2))
        points = steady.mark_point(filled=True, size=55, opacity=1)
        marks.append(points.encode(shape=shape, tooltip=hover))
    if "queue" in kinds:
        marks.append(hollow.encode(shape=shape, stroke=arms.colour(findings, shown), tooltip=hover))
    chart = alt.layer(*marks).properties(width="container", height=240)
    sound = [row for row in rows if row["measured"] == "steady"] or rows
    top = max(sound, key=lambda row: float(row["aggregate"] or 0))
    work = sweeps[0].workload
    return Figure(
        name=slug("sweep-aggregate", work),
        title=f"Most in all on {work}: {top['arm']} at {top['concurrency']} in flight, "
        f"{top['aggregate']:,.0f} tok/s",
        alt=f"Aggregate tokens a second over the requests in flight, on {work}. "
        + "; ".join(
            f"{row['arm']} at {row['concurrency']}: {row['aggregate']:,.0f} ({row['measured']})"
            for row in rows[:50]
        )
        + ".",
        chart=chart,
        rows=rows,
        units=UNITS,
        note="Hollow: a queue, where the server did not run all that were in flight; it is in no ratio.",
    )


def _ratio(findings: Findings, sweeps: list[Sweep]) -> Figure | None:
    rows = [row for row in _rows(sweeps) if row["ratio"] is not None]
    if not rows:
        return None
    shown = [str(row["arm"]) for row in rows]
    y = alt.Y(
        "ratio:Q",
        title="aggregate, ratio to the control (x)",
        scale=alt.Scale(type="log", base=2, nice=False),
        axis=alt.Axis(grid=True, tickCount=5, format="~g"),
    )
    base = alt.Chart().encode(x=_concurrency(), y=y, color=arms.colour(findings, shown), detail="boot:N")
    one = alt.Chart().mark_rule(opacity=0.7, strokeDash=[4, 3]).encode(y=alt.datum(1))
    strokes = [base.mark_rule(opacity=0.45, strokeWidth=2).encode(y="low:Q", y2="high:Q")]
    chart = alt.layer(
        one,
        base.mark_line(strokeWidth=2),
        *(strokes if spans(rows) else []),
        base.mark_point(filled=True, size=55, opacity=1).encode(
            shape=arms.shape(findings, shown), tooltip=tips(rows, UNITS)
        ),
    ).properties(width="container", height=240)
    rests = levels(
        row.ratio.note for sweep in sweeps for row in sweep.rows if row.ratio.known and row.ratio.note
    )
    under = [sweep.arm for sweep in sweeps if sweep.stops is not None and sweep.stops.high is not None]
    title = (
        f"Drafts stop paying within what was swept for {', '.join(under)}"
        if under
        else "No arm falls below the control for certain within what was swept"
    )
    return Figure(
        name=slug("sweep-ratio", sweeps[0].workload),
        title=title,
        alt="Aggregate as a ratio to the control over the requests in flight. "
        + "; ".join(f"{row['arm']} at {row['concurrency']}: {row['ratio']:.2f}" for row in rows[:50])
        + ".",
        chart=chart,
        rows=rows,
        units=UNITS,
        note=f"Strokes are intervals{': ' + rests if rests else ''}. Queues and void rows have no ratio.",
    )


def _break_even(findings: Findings, sweep: Sweep) -> Figure | None:
    rows: list[dict[str, Value]] = []
    for row in sweep.rows:
        if row.rho.value is None or row.acceptance_length.value is None:
            continue
        base: dict[str, Value] = {"arm": sweep.arm, "boot": row.block, "concurrency": row.concurrency}
        rows.append({**base, "what": "acceptance length", "value": row.acceptance_length.value})
        rows.append({**base, "what": "rho (break-even)", "value": row.rho.value})
    if not rows:
        return None
    y = alt.Y(
        "value:Q",
        title="length (tokens a step)",
        scale=alt.Scale(zero=False),
        axis=alt.Axis(grid=True, tickCount=5),
    )
    names = ["acceptance length", "rho (break-even)"]
    base_chart = alt.Chart().encode(
        x=_concurrency(),
        y=y,
        color=alt.Color(
            "what:N",
            scale=alt.Scale(domain=names, range=[arms.one(findings, sweep.arm), "var(--ink)"]),
            legend=alt.Legend(title=None, symbolType="stroke"),
        ),
        detail="boot:N",
    )
    chart = alt.layer(
        base_chart.mark_line(strokeWidth=2).encode(
            strokeDash=alt.StrokeDash("what:N", scale=alt.Scale(domain=names, range=[[1, 0], [5, 4]]))
        ),
        base_chart.mark_point(filled=True, size=45, opacity=1).encode(tooltip=tips(rows, LENGTH_UNITS)),
    ).properties(width="container", height=190)
    pays = {row.concurrency: _pays(row.acceptance_length.value, row.rho.value) for row in sweep.rows}
    yes = [str(concurrency) for concurrency, paid in pays.items() if paid]
    return Figure(
        name=slug("break-even", sweep.workload, sweep.arm),
        title=f"{sweep.arm}: accepts more than it costs at {', '.join(yes)} in flight"
        if yes
        else f"{sweep.arm}: accepts less than it costs at every concurrency with a ratio",
        alt=f"Acceptance length and rho of {sweep.arm} over the requests in flight. "
        + "; ".join(f"{row['what']} at {row['concurrency']}: {row['value']:.2f}" for row in rows[:40])
        + ".",
        chart=chart,
        rows=rows,
        units=LENGTH_UNITS,
        note="By the estimates; the intervals are in the ratio's chart.",
    )


def _pays(length: float | None, rho: float | None) -> bool:
    return length is not None and rho is not None and length > rho
