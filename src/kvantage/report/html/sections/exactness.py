"""Exactness: how long answers stay the control's, and how far below the likeliest token the others lie."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from kvantage.analysis.exactness.judge import Exactness
from kvantage.analysis.exactness.survival import Curve
from kvantage.analysis.findings import Findings
from kvantage.report import exactness as tables
from kvantage.report.blocks import Block, Bullets, Figure, Folded, Panels, Prose, Rows, Section, Value
from kvantage.report.charts import arms
from kvantage.report.charts.tips import tips

SAID = (
    "Every arm answered the same prompts several times; each pair of answers was compared token by token, "
    "and the control scored every token of every arm. An arm counts as different only where it differs "
    "by more than the control differs from itself."
)
SURVIVAL_NOTE = (
    "Kaplan-Meier; a pair that ends the same is censored at its end. The line of the control is the control "
    "against itself, on one boot. The bands are pointwise 95 % intervals over pairs, which share answers."
)
GAP_NOTE = (
    "Each distinct token once, scored by the control. The rules: the floor, and the edge of a near tie "
    "(twice the control's largest gap). Tokens with no gap are in the share and not in the picture."
)


def section(findings: Findings) -> Section | None:
    """The words first, then both charts, the worst divergences, and the rest in folds."""
    found = findings.exactness
    if found is None:
        return None
    survival = [_survival(findings, found, at) for at in _concurrencies(found)]
    blocks: list[Block] = [
        Prose(SAID),
        Bullets(tuple((f"{arm.arm}:", f"{arm.words}. {_sentence(arm.detail)}") for arm in found.arms)),
    ]
    blocks += [Panels(tuple(one for one in survival if one is not None))] if any(survival) else []
    gaps = _gaps(findings, found)
    blocks += [gaps] if gaps is not None else []
    worst = tables.worst_table(found)
    blocks += [Rows(worst)] if worst.rows else []
    folded = {
        "Verdicts by concurrency": tables.verdict_table(found),
        "The matrix of pairs": tables.matrix_table(found),
        "Gaps and power": tables.gaps_table(found),
        "Sampled at a temperature": tables.sampling_table(found),
        "Items with one right answer": tables.tasks_table(found),
    }
    blocks += [Folded(title, (Rows(table),)) for title, table in folded.items() if table.rows]
    parted = tables.survival_lines(found)
    if parted:
        items = tuple((f"{arm}:", f"{said}.") for arm, said in parted)
        blocks.append(Folded("How soon pairs part, and with which power", (Bullets(items),)))
    streams = tables.stream_lines(found)
    if streams:
        items = tuple((f"{arm}:", f"{said}.") for arm, said in streams)
        blocks.append(Folded("Streamed answers against whole ones", (Bullets(items),)))
    return Section("exactness", "Exactness", tuple(blocks))


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _concurrencies(found: Exactness) -> list[int]:
    return sorted({at.concurrency for arm in found.arms for at in arm.at})


def _survival(findings: Findings, found: Exactness, concurrency: int) -> Figure | None:
    curves: list[tuple[str, Curve]] = [
        (found.control, each)
        for each in found.control_curves
        if each.kind == "off-off" and each.concurrency == concurrency
    ]
    curves += [
        (arm.arm, each)
        for arm in found.arms
        for at in arm.at
        for each in at.curves
        if each.kind == "on-off" and at.concurrency == concurrency
    ]
    rows = [row for arm, curve in curves for row in _curve_rows(arm, curve)]
    if not rows:
        return None
    shown = [arm for arm, _ in curves]
    base = alt.Chart().encode(
        x=alt.X("place:Q", title=f"place in the answer ({found.unit})"),
        color=arms.colour(findings, shown),
    )
    share = alt.Y(
        "share:Q",
        title="pairs still the same (share)",
        scale=alt.Scale(domain=[0, 1]),
        axis=alt.Axis(format=".0%", grid=True),
    )
    chart = alt.layer(
        base.mark_area(opacity=0.12, interpolate="step-after").encode(
            y=alt.Y("low:Q", title="pairs still the same (share)"), y2="high:Q"
        ),
        base.mark_line(strokeWidth=2, interpolate="step-after").encode(y=share, tooltip=tips(rows, UNITS)),
    ).properties(width="container", height=220)
    ends = {arm: curve.share[-1] for arm, curve in curves}
    least = min(ends, key=lambda arm: ends[arm])
    return Figure(
        name=f"exactness-survival-{concurrency}",
        title=f"{concurrency} at once: "
        + (
            "every pair of answers is the same to its end"
            if ends[least] == 1
            else f"{ends[least]:.0%} of {least}'s pairs are the same to their end"
        ),
        alt=f"Share of pairs of answers that are still the same, over {found.unit} into the answer, at "
        f"{concurrency} at once. At the end: "
        + "; ".join(f"{arm} {share_:.0%}" for arm, share_ in ends.items())
        + ".",
        chart=chart,
        rows=rows,
        units=UNITS,
        note=SURVIVAL_NOTE,
    )


UNITS = {"place": "tokens", "share": "1", "low": "1", "high": "1", "gap": "nats", "tokens": "tokens"}


def _curve_rows(arm: str, curve: Curve) -> list[dict[str, Value]]:
    return [
        {"arm": arm, "place": place, "share": share, "low": low, "high": high, "pairs": curve.pairs}
        for place, share, low, high in zip(curve.places, curve.share, curve.low, curve.high, strict=True)
    ]


def _gaps(findings: Findings, found: Exactness) -> Figure | None:
    if found.floor is None:
        return None
    totals = {found.control: found.floor.tokens}
    largest = {found.control: found.floor.largest}
    for arm in found.arms:
        told = [at.gaps for at in arm.at if at.gaps is not None]
        if told:
            totals[arm.arm] = max(each.tokens for each in told)
            largest[arm.arm] = max(each.largest for each in told)
    rows: list[dict[str, Value]] = []
    for name, total in totals.items():
        gaps = found.control_gaps if name == found.control else found.arm_gaps.get(name, ())
        rows += _exceedance(name, gaps, total)
    if not rows:
        return None
    shown = [str(row["arm"]) for row in rows]
    chart = alt.layer(
        alt.Chart()
        .mark_line(interpolate="step-before", strokeWidth=2, point=True)
        .encode(
            x=alt.X("gap:Q", title="gap to the likeliest token (nats)", scale=alt.Scale(type="log")),
            y=alt.Y("share:Q", title="tokens with at least this gap (share)", scale=alt.Scale(type="log")),
            color=arms.colour(findings, shown),
            tooltip=tips(rows, UNITS),
        ),
        alt.Chart().mark_rule(strokeDash=[4, 4]).encode(x=alt.XDatum(found.floor.limit)),
        alt.Chart().mark_rule(strokeDash=[1, 3]).encode(x=alt.XDatum(found.floor.edge)),
    ).properties(width="container", height=240)
    top = max(largest, key=lambda name: largest[name])
    return Figure(
        name="exactness-gaps",
        title=f"The largest gap is {top}'s, {largest[top]:.3g} nats; the floor is {found.floor.limit:.3g}",
        alt="Share of tokens whose gap to the likeliest token is at least so large, an arm a line. Largest: "
        + "; ".join(f"{name} {gap:.3g} nats" for name, gap in largest.items())
        + f". The floor is {found.floor.limit:.3g} nats, the edge of a near tie {found.floor.edge:.3g}.",
        chart=chart,
        rows=rows,
        units=UNITS,
        note=GAP_NOTE,
    )


MOST_POINTS = 200


def _exceedance(arm: str, gaps: Sequence[float], total: int) -> list[dict[str, Value]]:
    """The share of tokens with at least each gap; at most `MOST_POINTS` of them, the largest always."""
    number = len(gaps)
    step = max(1, number // MOST_POINTS)
    places = sorted({*range(0, number, step), *range(max(0, number - 20), number)})
    return [
        {
            "arm": arm,
            "gap": gaps[place],
            "share": (number - place) / max(total, number),
            "tokens": number - place,
        }
        for place in places
    ]
