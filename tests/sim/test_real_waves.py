"""The simulator against real servers: the same waves, the same pools, which requests hit and which miss.

Recorded, not run here: what real vLLM servers counted (tests/data/waves.yaml).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from kvantage.planner.acceptance import rate_for
from kvantage.sim.clock import FixedClock
from kvantage.sim.drafting import Drafting
from kvantage.sim.engine import Engine
from kvantage.sim.pieces import text
from kvantage.sim.request import Request
from kvantage.sim.rules import Rules

DATA = yaml.safe_load((Path(__file__).parents[1] / "data" / "waves.yaml").read_text(encoding="utf-8"))
CLOCK = FixedClock(step=0.0055, each=0.0015, token=0.00006)
"""About what the recorded servers took; which of four requests ends first depends on it little."""


def replay(arm: dict[str, Any], seed: int = 0) -> dict[int, list[int]]:
    """The repeats' hits by concurrency and stream, simulated."""
    drafts = arm.get("drafts", 0)
    rules = Rules(
        running=DATA["running"],
        chunk=DATA["chunk"],
        page=DATA["page"],
        mixed=True,
        drafts=drafts,
        drop_block=arm.get("drop_block", False),
        extra_slots=drafts + 1 if arm.get("drop_block") else 0,
        newest_first=True,
    )
    rates = [rate_for(arm["acceptance"], drafts)] * drafts if drafts else []
    engine = Engine(arm["pool"], rules, CLOCK, {"": Drafting(rates, seed)} if drafts else {})
    for i in range(6):  # the short prompts that came before
        engine.submit(Request(f"short-{i}", text(("short", i), 60), 256))
        engine.run()
    found = {}
    for streams, lengths in DATA["prompts"].items():
        for phase in ("cold", "repeat"):
            order = range(streams)
            if phase == "cold" and streams == 4:
                order = arm.get("cold_order", order)
            requests = {}
            for place, stream in enumerate(order):
                prompt = text((streams, stream), lengths[stream])
                request = Request(f"{phase}-{streams}-{stream}", prompt, DATA["outputs"][phase])
                requests[stream] = engine.submit(request, engine.now + place * 0.0003)
            engine.run()
        found[streams] = [requests[stream].first_cached or 0 for stream in range(streams)]
    return found


def agreement(seed: int) -> float:
    """The share of repeats on which both agree whether all of the prefix was there."""
    same = total = 0
    for arm in DATA["arms"]:
        whole = max(arm["hits"][1])
        for streams, simulated in replay(arm, seed).items():
            for real, found in zip(arm["hits"][streams], simulated, strict=True):
                same += (real < whole) == (found < whole)
                total += 1
    assert total == 56
    return same / total


def test_the_same_requests_hit_and_miss_in_at_least_95_percent() -> None:
    shares = [agreement(seed) for seed in range(10)]
    assert sum(shares) / len(shares) >= 0.95


def test_only_the_pool_that_was_too_small_evicts_and_as_the_real_one_did() -> None:
    *roomy, tight = DATA["arms"]
    for arm in roomy:
        assert replay(arm) == arm["hits"]
    found = [replay(tight, seed) for seed in range(20)]
    assert all(one[1] == [1920] and one[2] == [1920, 1920] for one in found)
    assert sum(min(one[4]) < 1920 for one in found) > 15
    assert tight["hits"][4] in [one[4] for one in found]  # the very counts of the server, in some draws
