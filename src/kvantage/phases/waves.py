"""Cold waves of distinct long documents, and the same waves again with the cache warm.

For each concurrency its cold wave is followed by its repeat: the two are one chain.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import lru_cache, partial
from typing import Any

from kvantage.core import RequestRecord
from kvantage.phases.bench import Ask, Bench
from kvantage.phases.chain import ChainPlan, Load
from kvantage.phases.short import TEMPLATE_TOKENS
from kvantage.study import Study
from kvantage.study.phases import DOCUMENTS
from kvantage.workloads.documents import Count, Document, check_recall, make_document, recall_messages

COLD = "cold"
REPEAT = "repeat"


def chains(study: Study) -> list[ChainPlan]:
    """One chain a concurrency: its cold waves, each with its repeat."""
    cold, repeat = study.phases.cold, study.phases.repeat
    if cold is None:
        return []
    made = []
    for concurrency in cold.concurrency:
        load = partial(
            Load,
            workload=DOCUMENTS,
            waves=cold.waves,
            concurrency=concurrency,
            prompt_tokens=cold.document_tokens,
        )
        loads = [load(phase=COLD, output_tokens=cold.output_tokens)]
        if repeat is not None:
            loads.append(load(phase=REPEAT, output_tokens=repeat.output_tokens, prompt_is_cached=True))
        made.append(
            ChainPlan(
                f"waves@{concurrency}",
                (COLD, REPEAT) if repeat is not None else (COLD,),
                tuple(loads),
                partial(run, concurrency=concurrency),
                flush_first=True,
            )
        )
    return made


async def run(bench: Bench, concurrency: int) -> None:
    """The cold waves at this concurrency, then the same requests again with longer answers."""
    cold, repeat = bench.study.phases.cold, bench.study.phases.repeat
    assert cold is not None
    documents = [
        await asyncio.to_thread(document_of, bench.study, bench.counter, *place)
        for place in places(bench.boot.block, concurrency, cold.waves)
    ]
    _, high = bench.engine.expected_cached(TEMPLATE_TOKENS, bench.facts)
    records = await bench.cell(
        COLD,
        DOCUMENTS,
        concurrency,
        [
            _ask(document, place, cold.output_tokens, (0, high))
            for place, document in _placed(documents, concurrency)
        ],
    )
    if repeat is None:
        return
    await bench.cell(
        REPEAT,
        DOCUMENTS,
        concurrency,
        [
            _ask(document, place, repeat.output_tokens, _expected(bench, first))
            for (place, document), first in zip(_placed(documents, concurrency), records, strict=True)
        ],
    )


def places(block: int, concurrency: int, waves: int) -> list[tuple[int, int, int, int]]:
    """(block, concurrency, wave, stream) of every document of a chain: what its seed is salted with."""
    return [(block, concurrency, wave, stream) for wave in range(waves) for stream in range(concurrency)]


def document_of(study: Study, count: Count, block: int, concurrency: int, wave: int, stream: int) -> Document:
    """The document of one request: the same in every arm, and never the same in two requests."""
    cold = study.phases.cold
    assert cold is not None
    seed = f"{study.seed}:{block}:{concurrency}:{wave}:{stream}"
    return _made(seed, cold.document_tokens, count, cold.secrets)


@lru_cache(maxsize=64)
def _made(seed: str, tokens: int, count: Count, secrets: int) -> Document:
    return make_document(seed, tokens, count, secrets)


def _placed(documents: list[Document], concurrency: int) -> list[tuple[tuple[int, int], Document]]:
    return [(divmod(index, concurrency), document) for index, document in enumerate(documents)]


def _ask(
    document: Document, place: tuple[int, int], output_tokens: int, expected: tuple[int, int] | None
) -> Ask:
    wave, stream = place

    def check(record: RequestRecord) -> Mapping[str, Any]:
        return {"recall": check_recall(document, record.content or record.reasoning)}

    return Ask(
        prompt_id=f"document:{document.seed}",
        messages=recall_messages(document),
        output_tokens=output_tokens,
        repeat=wave,
        stream=stream,
        expected_cached=expected,
        check=check,
    )


def _expected(bench: Bench, first: RequestRecord) -> tuple[int, int] | None:
    """What a sound cache that still holds the whole prompt serves of it; None when its length is unknown."""
    if first.prompt_tokens is None:
        return None
    return bench.engine.expected_cached(first.prompt_tokens, bench.facts)
