"""How many tokens a step gives: by workload, and by position of the draft."""

from __future__ import annotations

import altair as alt

from kvantage.analysis.compare import Place
from kvantage.analysis.findings import Findings
from kvantage.report import tables
from kvantage.report.blocks import Block, Figure, Folded, Panels, Rows, Section, Value, slug
from kvantage.report.charts import arms
from kvantage.report.charts.tips import tips
from kvantage.report.html.places import label

SKIPPED = ("probes", "ttft")
MOST_PANELS = 8
LENGTH_UNITS = {"length": "tokens a step", "per_drafting_step": "tokens a step"}
POSITION_UNITS = {"accepted": "share of drafting steps"}


def section(findings: Findings) -> Section | None:
    """Acceptance lengths, then a panel a workload with a line an arm over the positions."""
    lengths = _lengths(findings)
    if lengths is None:
        return None
    blocks: list[Block] = [lengths]
    if panels := _positions(findings):
        blocks.append(Panels(tuple(panels)))
    table = tables.acceptance(findings)
    blocks.append(Folded("Every acceptance, with its source", (Rows(table),)))
    return Section("acceptance", "Acceptance", tuple(blocks))


def _lengths(findings: Findings) -> Figure | None:
    rows: list[dict[str, Value]] = []
    for arm in findings.arms:
        for cell in arm.cells:
            found = cell.acceptance
            if cell.key.phase in SKIPPED or found.length.value is None:
                continue
            place = label(cell.key.phase, cell.key.workload, cell.key.concurrency)
            row: dict[str, Value] = {"arm": arm.name, "place": place, "boot": cell.key.block}
            row |= {"length": found.length.value, "per_drafting_step": found.per_drafting_step.value}
            rows.append(row | {"source": found.length.source, "status": cell.status.status})
    if not rows:
        return None
    shown, order = [str(row["arm"]) for row in rows], [label(*place) for place in _places(findings)]
    base = alt.Chart().encode(
        y=alt.Y("place:N", sort=order, title=None, axis=alt.Axis(grid=True, tickBand="extent")),
        yOffset=alt.YOffset("arm:N", sort=arms.order(findings), scale=alt.Scale(paddingOuter=0.3)),
        color=arms.colour(findings, shown),
    )
    x = alt.X(
        "length:Q",
        title="length (tokens a step, incl. bonus)",
        scale=alt.Scale(domainMin=1, zero=False),
    )
    chart = alt.layer(
        base.transform_calculate(plain="1")
        .mark_rule(opacity=0.35, strokeWidth=2)
        .encode(x="plain:Q", x2="length:Q"),
        base.mark_point(filled=True, size=60, opacity=1).encode(
            x=x, shape=arms.shape(findings, shown), tooltip=tips(rows, LENGTH_UNITS)
        ),
    ).properties(width="container", height=arms.height(shown, 14, len({row["place"] for row in rows})))
    top, low = (pick(rows, key=lambda row: float(row["length"] or 0)) for pick in (max, min))
    return Figure(
        name="acceptance-length",
        title=f"Acceptance depends on the work: {top['length']:.2f} tokens a step for {top['arm']} on "
        f"{top['place']}, {low['length']:.2f} for {low['arm']} on {low['place']}",
        alt="Acceptance length by place, arm and boot. "
        + "; ".join(f"{row['place']}, {row['arm']}: {row['length']:.2f}" for row in rows[:60])
        + ".",
        chart=chart,
        rows=rows,
        units=LENGTH_UNITS,
        note="Tokens a step, the bonus token included, steps without a draft counted where the server tells "
        "them: 1 is what plain decoding gives. A mark is one boot's cell. It ranks no arm: a step of one may "
        "cost more than a step of another.",
    )


def _positions(findings: Findings) -> list[Figure]:
    """A panel for each phase and workload, at the lowest concurrency that tells of positions."""
    figures: dict[tuple[str, str], Figure] = {}
    for place in sorted(_places(findings), key=lambda place: place[2]):
        rows: list[dict[str, Value]] = [
            {"arm": arm.name, "boot": cell.key.block, "position": position, "accepted": share.value}
            for arm in findings.arms
            for cell in arm.cell(*place)
            for position, share in enumerate(cell.acceptance.per_position, 1)
            if share.value is not None
        ]
        if rows and place[:2] not in figures and len(figures) < MOST_PANELS:
            figures[place[:2]] = _panel(findings, place, rows)
    return list(figures.values())


def _panel(findings: Findings, place: Place, rows: list[dict[str, Value]]) -> Figure:
    shown, where = [str(row["arm"]) for row in rows], label(*place)
    x = alt.X(
        "position:Q",
        title="place in the draft (position)",
        axis=alt.Axis(tickMinStep=1, format="d"),
        scale=alt.Scale(nice=False, padding=10, zero=False),
    )
    y = alt.Y(
        "accepted:Q",
        title="accepted (share of drafting steps)",
        scale=alt.Scale(domain=[0, 1]),
        axis=alt.Axis(grid=True, format=".0%", tickCount=5),
    )
    base = alt.Chart().encode(x=x, y=y, color=arms.colour(findings, shown), detail="boot:N")
    chart = alt.layer(
        base.mark_line(strokeWidth=2),
        base.mark_point(filled=True, size=50, opacity=1).encode(
            shape=arms.shape(findings, shown), tooltip=tips(rows, POSITION_UNITS)
        ),
    ).properties(width="container", height=190)
    firsts = [row for row in rows if row["position"] == 1]
    best = max(firsts or rows, key=lambda row: float(row["accepted"] or 0))
    phase, workload, concurrency = place
    return Figure(
        name=slug("acceptance-position", phase, workload, concurrency),
        title=f"{where[0].upper()}{where[1:]}: {best['arm']}'s first draft holds in {best['accepted']:.0%}",
        alt=f"Share of drafting steps that accepted the draft at each place, on {where}. "
        + "; ".join(f"{row['arm']}, place {row['position']}: {row['accepted']:.0%}" for row in rows[:40])
        + ".",
        chart=chart,
        rows=rows,
        units=POSITION_UNITS,
        note="A line an arm and boot.",
    )


def _places(findings: Findings) -> list[Place]:
    return list(
        dict.fromkeys(
            (cell.key.phase, cell.key.workload, cell.key.concurrency)
            for arm in findings.arms
            for cell in arm.cells
            if cell.key.phase not in SKIPPED
        )
    )
