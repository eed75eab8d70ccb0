"""How often the judge calls a server different from itself.

Twenty repeats of the real vLLM without speculation, under load, are one server; every pair of them is judged
as if it were an arm, against three others of them as the control:

    python benchmarks/exactness/false_alarms.py FOLDER ask       one boot: asks, and scores
    python benchmarks/exactness/false_alarms.py FOLDER judge     prints the rate as JSON; no server
"""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np
from benchmarks.exactness.lab import arm, ask, keep, keep_scores, kept, kept_scores, score, serving
from scipy import stats

from kvantage.analysis.exactness.judge import Asked, judge
from kvantage.core import Answer, ExactnessData, Scores
from kvantage.workloads.exactness import exactness_prompts

AT_ONCE = 4
OUTPUT_TOKENS = 256
REPEATS = 20
CONTROLS = 3


async def ask_all(folder: Path) -> None:
    """Ask, then score."""
    async with serving(arm("none"), folder) as server:
        answers = await ask(
            server,
            exactness_prompts(),
            repeats=REPEATS,
            at_once=AT_ONCE,
            output_tokens=OUTPUT_TOKENS,
            boot=0,
        )
        keep(folder / "off.jsonl", answers)
        keep_scores(folder / "scores.jsonl", await score(server, exactness_prompts(), answers, {}))


def alarms(folder: Path) -> dict[str, Any]:
    """All pairs of repeats: how many are called different, and how many part sooner than the control."""
    answers, scores = kept(folder / "off.jsonl"), kept_scores(folder / "scores.jsonl")
    by_repeat = [[each for each in answers if each.repeat == number] for number in range(REPEATS)]
    rng = np.random.default_rng(0)
    classes = []
    for pair in combinations(range(REPEATS), 2):
        others = [number for number in range(REPEATS) if number not in pair]
        chosen = rng.choice(others, size=CONTROLS, replace=False).tolist()
        classes.append(_class([by_repeat[n] for n in pair], [by_repeat[n] for n in chosen], scores))
    total = len(classes)
    same = sum(
        a.token_ids == b.token_ids
        for first, second in combinations(by_repeat, 2)
        for a, b in zip(first, second, strict=True)
    )
    return {
        "repeats": REPEATS,
        "prompts": len(by_repeat[0]),
        "tokens": sum(len(each.token_ids or ()) for each in answers),
        "distinct_answers": len({each.digest for each in answers}),
        "answer_pairs": total * len(by_repeat[0]),
        "answer_pairs_identical": same,
        "pairs_of_repeats_judged": total,
        "called_different": _rate(classes.count("differs"), total),
        "called_near_tie_flips_only": _rate(classes.count("near-tie flips only"), total),
        "classes": {name: classes.count(name) for name in sorted(set(classes))},
    }


def _rate(count: int, total: int) -> dict[str, Any]:
    """With its exact 95 % interval (Clopper and Pearson)."""
    told = stats.binomtest(count, total).proportion_ci(0.95, "exact")
    return {"count": count, "rate": count / total, "low": told.low, "high": told.high}


def _class(on: list[list[Answer]], off: list[list[Answer]], scores: dict[str, Scores]) -> str:
    data = ExactnessData(
        tuple(each for repeat in off for each in repeat)
        + tuple(replace(each, arm="again") for repeat in on for each in repeat),
        scores,
    )
    found = judge(data, Asked("none", ("none", "again"), {}))
    assert found is not None
    of = found.of("again")
    assert of is not None
    return of.cls


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    if sys.argv[2] == "ask":
        asyncio.run(ask_all(folder))
    else:
        print(json.dumps(alarms(folder), indent=1))
