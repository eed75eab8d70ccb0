"""docs/planner.md holds the table that its command writes."""

from __future__ import annotations

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_page_is_what_its_command_writes() -> None:
    spec = importlib.util.spec_from_file_location("pool_table", ROOT / "lab" / "pool_table.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text = (ROOT / "docs" / "planner.md").read_text(encoding="utf-8")
    assert module.page(text) == text
