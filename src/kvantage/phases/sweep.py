"""Short prompts in a closed loop: so many in flight at every moment, up to more than the server runs."""

from __future__ import annotations

from functools import partial
from typing import Final

from kvantage.phases.bench import Ask, Bench
from kvantage.phases.chain import ChainPlan, Load
from kvantage.phases.short import TYPICAL_PROMPT_TOKENS, marked, prompts_of, salted, shared_tokens
from kvantage.study import Study
from kvantage.workloads.load import Prompt

NAME: Final = "sweep"


def chains(study: Study) -> list[ChainPlan]:
    """One chain a workload and concurrency."""
    sweep = study.phases.sweep
    if sweep is None:
        return []
    return [
        ChainPlan(
            f"sweep:{workload}@{concurrency}",
            (NAME,),
            (Load(NAME, workload, sweep.rounds, concurrency, TYPICAL_PROMPT_TOKENS, sweep.output_tokens),),
            partial(run, workload=workload, concurrency=concurrency),
            workload,
            flush_first=True,
        )
        for workload in sweep.prompts
        for concurrency in sweep.concurrency
    ]


async def run(bench: Bench, workload: str, concurrency: int) -> None:
    """Keep so many in flight until each place has had its rounds."""
    await bench.cell(NAME, workload, concurrency, asks_of(bench, workload, concurrency), closed=True)


def asks_of(bench: Bench, workload: str, concurrency: int) -> list[Ask]:
    """The requests of one closed loop, in the order of sending."""
    sweep = bench.study.phases.sweep
    assert sweep is not None
    fresh = salted(prompts_of(bench.study, workload, NAME), bench.boot.block)
    prompts = order(fresh, concurrency, sweep.rounds)
    limit = bench.engine.expected_cached(shared_tokens(prompts, bench), bench.facts)
    return [
        Ask(
            prompt_id=prompt.id,
            messages=prompt.messages,
            output_tokens=sweep.output_tokens,
            repeat=place // concurrency,
            stream=place % concurrency,
            expected_cached=(0, limit[1]),
        )
        for place, prompt in enumerate(prompts)
    ]


def order(prompts: list[Prompt], concurrency: int, rounds: int) -> list[Prompt]:
    """The prompts in the order of sending, the same in every arm.

    Each stands behind a mark of its concurrency and its turn, so that none is sent twice in a boot, here
    or in `short`, and none can come from the cache; adding a concurrency changes no other's prompts.
    """
    return [
        marked(prompts[place % len(prompts)], f"{concurrency}.{place // len(prompts) + 1}")
        for place in range(concurrency * rounds)
    ]
