"""False alarms and detection on a simulated server, whose truth is known: no model, no engine.

    python benchmarks/exactness/simulated.py [STUDIES]      prints JSON

Twenty prompts, three answers of the control and two of the arm to each. At 0.6 % of the places two tokens are
nearly as likely, and any answer takes the second with 30 %, at a gap from a list that is like bf16's.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from scipy import stats
from tests.analysis.exactness.toy import Toy

import kvantage.analysis.exactness.judge as judging

GAPS = (0.0, 0.0, 0.0, 0.0625, 0.0625, 0.0625, 0.125, 0.125, 0.25)
HEAVY = (0.0, 0.0, 0.0625, 0.0625, 0.125, 0.125, 0.25, 0.5, 1.0)
RARE = (*(0.0,) * 6, *(0.0625,) * 12, 0.5)
ASKED = judging.Asked("none", ("none", "arm"), {"none": False, "arm": True})


def classes(
    studies: int, length: int, gaps: tuple[float, ...], wrong: float, wrong_gap: float
) -> dict[str, Any]:
    """How such studies are called."""
    found = []
    for seed in range(studies):
        prompts = [f"{seed}:{number}" for number in range(20)]
        toy = Toy(ties=0.006, flip=0.3, gaps=gaps, length=length)
        toy.ask("none", 3, seed=seed, prompts=prompts)
        toy.ask("arm", 2, seed=seed, prompts=prompts, wrong=wrong, wrong_gap=wrong_gap)
        judged = judging.judge(toy.data(), ASKED)
        assert judged is not None
        of = judged.of("arm")
        assert of is not None
        found.append(of.cls)
    told = stats.binomtest(found.count("differs"), studies).proportion_ci(0.95, "exact")
    return {
        "tokens_an_answer": length,
        "wrong_per_token": wrong,
        "wrong_gap_nats": wrong_gap if wrong else None,
        "studies": studies,
        "differs": found.count("differs"),
        "differs_low": told.low,
        "differs_high": told.high,
        "classes": {name: found.count(name) for name in sorted(set(found))},
    }


def main(studies: int) -> None:
    """Honest arms at three kinds of noise, then wrong ones."""
    judging.survival_power = lambda *_, **__: {}  # type: ignore[assignment]  # not looked at here, and slow
    rows = [
        {"noise": name, **classes(studies, 250, gaps, 0.0, 0.0)}
        for name, gaps in (("like bf16", GAPS), ("heavy tail", HEAVY), ("rare and large", RARE))
    ]
    rows += [
        {"noise": "like bf16", **classes(studies, 250, GAPS, wrong, gap)}
        for gap in (2.0, 0.3)
        for wrong in (1 / 10_000, 1 / 3000, 1 / 1000, 1 / 300)
    ]
    print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
