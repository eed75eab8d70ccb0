"""The rows of tests/data/cases.jsonl: real inputs, each with the right answer beside it."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent.parent / "data"


@functools.cache
def _rows() -> dict[str, dict[str, Any]]:
    lines = (DATA / "cases.jsonl").read_text(encoding="utf-8").split("\n")
    rows = [json.loads(line) for line in lines if line]
    return {row["id"]: row for row in rows}


def case(name: str) -> tuple[Any, Any]:
    """(input, expected) of a row."""
    row = _rows()[name]
    return row["input"], row["expected"]


def capture(path: str) -> str:
    """A capture's text, such as `sglang-0.5.17-h200/s-none.log`."""
    return (DATA / "captures" / path).read_text(encoding="utf-8")
