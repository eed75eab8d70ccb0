"""Short prompts, one at a time: warm-ups, then measured repeats of an exact output length."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Final, Literal

from kvantage.core import StudyError
from kvantage.phases.bench import Ask, Bench
from kvantage.phases.chain import ChainPlan, Load
from kvantage.phases.mark import behind
from kvantage.study import Study
from kvantage.study.paths import locate
from kvantage.study.phases import BUILTIN
from kvantage.workloads.load import Prompt, PromptError, load_prompts, shipped_prompts

NAME: Final = "short"
TYPICAL_PROMPT_TOKENS = 120


def chains(study: Study) -> list[ChainPlan]:
    """One chain a workload."""
    short = study.phases.short
    if short is None:
        return []
    return [
        ChainPlan(
            f"short:{workload}",
            (NAME,),
            (
                Load(
                    NAME,
                    workload,
                    short.warmup + short.repeats,
                    1,
                    TYPICAL_PROMPT_TOKENS,
                    short.output_tokens,
                ),
            ),
            partial(run, workload=workload),
            workload,
        )
        for workload in short.prompts
    ]


async def run(bench: Bench, workload: str) -> None:
    """Warm up, then measure."""
    await bench.cell(NAME, workload, 1, asks_of(bench, workload))


def asks_of(bench: Bench, workload: str) -> list[Ask]:
    """The warm-ups and the measured repeats of a workload, in the order of sending."""
    short = bench.study.phases.short
    assert short is not None
    prompts = salted(prompts_of(bench.study, workload), bench.boot.block)
    limit = bench.engine.expected_cached(shared_tokens(prompts, bench), bench.facts)
    return [
        Ask(
            prompt_id=prompt.id,
            messages=prompt.messages,
            output_tokens=short.output_tokens,
            repeat=turn if warmup else turn - short.warmup,
            warmup=warmup,
            expected_cached=(0, limit[1]),
        )
        for turn, (prompt, warmup) in enumerate(order(prompts, short.warmup, short.repeats))
    ]


def order(prompts: list[Prompt], warmup: int, repeats: int) -> list[tuple[Prompt, bool]]:
    """(prompt, is a warm-up) in the order of sending, the same in every arm.

    Measured repeats take the set's prompts from the front, warm-ups from its end, so that no prompt is
    sent twice and none can come from the cache. Where the set is too small for that, a prompt comes again
    behind a line that makes it another text from its first token on.
    """
    measured = [(_again(prompts[i % len(prompts)], i // len(prompts)), False) for i in range(repeats)]
    warm = []
    for i in range(warmup):
        used = repeats // len(prompts) + 1 + i // len(prompts)
        fresh = repeats + i < len(prompts)
        warm.append((_again(prompts[-1 - i % len(prompts)], 0 if fresh else used), True))
    return warm + measured


def salted(prompts: list[Prompt], block: int) -> list[Prompt]:
    """Prompts that no earlier boot was sent: behind a mark of their block, from the second on.

    Their names stay, so that a prompt is compared with itself over the boots.
    """
    return [replace(marked(prompt, f"b{block}"), id=prompt.id) for prompt in prompts] if block else prompts


def _again(prompt: Prompt, times: int) -> Prompt:
    return marked(prompt, str(times + 1)) if times else prompt


def marked(prompt: Prompt, mark: str) -> Prompt:
    """The prompt behind a mark that makes it another text from its first token on."""
    return Prompt(f"{prompt.id}#{mark}", behind(prompt.messages, mark), prompt.expected)


def prompts_of(study: Study, workload: str, phase: Literal["short", "sweep"] = NAME) -> list[Prompt]:
    """The prompts of a workload of the study. Raises StudyError when its file cannot be read."""
    settings = study.phases.short if phase == "short" else study.phases.sweep
    assert settings is not None
    source = settings.prompts[workload]
    try:
        return shipped_prompts(workload) if source == BUILTIN else load_prompts(locate(source))
    except PromptError as error:
        raise StudyError(str(error), where=study.where("phases", phase, "prompts", workload)) from error


def shared_tokens(prompts: list[Prompt], bench: Bench) -> int:
    """At most so many tokens at the start of two prompts can be the same: the template's and the text's."""
    texts = sorted(str(prompt.messages[0].get("content", "")) for prompt in prompts)
    shared = max((_common(a, b) for a, b in pairwise(texts)), default=0)
    return bench.counter(texts[0][:shared]) + TEMPLATE_TOKENS if texts else TEMPLATE_TOKENS


TEMPLATE_TOKENS = 64
"""More than a chat template puts before the first message (without a system text of its own)."""


def _common(a: str, b: str) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
