"""The simulator against what real servers did: 50 random schedules an arm, the same pool, the same requests.

Recorded, not run here (tests/data/schedules, by tests/real/test_simulator_on_schedules.py).
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ..schedules import Judged, from_json, judge, simulate

KEPT = sorted((Path(__file__).parents[1] / "data" / "schedules").glob("*.json"))


@pytest.mark.parametrize("file", KEPT, ids=lambda file: file.stem)
def test_the_same_requests_hit_and_miss_in_at_least_95_percent(file: Path) -> None:
    setup, kept = from_json(json.loads(file.read_text(encoding="utf-8")))
    assert len(kept) == 50
    found = sum((judge(turns, real, simulate(turns, setup, real), setup) for turns, real in kept), Judged())
    assert found.requests > 200
    assert found.real_misses > 20
    assert found.alike / found.requests >= 0.95
    assert found.exact / found.requests >= 0.90
