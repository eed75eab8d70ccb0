"""docs/planner.md holds the table that its command writes."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

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


def test_kept_speeds_follow_from_one_pair() -> None:
    """Most cells of every kept run within 15 %; those that are not are named on the page."""
    module = the_command()
    for name in module.SPEEDS:
        rows = [row for row in module.speeds(name) if not row.calibrates]
        near = [row for row in rows if abs(row.error) <= 0.15]
        assert len(near) / len(rows) > 0.8
        assert max(abs(row.error) for row in rows) < 0.25
