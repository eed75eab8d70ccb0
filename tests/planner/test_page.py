"""docs/planner.md holds the table that its command writes."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def the_command() -> Any:
    spec = importlib.util.spec_from_file_location("pool_table", ROOT / "lab" / "pool_table.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_what_its_command_writes() -> None:
    text = (ROOT / "docs" / "planner.md").read_text(encoding="utf-8")
    assert the_command().page(text) == text
    text = (ROOT / "docs" / "simulation.md").read_text(encoding="utf-8")
    assert the_command().simulation(text) == text


@pytest.mark.parametrize(
    ("name", "share", "most"), [("quickstart-cpu", 0.8, 0.25), ("sglang-h200", 0.4, 0.30)]
)
def test_kept_speeds_follow_from_one_pair(name: str, share: float, most: float) -> None:
    """Within 15 %, or named on the page. The second run had no graphs: its cells contradict each other."""
    rows = [row for row in the_command().speeds(name) if not row.calibrates]
    near = [row for row in rows if abs(row.error) <= 0.15]
    assert len(near) / len(rows) >= share
    assert max(abs(row.error) for row in rows) < most
