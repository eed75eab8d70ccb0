"""A short look at the control when other arms are measured later: has the machine drifted meanwhile?"""

from __future__ import annotations

import time
from functools import partial

from kvantage.phases.bench import Bench
from kvantage.phases.chain import ChainPlan, Load
from kvantage.phases.short import TYPICAL_PROMPT_TOKENS, asks_of
from kvantage.study import Study

NAME = "recheck"


def plan(study: Study) -> ChainPlan | None:
    """The first workload of `short` once more; None where the study has no short prompts.

    Its chain bears the session's time, so that each session has its own.
    """
    short = study.phases.short
    if short is None:
        return None
    workload = next(iter(short.prompts))
    session = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    load = Load(NAME, workload, short.warmup + short.repeats, 1, TYPICAL_PROMPT_TOKENS, short.output_tokens)
    return ChainPlan(f"recheck:{session}", ("short",), (load,), partial(run, workload=workload), workload)


async def run(bench: Bench, workload: str) -> None:
    """The same prompts as in `short`, so that each is compared with itself."""
    await bench.cell(NAME, workload, 1, asks_of(bench, workload))
