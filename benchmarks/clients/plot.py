"""`results.json` as a picture: each client's mean TTFT error and CPU a thousand chunks, by streams.

python benchmarks/clients/plot.py build/clients/one/results.json build/clients/one/errors.svg
"""

from __future__ import annotations

import json
import math
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

COLOURS = ("#d62728", "#1f77b4", "#2ca02c", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f")
WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 420, 300, 60, 40, 40


def panel(rows: list[dict[str, Any]], name: str, title: str, shift: int) -> list[str]:
    """One log-log panel."""
    lines: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for row in rows:
        if row.get(name) is not None and row[name] != 0:
            lines[row["tool"]].append((row["streams"], abs(row[name])))
    values = [value for points in lines.values() for _, value in points]
    streams = sorted({at for points in lines.values() for at, _ in points})
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))

    def x(at: float) -> float:
        span = math.log(streams[-1] / streams[0]) or 1.0
        return shift + LEFT + math.log(at / streams[0]) / span * (WIDTH - LEFT - 20)

    def y(value: float) -> float:
        return TOP + (high - math.log10(value)) / max(1, high - low) * (HEIGHT - TOP - BOTTOM)

    out = [f'<text x="{shift + LEFT}" y="20" font-weight="bold">{title}</text>']
    for power in range(low, high + 1):
        at = y(10.0**power)
        out.append(f'<line x1="{shift + LEFT}" x2="{shift + WIDTH - 20}" y1="{at}" y2="{at}" stroke="#ddd"/>')
        out.append(f'<text x="{shift + LEFT - 6}" y="{at + 4}" text-anchor="end">{10.0**power:g}</text>')
    for at in streams:
        out.append(f'<text x="{x(at)}" y="{HEIGHT - 18}" text-anchor="middle">{at}</text>')
    for place, (tool, points) in enumerate(sorted(lines.items(), key=lambda each: each[0] != "kvantage")):
        colour = COLOURS[place % len(COLOURS)]
        path = " ".join(f"{x(at):.1f},{y(value):.1f}" for at, value in sorted(points))
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        out.append(f'<text x="{2 * WIDTH + 10}" y="{TOP + 16 * place}" fill="{colour}">{tool}</text>')
    out.append(f'<text x="{shift + WIDTH / 2}" y="{HEIGHT - 4}" text-anchor="middle">streams</text>')
    return out


def main() -> None:
    rows = json.loads(Path(sys.argv[1]).read_text())
    body = panel(rows, "ttft_error_ms", "mean TTFT error, ms", 0)
    body += panel(rows, "cpu_ms_per_1000_chunks", "CPU ms for 1,000 chunks", WIDTH)
    size = f'width="{2 * WIDTH + 130}" height="{HEIGHT}"'
    style = "font-family: sans-serif; font-size: 12px; background: white"
    Path(sys.argv[2]).write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} style="{style}">\n' + "\n".join(body) + "\n</svg>\n"
    )


if __name__ == "__main__":
    main()
