"""results.json to coverage.svg and boots.svg: `python -m benchmarks.coverage.plot`."""

from __future__ import annotations

import json
from pathlib import Path

import altair as alt

HERE = Path(__file__).parent


def main() -> None:
    """Draw both charts."""
    found = json.loads((HERE / "results.json").read_text(encoding="utf-8"))
    coverage(found).save(HERE / "coverage.svg")
    boots(found).save(HERE / "boots.svg")


def coverage(found: dict) -> alt.LayerChart:
    """How often 95 % intervals held the truth, by kind of study."""
    rows = [
        {"kind": key, **row, "of": of}
        for part, of in (
            ("over_boots", "t over boots"),
            ("bootstrap", "bootstrap"),
            ("timeouts", "time-outs"),
        )
        for key, row in found[part]["rows"].items()
        if "over boots" not in key and "hierarchical" not in key
        for key in [f"all ({of})" if key == "all" else key]
    ]
    base = alt.Chart(alt.Data(values=rows)).encode(
        y=alt.Y("kind:N", sort=None, title=None, axis=alt.Axis(labelLimit=300)),
        color=alt.Color("of:N", legend=None),
    )
    scale = alt.Scale(domain=[0.84, 1.0], zero=False)
    spans = base.mark_rule(strokeWidth=2).encode(
        x=alt.X("low:Q", scale=scale, title="share of simulated studies whose 95 % interval held the truth"),
        x2="high:Q",
    )
    points = base.mark_point(filled=True, size=60).encode(x=alt.X("covered:Q", scale=scale))
    wanted = (
        alt.Chart(alt.Data(values=[{"x": 0.95}]))
        .mark_rule(strokeDash=[4, 3])
        .encode(x=alt.X("x:Q", scale=scale))
    )
    return (wanted + spans + points).properties(
        width=460, title="95 % intervals hold the truth in about 95 of 100 studies (simulated)"
    )


def boots(found: dict) -> alt.HConcatChart:
    """Boots that a study of two arms takes by the true ratio, beside a fixed design."""
    charts = []
    for noise, title in (("quiet", "boots vary by 1.9 %"), ("loud", "boots vary by 11.7 %")):
        rows = [row for row in found["boots_saved"] if row["noise"] == noise]
        fixed = next(row["fixed_boots"] for row in found["planned"] if row["noise"] == noise)
        lines = (
            alt.Chart(alt.Data(values=rows), title=title)
            .mark_line(point=True)
            .encode(
                x=alt.X("ratio:Q", title="true ratio", scale=alt.Scale(type="log", domain=[1, 2])),
                y=alt.Y("boots:Q", title="boots of each arm", scale=alt.Scale(domain=[2.5, 6.2])),
                color=alt.Color("rule:N", title="rule"),
            )
        )
        rule = alt.Chart(alt.Data(values=[{"y": fixed}])).mark_rule(strokeDash=[4, 3]).encode(y="y:Q")
        charts.append((lines + rule).properties(width=300, height=240))
    return alt.hconcat(*charts).properties(
        title="The larger the difference, the fewer boots (simulated; dashed: fixed design, 80 % power)"
    )


if __name__ == "__main__":
    main()
