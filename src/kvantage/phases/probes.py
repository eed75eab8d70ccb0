"""Correctness probes: alone, and again while as many run at once as the study ever has in flight."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import groupby
from typing import Any

from kvantage.core import RequestRecord
from kvantage.phases.bench import Ask, Bench, batched
from kvantage.phases.chain import ChainPlan, Load
from kvantage.study import Study
from kvantage.workloads.probes import Probe, probes
from kvantage.workloads.refusal import unsupported

NAME = "probes"
TYPICAL_PROMPT_TOKENS = 150
TYPICAL_OUTPUT_TOKENS = 40


def chains(study: Study) -> list[ChainPlan]:
    """One chain at concurrency 1, and one at the study's highest where that is more."""
    if study.phases.probes is None:
        return []
    asked = len(probes())
    return [
        ChainPlan(
            f"probes@{concurrency}",
            (NAME,),
            (
                Load(
                    NAME,
                    "all",
                    -(-asked // concurrency),
                    concurrency,
                    TYPICAL_PROMPT_TOKENS,
                    TYPICAL_OUTPUT_TOKENS,
                ),
            ),
            partial(run, concurrency=concurrency),
        )
        for concurrency in sorted({1, study.highest_concurrency})
    ]


async def run(bench: Bench, concurrency: int) -> None:
    """Each kind of probe is a cell; the image is skipped where the model has no eyes."""
    settings = bench.study.phases.probes
    assert settings is not None
    for kind, of_kind in groupby(probes(), key=lambda probe: probe.kind):
        chosen = list(of_kind)
        if kind == "image" and (why := await _no_eyes(bench, chosen[0])):
            bench.ledger.skip(bench.boot.fingerprint, bench.boot.block, NAME, kind, why)
            bench.observer.on(
                "skip", arm=bench.arm, block=bench.boot.block, phase=NAME, workload=kind, reason=why
            )
            continue
        asks = [_ask(probe, settings.output_tokens) for probe in chosen]
        waves = [ask for wave in batched(asks, concurrency) for ask in wave]
        await bench.cell(NAME, kind, concurrency, waves)


def _ask(probe: Probe, output_tokens: int) -> Ask:
    def check(record: RequestRecord) -> Mapping[str, Any]:
        calls = [dict(call) for call in record.tool_calls]
        said = probe.judge(record.content, calls, record.finish_reason)
        answer = calls or record.content
        return {"status": said.status, "why": said.why, "answer": answer}

    return Ask(
        prompt_id=probe.id,
        messages=probe.messages,
        output_tokens=output_tokens,
        exact=False,
        tools=probe.tools,
        check=check,
    )


async def _no_eyes(bench: Bench, probe: Probe) -> str | None:
    """The server's own words when it refuses an image, None when it takes one."""
    exchange = await bench.client.stream(bench.request(_ask(probe, 1)))
    if exchange.http_status is None or exchange.http_status < 400:
        return None
    try:
        said = exchange.json()
        error = said.get("error", said)
        words = str(error.get("message", error) if isinstance(error, dict) else error)
    except (ValueError, AttributeError):
        words = exchange.text
    if not unsupported("image", exchange.http_status, words):
        return None
    return f"the model has no eyes: the server refuses an image ({words.strip()[:200]})"
