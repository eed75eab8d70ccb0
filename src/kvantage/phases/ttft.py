"""A ladder of first-token times: each document uncached, then from the cache at the first and second repeat.

The first request after boot has a cell of its own: an engine may compile for it.
"""

from __future__ import annotations

import asyncio
from functools import partial

from kvantage.phases.bench import Ask, Bench
from kvantage.phases.chain import ChainPlan, Load
from kvantage.phases.short import TEMPLATE_TOKENS
from kvantage.study import FIRST, Study
from kvantage.workloads.documents import Document, make_document, recall_messages

NAME = "ttft"
REPEATS = 2
"""Times that each document comes again: some engines serve the first repeat and not the second."""


def chains(study: Study) -> list[ChainPlan]:
    """The first request after boot, then one chain a length."""
    ttft = study.phases.ttft
    if ttft is None:
        return []
    shortest = ttft.lengths[0]
    made = [
        ChainPlan(
            f"ttft:first@{shortest}",
            (NAME,),
            (Load(NAME, FIRST, 1, 1, shortest, ttft.output_tokens),),
            run_first,
            after_boot=True,
        )
    ]
    for length in ttft.lengths:
        load = partial(Load, NAME, str(length), concurrency=1, prompt_tokens=length)
        loads = (
            load(waves=ttft.documents, output_tokens=ttft.output_tokens),
            load(waves=REPEATS * ttft.documents, output_tokens=ttft.output_tokens, prompt_is_cached=True),
        )
        made.append(
            ChainPlan(f"ttft@{length}", (NAME,), loads, partial(run, length=length), flush_first=True)
        )
    return made


async def run_first(bench: Bench) -> None:
    """One document of the shortest length; the cell's note says where it was not the first after boot."""
    ttft = bench.study.phases.ttft
    assert ttft is not None
    document = await _document(bench, ttft.lengths[0], FIRST)
    _, high = bench.engine.expected_cached(TEMPLATE_TOKENS, bench.facts)
    ask = Ask(_id(document), recall_messages(document), ttft.output_tokens, expected_cached=(0, high))
    await bench.cell(NAME, FIRST, 1, [ask], notes=_came_before(bench))


def _came_before(bench: Bench) -> tuple[str, ...]:
    """Why a request that leaves now is not the first after boot; nothing where it is."""
    if bench.arm in bench.study.attach:
        return ("not the first after boot: the server ran already",)
    before = bench.client.progress.finished
    return (f"not the first after boot: {before} requests came before it",) if before else ()


async def run(bench: Bench, length: int) -> None:
    """Each document three times in a row, so that a pool which holds one of them is large enough.

    `repeat` is 0 uncached, then 1 and 2; `stream` is the document's number.
    """
    ttft = bench.study.phases.ttft
    assert ttft is not None
    documents = [await _document(bench, length, str(number)) for number in range(ttft.documents)]
    _, high = bench.engine.expected_cached(TEMPLATE_TOKENS, bench.facts)
    asks = [
        Ask(
            prompt_id=_id(document),
            messages=recall_messages(document),
            output_tokens=ttft.output_tokens,
            repeat=turn,
            stream=number,
            expected_cached=(0, high) if turn == 0 else None,
            again=turn > 0,
        )
        for number, document in enumerate(documents)
        for turn in range(1 + REPEATS)
    ]
    await bench.cell(NAME, str(length), 1, asks)


async def _document(bench: Bench, length: int, number: str) -> Document:
    """The same in every arm, and never the same in two requests of a boot but for its own repeats."""
    seed = f"{bench.study.seed}:{bench.boot.block}:{NAME}:{length}:{number}"
    return await asyncio.to_thread(make_document, seed, length, bench.counter, 0)


def _id(document: Document) -> str:
    return f"document:{document.seed}"
