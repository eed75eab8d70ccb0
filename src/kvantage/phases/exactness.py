"""Does speculation change the answers? The same prompts again and again, in every arm, alone and under load.

Every arm answers the set whole several times, once streamed, a few short answers at a temperature, and items
that have one right answer. When all arms are done, the control answers once more on its last boot, and scores
what every arm said, itself included.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from kvantage.core import EXACTNESS, Answer, RequestRecord, ScoringError, StudyError
from kvantage.ledger import read_study
from kvantage.ledger.exactness import NO_SCORES
from kvantage.phases.bench import Ask, Bench
from kvantage.phases.chain import ChainPlan, Load
from kvantage.study import Study
from kvantage.study.paths import locate
from kvantage.study.phases import BUILTIN, Exactness
from kvantage.workloads.documents import Document, recall_messages
from kvantage.workloads.exactness import exactness_prompts, judge_recall, recall_tasks, tasks
from kvantage.workloads.load import Prompt, PromptError, load_prompts
from kvantage.workloads.probes import Judgement, Probe

NAME = EXACTNESS
TYPICAL_PROMPT_TOKENS = 300
SAMPLE_TOKENS = 8
"""Tokens of a sampled answer: the first comes from the prefill, the later ones are drafted and verified."""
TASK_TOKENS = 96
TRIES = 3
"""A server that refuses so many answers and has scored none is asked no more."""


def chains(study: Study) -> list[ChainPlan]:
    """The set at each concurrency, the samples, the tasks; and, when all arms are done, the control again."""
    settings = study.phases.exactness
    if settings is None:
        return []
    number = len(prompts_of(study))
    most = concurrencies(study)[-1]
    made = []
    for concurrency in concurrencies(study):
        load = partial(
            Load,
            NAME,
            concurrency=concurrency,
            prompt_tokens=TYPICAL_PROMPT_TOKENS,
            output_tokens=settings.output_tokens,
        )
        waves = -(-number // concurrency)
        loads: tuple[Load, ...] = (
            load("greedy", waves=waves * settings.repeats),
            load("stream", waves=waves),
        )
        run = partial(run_greedy, concurrency=concurrency)
        made.append(ChainPlan(f"exactness@{concurrency}", (NAME,), loads, run, flush_first=True))
    if settings.samples:
        waves = -(-settings.samples * min(settings.prefixes, number) // most)
        loads = (Load(NAME, "sampling", waves, most, TYPICAL_PROMPT_TOKENS, SAMPLE_TOKENS, True),)
        made.append(ChainPlan(f"exactness:sampling@{most}", (NAME,), loads, run_sampling))
    if settings.tasks:
        waves = -(-settings.tasks * 4 // most)
        loads = (Load(NAME, "tasks", waves, most, TYPICAL_PROMPT_TOKENS, TASK_TOKENS),)
        made.append(ChainPlan(f"exactness:tasks@{most}", (NAME,), loads, run_tasks))
    names = ",".join(map(str, concurrencies(study)))
    across = Load(NAME, "across", -(-number // most), most, TYPICAL_PROMPT_TOKENS, settings.output_tokens)
    # a score costs a prefill of the prompt and the answer: about as much as a request of few tokens
    scoring = Load(
        NAME,
        "scoring",
        number * (len(study.arms) + 1),
        1,
        TYPICAL_PROMPT_TOKENS + settings.output_tokens,
        1,
    )
    made.append(
        ChainPlan(f"closing:exactness@{names}", (NAME,), (across, scoring), run_closing, closing=True)
    )
    return made


def concurrencies(study: Study) -> tuple[int, ...]:
    """One, and the highest: the phase's own, else the study's."""
    settings = study.phases.exactness
    assert settings is not None
    return tuple(sorted({1, settings.concurrency or study.highest_concurrency}))


def prompts_of(study: Study) -> list[Prompt]:
    """The set. Raises StudyError when its file cannot be read."""
    settings = study.phases.exactness
    assert settings is not None
    try:
        if settings.prompts == BUILTIN:
            return exactness_prompts()
        return load_prompts(locate(settings.prompts))
    except PromptError as error:
        raise StudyError(str(error), where=study.where("phases", NAME, "prompts")) from error


def spread(prompts: Sequence[Prompt], number: int) -> list[Prompt]:
    """So many of them, as far apart as they are: a set is in the order of its kinds."""
    number = min(number, len(prompts))
    return [prompts[place * len(prompts) // number] for place in range(number)]


async def run_greedy(bench: Bench, concurrency: int) -> None:
    """The set whole, `repeats` times; then once streamed."""
    settings = _settings(bench)
    prompts = prompts_of(bench.study)
    whole = [
        ask for repeat in range(settings.repeats) for ask in _greedy(prompts, settings, repeat, whole=True)
    ]
    await bench.cell(NAME, "greedy", concurrency, whole, closed=True)
    streamed = _greedy(prompts, settings, settings.repeats, whole=False)
    await bench.cell(NAME, "stream", concurrency, streamed, closed=True)


async def run_sampling(bench: Bench) -> None:
    """Short answers at a temperature, each with a seed of its own: independent in every arm and boot."""
    settings = _settings(bench)
    prompts = spread(prompts_of(bench.study), settings.prefixes)
    asks = [
        Ask(
            prompt_id=prompt.id,
            messages=prompt.messages,
            tools=prompt.tools,
            output_tokens=SAMPLE_TOKENS,
            exact=False,
            repeat=number,
            whole=True,
            temperature=settings.temperature,
            seed=_seed(bench, prompt.id, number),
        )
        for number in range(settings.samples)
        for prompt in prompts
    ]
    await bench.cell(NAME, "sampling", concurrencies(bench.study)[-1], asks, closed=True)


async def run_tasks(bench: Bench) -> None:
    """Every item once, at the highest concurrency, judged exactly."""
    settings = _settings(bench)
    asks = [_task(probe) for probe in tasks(settings.tasks)]
    asks += [_recall(name, document) for name, document in recall_tasks(settings.tasks)]
    await bench.cell(NAME, "tasks", concurrencies(bench.study)[-1], asks, closed=True)


async def run_closing(bench: Bench) -> None:
    """The control once more, after every other boot; then everything that was said is scored by it."""
    settings = _settings(bench)
    prompts = prompts_of(bench.study)
    for concurrency in concurrencies(bench.study):
        asks = _greedy(prompts, settings, 0, whole=True)
        await bench.cell(NAME, "across", concurrency, asks, closed=True)
    held = await asyncio.to_thread(read_study, bench.ledger.folder)
    await score_answers(bench, prompts, held.exactness.answers)


async def score_answers(bench: Bench, prompts: Sequence[Prompt], answers: Sequence[Answer]) -> None:
    """Score each distinct answer once. An event says of how many the server cannot, and why."""
    assert bench.chain is not None
    asked = {prompt.id: prompt for prompt in prompts}
    wanted: dict[str, Answer] = {}
    for answer in answers:
        greedy = answer.kind in ("greedy", "across")
        if greedy and answer.ok and answer.token_ids and answer.prompt_id in asked and answer.digest:
            wanted.setdefault(answer.digest, answer)
    if not wanted:
        bench.ledger.event(NO_SCORES, arm=bench.arm, text="no answer told its token ids: nothing to score")
        return
    refused: list[str] = []
    for place, (digest, answer) in enumerate(wanted.items()):
        prompt = asked[answer.prompt_id]
        assert answer.token_ids is not None
        try:
            scores = await bench.engine.score(bench.server, prompt.messages, prompt.tools, answer.token_ids)
        except ScoringError as error:
            refused.append(error.message)
            if len(refused) == place + 1 == TRIES:
                break  # it cannot, and not only for one answer
            continue
        bench.ledger.add_scores(bench.chain, prompt.id, digest, scores)
    if refused:
        text = f"{len(refused)} of {len(wanted)} answers could not be scored by the control: {refused[0]}"
        bench.ledger.event(NO_SCORES, arm=bench.arm, text=text)
        bench.observer.on("warning", text=text)


def _settings(bench: Bench) -> Exactness:
    settings = bench.study.phases.exactness
    assert settings is not None
    return settings


def _greedy(prompts: Sequence[Prompt], settings: Exactness, repeat: int, *, whole: bool) -> list[Ask]:
    return [
        Ask(
            prompt_id=prompt.id,
            messages=prompt.messages,
            tools=prompt.tools,
            output_tokens=settings.output_tokens,
            exact=False,
            repeat=repeat,
            stream=place,
            whole=whole,
            temperature=0.0,
        )
        for place, prompt in enumerate(prompts)
    ]


def _seed(bench: Bench, prompt_id: str, number: int) -> int:
    salt = f"{bench.study.seed}:{bench.arm}:{bench.boot.id}:{prompt_id}:{number}"
    return int.from_bytes(hashlib.sha256(salt.encode()).digest()[:4], "big") >> 1


def _task(probe: Probe) -> Ask:
    def check(record: RequestRecord) -> Mapping[str, Any]:
        calls = [dict(call) for call in record.tool_calls]
        return _told(probe.judge(record.content, calls, record.finish_reason))

    return Ask(
        prompt_id=probe.id,
        messages=probe.messages,
        output_tokens=TASK_TOKENS,
        exact=False,
        tools=probe.tools,
        check=check,
        whole=True,
        temperature=0.0,
    )


def _recall(name: str, document: Document) -> Ask:
    def check(record: RequestRecord) -> Mapping[str, Any]:
        return _told(judge_recall(document, record.content or record.reasoning))

    return Ask(
        prompt_id=name,
        messages=recall_messages(document),
        output_tokens=TASK_TOKENS,
        exact=False,
        check=check,
        whole=True,
        temperature=0.0,
    )


def _told(said: Judgement) -> dict[str, Any]:
    return {"status": said.status, "why": said.why}
