"""Write the tables of predicted against measured into docs/planner.md and docs/simulation.md.

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
SIMULATION = ROOT / "docs" / "simulation.md"
SPEEDS = {"quickstart-cpu": "cpu", "sglang-h200": "h200"}
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


def schedule_table() -> str:
    """What real servers did with random schedules, and the simulator on the same."""
    sys.path.insert(0, str(ROOT))
    from tests.schedules import Judged, from_json, judge, simulate

    lines = [
        "| arm | schedules | requests | that missed on the server | alike | the same count of tokens |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for file in sorted((ROOT / "tests" / "data" / "schedules").glob("*.json")):
        setup, kept = from_json(json.loads(file.read_text(encoding="utf-8")))
        found = sum(
            (judge(turns, real, simulate(turns, setup, real), setup) for turns, real in kept), Judged()
        )
        alike, exact = found.alike / found.requests, found.exact / found.requests
        lines.append(
            f"| {setup.arm} | {len(kept)} | {found.requests} | {found.real_misses} "
            f"| {alike:.1%} | {exact:.1%} |"
        )
    return "\n".join(lines)


def simulation(text: str) -> str:
    """docs/simulation.md with its table as it should be."""
    return _between(text, "schedules", schedule_table())


def _between(text: str, mark: str, body: str) -> str:
    pattern = re.compile(rf"(<!-- {mark} -->\n).*?(<!-- end of {mark} -->)", re.DOTALL)
    found, count = pattern.subn(lambda match: f"{match[1]}{body}\n{match[2]}", text)
    if count != 1:
        raise SystemExit(f"the page has no place for `{mark}`")
    return found


if __name__ == "__main__":
    stale = []
    for path, made in ((PAGE, page), (SIMULATION, simulation)):
        old = path.read_text(encoding="utf-8")
        new = made(old)
        if new != old:
            stale.append(path.name)
            if "--check" not in sys.argv[1:]:
                path.write_text(new, encoding="utf-8")
    if stale and "--check" in sys.argv[1:]:
        sys.exit(f"not up to date: {', '.join(stale)}; run lab/pool_table.py")
