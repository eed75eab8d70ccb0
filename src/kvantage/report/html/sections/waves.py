"""What each request of a wave waited for: its queue, its prompt, its answer; and whether the cache had it."""

from __future__ import annotations

import altair as alt

from kvantage.analysis.findings import Findings
from kvantage.analysis.waves import Wave, WaveRequest
from kvantage.core.reading import Reading
from kvantage.report.answers import recall
from kvantage.report.blocks import Block, Figure, Folded, Rows, Section, Value, slug
from kvantage.report.charts import arms
from kvantage.report.charts.theme import stage_colour
from kvantage.report.charts.tips import tips

STAGES = ("queue", "prefill", "decode")
UNITS = {"start": "s", "end": "s", "prompt": "tokens", "cached": "tokens", "expected": "tokens"}
MARKS = {"hit": "hit", "miss": "MISS", "cold": "", "not told": "hit not told"}
FEW = 8
"""Requests of a wave up to which each carries its mark; of more, only a miss does."""

_Place = tuple[str, str, int]


def section(findings: Findings) -> Section | None:
    """A timeline a wave: the largest of each phase first, the others folded."""
    places = list(dict.fromkeys(_place(wave) for wave in findings.waves))
    if not places:
        return None
    largest = [
        max(group, key=lambda place: place[2])
        for phase in dict.fromkeys(place[:2] for place in places)
        if (group := [place for place in places if place[:2] == phase])
    ]
    blocks: list[Block] = [_timeline(findings, place) for place in largest]
    rest = tuple(_timeline(findings, place) for place in places if place not in largest)
    if rest:
        blocks.append(Folded(f"The other waves ({len(rest)})", rest))
    if (table := recall(findings)).rows:
        blocks.append(Rows(table))
    return Section("waves", "Waves, request by request", tuple(blocks))


def _place(wave: Wave) -> _Place:
    return wave.phase, wave.workload, wave.concurrency


def _timeline(findings: Findings, place: _Place) -> Figure:
    waves = [wave for wave in findings.waves if _place(wave) == place]
    rows = [row for wave in waves for row in _rows(wave)]
    phase, _, concurrency = place
    shown = [wave.arm for wave in waves]
    base = alt.Chart().encode(
        y=alt.Y("arm:N", sort=arms.order(findings), title=None, axis=alt.Axis(grid=True, tickBand="extent")),
        yOffset=alt.YOffset("request:N", sort=_requests(waves), scale=alt.Scale(paddingOuter=0.25)),
    )
    bars = base.mark_bar(height={"band": 0.8}).encode(
        x=alt.X("start:Q", title="time since the wave was sent (s)"),
        x2="end:Q",
        color=alt.Color(
            "stage:N",
            scale=alt.Scale(domain=list(STAGES), range=[stage_colour(n) for n in range(len(STAGES))]),
            legend=alt.Legend(title=None),
        ),
        tooltip=tips(rows, UNITS, "mark"),
    )
    mark = (
        base.transform_filter("isValid(datum.mark)")
        .mark_text(align="left", dx=4, fontSize=10)
        .encode(
            x="end:Q",
            text="mark:N",
            color=alt.condition("datum.hit == 'miss'", alt.value(stage_colour(3)), alt.value("var(--ink)")),
        )
    )
    marks = [mark] if any(row["mark"] for row in rows) else []
    step = 18 if max(len(wave.requests) for wave in waves) <= FEW else 8
    return Figure(
        name=slug("wave", *place),
        title=_title(waves, shown, phase, concurrency),
        alt=_alt(waves, phase, concurrency),
        chart=alt.layer(bars, *marks).properties(
            width="container", height=arms.height(shown, step, len(_requests(waves)))
        ),
        rows=rows,
        units=UNITS,
        note=_note(waves),
    )


def _requests(waves: list[Wave]) -> list[str]:
    return list(dict.fromkeys(_named(each) for wave in waves for each in wave.requests))


def _named(request: WaveRequest) -> str:
    return f"{request.repeat}.{request.stream}"


def _rows(wave: Wave) -> list[dict[str, Value]]:
    """A row a stage; the last of a request carries the mark of its hit."""
    rows: list[dict[str, Value]] = []
    for each in wave.requests:
        base: dict[str, Value] = {"arm": wave.arm, "boot": wave.block, "request": _named(each)}
        base |= {"hit": each.hit, "prompt": each.prompt_tokens.value, "cached": each.cached_tokens.value}
        base |= {"expected": each.expected_tokens.low}
        stages = _stages(each)
        for stage, start, end in stages:
            last = stage == stages[-1][0]
            told = last and (each.hit == "miss" or len(wave.requests) <= FEW)
            mark = (MARKS[each.hit] or None) if told else None
            rows.append({**base, "stage": stage, "start": start, "end": end, "mark": mark})
    return rows


def _stages(request: WaveRequest) -> list[tuple[str, float, float]]:
    """(stage, start, end) of what is known; without a told queue, the wait is within the prefill."""
    found: list[tuple[str, float, float]] = []
    at = request.sent
    for stage, end in zip(STAGES, (request.queue, request.first, request.last), strict=True):
        if not _later(at, end):
            continue
        assert at.value is not None
        assert end.value is not None
        found.append((stage, at.value, end.value))
        at = end
    return found


def _later(start: Reading, end: Reading) -> bool:
    return start.value is not None and end.value is not None and end.value > start.value


def _title(waves: list[Wave], shown: list[str], phase: str, concurrency: int) -> str:
    missed = {wave.arm: sum(each.hit == "miss" for each in wave.requests) for wave in waves}
    bad = [f"{missed[arm]} of {arm}" for arm in shown if missed[arm]]
    what = {"cold": "Cold wave", "repeat": "The same wave again"}.get(phase, phase)
    what = f"{what}, {concurrency} at once"
    if bad:
        return f"{what}: requests that missed the cache: {', '.join(bad)}"
    if phase == "repeat":
        return f"{what}: every request found its document in the cache"
    waits = {
        wave.arm: max(each.first.value or 0.0 for each in wave.requests) for wave in waves if not wave.void
    }
    if not waits:
        return f"{what}: void in every arm"
    last = max(waits, key=lambda arm: waits[arm])
    return f"{what}: the longest wait for a first token is in {last}, {waits[last]:.2f} s"


def _alt(waves: list[Wave], phase: str, concurrency: int) -> str:
    told = []
    for wave in waves:
        ends = [each.last.value for each in wave.requests if each.last.value is not None]
        hits = sum(each.hit == "hit" for each in wave.requests)
        missed = sum(each.hit == "miss" for each in wave.requests)
        done = f"done after {max(ends):.2f} s" if ends else "no token came"
        told.append(f"{wave.arm}: {len(wave.requests)} requests, {done}, {hits} hits, {missed} misses")
    return f"Timeline of the {phase} wave at {concurrency} at once. {'; '.join(told)}."


def _note(waves: list[Wave]) -> str:
    parts = ["A bar a request, within one boot: waiting in the server's queue, reading its prompt, writing."]
    if all(not each.queue.known for wave in waves for each in wave.requests):
        parts.append("The server does not say how long each waited: its wait is within the prefill.")
    void = [wave.arm for wave in waves if wave.void]
    if void:
        parts.append(f"Void for speed, and shown for what it tells: {', '.join(void)}.")
    cut = [wave for wave in waves if wave.asked.value and wave.asked.value > len(wave.requests)]
    if cut:
        parts.append(f"The first {len(cut[0].requests)} of {cut[0].asked.value:,.0f} requests are drawn.")
    return " ".join(parts)
