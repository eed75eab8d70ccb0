"""Where the memory is, and how many sessions the pool holds."""

from __future__ import annotations

import altair as alt

from kvantage.analysis.findings import Findings
from kvantage.analysis.memory import PARTS, Memory
from kvantage.report import tables
from kvantage.report.attribution import attribution_table
from kvantage.report.blocks import Block, Figure, Rows, Section, Value
from kvantage.report.charts import arms
from kvantage.report.charts.theme import part_colour
from kvantage.report.charts.tips import tips
from kvantage.report.figures import size

SCALES = ((1024**3, "GiB"), (1024**2, "MiB"), (1, "B"))


def section(findings: Findings) -> Section | None:
    """Stacked parts of each arm's memory; what each pool holds; what took it."""
    blocks: list[Block] = []
    if (figure := _parts(findings)) is not None:
        blocks.append(figure)
    for table in (tables.sessions(findings), attribution_table(findings)):
        if table.rows:
            blocks.append(Rows(table))
    return Section("pool", "The pool, by part", tuple(blocks)) if blocks else None


def _parts(findings: Findings) -> Figure | None:
    known = [
        (memory.arm, part.name, part.bytes.value)
        for memory in findings.memory
        for part in memory.parts
        if part.bytes.value
    ]
    if not known:
        return None
    largest = max(value for _, _, value in known)
    scale, unit = next((scale, unit) for scale, unit in SCALES if largest >= scale)
    rows: list[dict[str, Value]] = [
        {"arm": arm, "part": part, "size": value / scale, "order": PARTS.index(part)}
        for arm, part, value in known
    ]
    units = {"size": unit}
    shown = [str(row["arm"]) for row in rows]
    parts = [part for part in PARTS if part in {row["part"] for row in rows}]
    chart = (
        alt.Chart()
        .mark_bar(height=22, stroke="var(--ground)", strokeWidth=1)
        .encode(
            x=alt.X("size:Q", title=f"memory, on one rank ({unit})", stack="zero"),
            y=arms.rows(findings, shown),
            order="order:Q",
            color=alt.Color(
                "part:N",
                scale=alt.Scale(domain=parts, range=[part_colour(PARTS.index(part)) for part in parts]),
                legend=alt.Legend(title=None),
            ),
            tooltip=tips(rows, units, "order"),
        )
        .properties(width="container", height=arms.height(shown, 36))
    )
    return Figure(
        name="pool-by-part",
        title=_title(findings),
        alt="Memory of each arm by part. " + " ".join(_said(memory) for memory in findings.memory),
        chart=chart,
        rows=rows,
        units=units,
        note=_untold(findings),
    )


def _title(findings: Findings) -> str:
    drafted = [
        (memory.part("draft KV").value, memory.arm)
        for memory in findings.memory
        if memory.part("draft KV").value
    ]
    if not drafted:
        return "No drafter keeps a KV cache that its server tells of"
    value, arm = max((value, arm) for value, arm in drafted if value is not None)
    reading = next(memory.part("draft KV") for memory in findings.memory if memory.arm == arm)
    assert value
    return f"{arm} keeps the most for its drafter's KV: {size(reading)}"


def _said(memory: Memory) -> str:
    told = [f"{part.name} {size(part.bytes)}" for part in memory.parts if part.bytes.value]
    return f"{memory.arm}: {', '.join(told) or 'nothing told'}."


def _untold(findings: Findings) -> str:
    """The parts that no server told, with the reason: absent is not zero."""
    missing = {
        part: memory.part(part).missing
        for part in PARTS
        for memory in findings.memory[:1]
        if not any(each.part(part).known for each in findings.memory)
    }
    if not missing:
        return "As the engines tell it."
    return f"As the engines tell it. Not told, so not drawn: {', '.join(missing)}."
