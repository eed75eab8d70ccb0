"""Write the tables of predicted against measured pools and speeds into docs/planner.md, between their marks.

python lab/pool_table.py            # write it
python lab/pool_table.py --check    # fail where the page is not what would be written
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from statistics import median

from kvantage.planner.against import Row, hold_against
from kvantage.planner.families import known
from kvantage.planner.machine import read_machine
from kvantage.planner.measured import compare, compare_allocated, table
from kvantage.planner.studies import asked_of
from kvantage.study import load_study

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "planner.md"
SPEEDS = {"quickstart-cpu": "cpu"}
"""Kept runs in tests/data/speeds, and the hardware file of each."""
NEAR = 0.15


def page(text: str) -> str:
    """The page with its generated parts as they should be."""
    rows = compare(ROOT / "tests" / "data" / "pools.yaml", ROOT / "tests" / "data" / "configs")
    worst = max(abs(row.error) for row in rows if row.known) * 100
    derived = max(abs(row.error) for row in rows if not row.known) * 100
    summary = (
        f"{len(rows)} pools; the largest error is {worst:.2f} % where the memory was known "
        f"and {derived:.2f} % where it was derived."
    )
    text = _between(text, "pools", f"{table(rows)}\n\n{summary}\n\n{allocated()}")
    text = _between(text, "speeds", "\n\n".join(map(speed_table, SPEEDS)))
    names = ", ".join(f"`{name}`" for name in known())
    return _between(text, "families", names)


def allocated() -> str:
    """llama.cpp, which allocates for the context that is asked for."""
    lines = [
        "| llama.cpp | KV | context | predicted MiB | printed MiB | error |",
        "|---|---|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {row.target} | {row.kv} | {row.context:,} | {row.predicted_mib:.2f} | {row.measured_mib:.2f} "
        f"| {row.error * 100:+.2f} % |"
        for row in compare_allocated(
            ROOT / "tests" / "data" / "pools.yaml", ROOT / "tests" / "data" / "configs"
        )
    ]
    return "\n".join(lines)


def speeds(name: str) -> list[Row]:
    """A kept run's clean cells beside what follows from the first short cell of each arm."""
    folder = ROOT / "tests" / "data" / "speeds"
    report = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    asked = asked_of(load_study(folder / f"{name}.yaml"), read_machine(SPEEDS[name]))
    return [row for row in hold_against(asked, report) if row.unit == "tok/s"]


def speed_table(name: str) -> str:
    """One kept run as Markdown, with how many of its cells are near."""
    rows = speeds(name)
    lines = ["| run | arm | cell | predicted | measured | error |", "|---|---|---|---:|---:|---:|"]
    for row in rows:
        error = "calibrates" if row.calibrates else f"{row.error * 100:+.1f} %"
        lines.append(
            f"| {name} | {row.arm} | {row.quantity} | {row.predicted:.1f} | {row.measured:.1f} | {error} |"
        )
    foretold = [row for row in rows if not row.calibrates]
    far = [f"{row.arm} {row.quantity}" for row in foretold if abs(row.error) > NEAR]
    middle = median(abs(row.error) for row in foretold) * 100
    said = (
        f"{len(foretold) - len(far)} of {len(foretold)} cells within 15 %, {middle:.1f} % in the median; "
        f"further off: {', '.join(far) or 'none'}."
    )
    return "\n".join([*lines, "", said])


def _between(text: str, mark: str, body: str) -> str:
    pattern = re.compile(rf"(<!-- {mark} -->\n).*?(<!-- end of {mark} -->)", re.DOTALL)
    found, count = pattern.subn(lambda match: f"{match[1]}{body}\n{match[2]}", text)
    if count != 1:
        raise SystemExit(f"docs/planner.md has no place for `{mark}`")
    return found


if __name__ == "__main__":
    old = PAGE.read_text(encoding="utf-8")
    new = page(old)
    if "--check" in sys.argv[1:]:
        sys.exit(0 if new == old else "docs/planner.md is not up to date: run lab/pool_table.py")
    PAGE.write_text(new, encoding="utf-8")
