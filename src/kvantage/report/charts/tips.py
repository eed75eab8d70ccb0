"""What a mark says when it is pointed at, and whether there is anything to span."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import altair as alt

from kvantage.report.blocks import Value


def tips(rows: Sequence[Mapping[str, Value]], units: Mapping[str, str], *leave_out: str) -> list[alt.Tooltip]:
    """A line for each column of `rows`, with its unit."""
    found = []
    for name in dict.fromkeys(name for row in rows for name in row if name not in leave_out):
        values = [row.get(name) for row in rows if row.get(name) is not None]
        number = bool(values) and all(isinstance(value, int | float) for value in values)
        title = name.replace("_", " ") + (f" ({units[name]})" if name in units else "")
        found.append(alt.Tooltip(field=name, type="quantitative" if number else "nominal", title=title))
    return found


def spans(rows: Sequence[Mapping[str, Value]], low: str = "low") -> bool:
    """Whether any row has an interval: a layer of strokes without one would have no extent."""
    return any(row.get(low) is not None for row in rows)
