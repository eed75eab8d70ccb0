"""The rows of the shared cases, by id."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kvantage.planner.checkpoint import Checkpoint, read_checkpoint
from kvantage.planner.geometry import Geometry, geometry_of

DATA = Path(__file__).parents[1] / "data"
CONFIGS = DATA / "configs"


def case(name: str) -> dict[str, Any]:
    with (DATA / "cases.jsonl").open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            if row["id"] == name:
                return dict(row)
    raise KeyError(name)


def config(name: str) -> Checkpoint:
    return read_checkpoint(str(CONFIGS / name))


def model(name: str) -> Geometry:
    return geometry_of(config(name))


def geometry(fields: dict[str, Any]) -> Geometry:
    return geometry_of(Checkpoint("test", fields))
