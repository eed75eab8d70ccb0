"""Write the table of predicted against printed pools into docs/planner.md, between its two marks.

python lab/pool_table.py            # write it
python lab/pool_table.py --check    # fail where the page is not what would be written
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from kvantage.planner.families import known
from kvantage.planner.measured import compare, table

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "planner.md"


def page(text: str) -> str:
    """The page with its generated parts as they should be."""
    rows = compare(ROOT / "tests" / "data" / "pools.yaml", ROOT / "tests" / "data" / "configs")
    worst = max(abs(row.error) for row in rows if row.known) * 100
    derived = max(abs(row.error) for row in rows if not row.known) * 100
    summary = (
        f"{len(rows)} pools; the largest error is {worst:.2f} % where the memory was known "
        f"and {derived:.2f} % where it was derived."
    )
    text = _between(text, "pools", f"{table(rows)}\n\n{summary}")
    names = ", ".join(f"`{name}`" for name in known())
    return _between(text, "families", names)


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
