"""How often a drafter with a wrong acceptance rule is caught, by its rate of wrong tokens.

On the real vLLM, whose verification is made to accept a refused draft now and then
(tests/real/wrong_drafts). Two boots; what they said is kept in a folder:

    python benchmarks/exactness/detection.py FOLDER wrong 0.0003 0.001 0.003    a drafter with these rates
    python benchmarks/exactness/detection.py FOLDER control                     answers, and scores all
    python benchmarks/exactness/detection.py FOLDER judge                       the curve as JSON; no server

A study is two answers to each of the twenty shipped prompts, as the phase asks; a rate gives several, each
judged on its own against the same control.
"""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.exactness.lab import arm, ask, keep, keep_scores, kept, kept_scores, score, serving, wrong_env

from kvantage.analysis.exactness.judge import Asked, judge
from kvantage.core import Answer, ExactnessData
from kvantage.workloads.exactness import exactness_prompts

AT_ONCE = 4
OUTPUT_TOKENS = 400
CONTROL_REPEATS = 3
STUDIES = 4
REPEATS = 2


async def wrong(folder: Path, rates: list[float]) -> None:
    """The answers of a drafter with so many wrong tokens for each token; rate 0 is an honest one."""
    log, said = folder / "wrong.log", folder / "rate"
    said.write_text("0")
    env = wrong_env(str(said.resolve()), 1, log.resolve())
    async with serving(arm("wrong", env), folder) as server:
        for rate in rates:
            if (folder / f"wrong-{rate:g}.jsonl").exists():
                continue  # asked already
            log.unlink(missing_ok=True)
            said.write_text(str(rate))
            answers = await ask(
                server,
                exactness_prompts(),
                repeats=STUDIES * REPEATS,
                at_once=AT_ONCE,
                output_tokens=OUTPUT_TOKENS,
                boot=1,
            )
            keep(folder / f"wrong-{rate:g}.jsonl", answers)
            made = log.read_text().count("\n") if log.exists() else 0
            (folder / f"wrong-{rate:g}.made").write_text(str(made))


async def control(folder: Path) -> None:
    """The control's answers, and every distinct answer scored by it."""
    held = kept_scores(folder / "scores.jsonl")
    async with serving(arm("none"), folder) as server:
        if not (folder / "none.jsonl").exists():
            answers = await ask(
                server,
                exactness_prompts(),
                repeats=CONTROL_REPEATS,
                at_once=AT_ONCE,
                output_tokens=OUTPUT_TOKENS,
                boot=0,
            )
            keep(folder / "none.jsonl", answers)
        for path in [folder / "none.jsonl", *sorted(folder.glob("wrong-*.jsonl"))]:
            await score(server, exactness_prompts(), kept(path), held)
            keep_scores(folder / "scores.jsonl", held)


def curve(folder: Path) -> list[dict[str, Any]]:
    """A row a rate: studies, how many were called different, and what they rest on."""
    scores, off = kept_scores(folder / "scores.jsonl"), kept(folder / "none.jsonl")
    rows = []
    for path in sorted(folder.glob("wrong-*.jsonl")):
        answers = kept(path)
        rate = float(path.stem.removeprefix("wrong-"))
        told = int(path.with_suffix(".made").read_text())
        tokens = sum(len(each.token_ids or ()) for each in answers)
        classes, structural = [], []
        for number in range(STUDIES):
            mine = [
                replace(each, repeat=each.repeat % REPEATS)
                for each in answers
                if each.repeat // REPEATS == number
            ]
            found = verdict(off, mine, scores)
            classes.append(found["class"])
            structural.append(found["structural"])
        rows.append(
            {
                "wrong_per_token_asked": rate,
                "wrong_tokens": told,
                "tokens": tokens,
                "wrong_per_token_made": told / tokens,
                "tokens_a_study": tokens // STUDIES,
                "studies": STUDIES,
                "called_different": classes.count("differs"),
                "classes": classes,
                "structural_tokens": structural,
            }
        )
    return rows


def verdict(off: list[Answer], mine: list[Answer], scores: dict[str, Any]) -> dict[str, Any]:
    """The class of one study, and its structural tokens."""
    name = mine[0].arm
    data = ExactnessData(tuple(off) + tuple(mine), scores)
    found = judge(data, Asked("none", ("none", name), {name: True}))
    assert found is not None
    of = found.of(name)
    assert of is not None
    gaps = of.at[0].gaps
    return {"class": of.cls, "words": of.words, "structural": gaps.structural if gaps else None}


def main(words: list[str]) -> None:
    """See above."""
    folder, stage = Path(words[0]), words[1]
    folder.mkdir(parents=True, exist_ok=True)
    if stage == "control":
        asyncio.run(control(folder))
    elif stage == "wrong":
        asyncio.run(wrong(folder, [float(word) for word in words[2:]]))
    else:
        print(json.dumps(curve(folder), indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])
