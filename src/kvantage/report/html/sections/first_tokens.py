"""Time to the first token by length: uncached, and from the cache."""

from __future__ import annotations

import altair as alt

from kvantage.analysis.findings import Findings
from kvantage.report.blocks import Block, Bullets, Figure, Folded, Panels, Prose, Rows, Section, Value
from kvantage.report.charts import arms
from kvantage.report.charts.tips import spans, tips
from kvantage.report.ladder import hits_table, ladder_sentences, ladder_table

TURNS = (
    ("uncached", "uncached"),
    ("first-repeat", "at the first repeat"),
    ("second-repeat", "at the second repeat"),
)
UNITS = {
    "prompt_tokens": "tokens",
    "ttft": "s",
    "low": "s",
    "high": "s",
    "to_control": "ratio",
    "cached_tokens": "tokens",
}
SAID = (
    "Each document is sent three times in a row: it shows what a drafter costs before the first token, and "
    "whether the prefix cache still works beside it."
)
NOTE = (
    "Medians over the documents of a length; the strokes are the range over those documents, within one "
    "boot. Both axes are logarithmic."
)


def section(findings: Findings) -> Section | None:
    """A line an arm and boot over the prompt's length, one panel for each of the times it was sent."""
    if not findings.ladders:
        return None
    panels = [_panel(findings, turn) for turn in range(len(TURNS))]
    blocks: list[Block] = [
        Prose(SAID),
        Panels(tuple(panel for panel in panels if panel is not None)),
        Rows(ladder_table(findings)),
        Bullets(tuple((f"{arm}:", f"{said}.") for arm, said in ladder_sentences(findings))),
        Folded("What the repeats found in the cache", (Rows(hits_table(findings)),)),
    ]
    return Section("first-tokens", "Time to the first token", tuple(blocks))


def _panel(findings: Findings, turn: int) -> Figure | None:
    rows = _rows(findings, turn)
    if not rows:
        return None
    name, words = TURNS[turn]
    shown = [str(row["arm"]) for row in rows]
    tokens = alt.X(
        "prompt_tokens:Q",
        title="prompt (tokens)",
        scale=alt.Scale(type="log", base=2, nice=False, padding=12),
        axis=alt.Axis(format=",d", tickCount=4),
    )
    seconds = alt.Y(
        "ttft:Q",
        title="time to first token (s)",
        scale=alt.Scale(type="log"),
        axis=alt.Axis(grid=True, tickCount=4),
    )
    base = alt.Chart().encode(x=tokens, y=seconds, color=arms.colour(findings, shown), detail="boot:N")
    strokes = [base.mark_rule(opacity=0.5).encode(y="low:Q", y2="high:Q")]
    chart = alt.layer(
        base.mark_line(strokeWidth=2),
        *(strokes if spans(rows) else []),
        base.mark_point(filled=True, size=55, opacity=1).encode(
            shape=arms.shape(findings, shown), tooltip=tips(rows, UNITS)
        ),
    ).properties(width="container", height=220)
    most = max(rows, key=lambda row: float(row["ttft"] or 0))
    return Figure(
        name=f"ttft-{name}",
        title=f"{words[0].upper()}{words[1:]}: {_longest(most, len(set(shown)))}",
        alt=f"Median time to first token {words} over the prompt's length, a line an arm and boot. "
        + "; ".join(f"{row['arm']}, boot {row['boot']}: {_point(row)}" for row in rows[:40])
        + ".",
        chart=chart,
        rows=rows,
        units=UNITS,
        note=NOTE,
    )


def _longest(most: dict[str, Value], arms_shown: int) -> str:
    waits = "waits" if arms_shown == 1 else "waits longest,"
    return f"{most['arm']} {waits} {_point(most)}"


def _point(row: dict[str, Value]) -> str:
    return f"{row['ttft']:.3g} s at {row['prompt_tokens']:,.0f} tokens"


def _rows(findings: Findings, turn: int) -> list[dict[str, Value]]:
    return [
        {
            "arm": ladder.arm,
            "boot": ladder.block,
            "prompt_tokens": rung.prompt_tokens.value,
            "ttft": found.ttft.value,
            "low": found.ttft.low,
            "high": found.ttft.high,
            "to_control": found.to_control.value,
            "cached_tokens": found.cached.value,
        }
        for ladder in findings.ladders
        for rung in ladder.rungs
        for found in rung.turns[turn : turn + 1]
        if found.ttft.value and rung.prompt_tokens.value
    ]
