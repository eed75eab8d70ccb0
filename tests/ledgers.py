"""Ledgers of a known truth, written through the real ledger: for what reads runs."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from kvantage.core import ArmSettings, CellKey, CounterDelta, Facts, Reading, RequestRecord, Speculation
from kvantage.core.record import ChunkTimes, RequestKey
from kvantage.ledger import Ledger

SECOND = 1_000_000_000
STUDY: dict[str, Any] = {
    "model": {"path": "org/toy", "revision": None},
    "engine": {"name": "toy"},
    "control": {"arm": "none"},
    "phases": {
        "short": {
            "prompts": {"code": "builtin"},
            "warmup": 0,
            "repeats": 3,
            "output_tokens": 65,
        }
    },
    "policy": None,
}
ARMS = (
    ArmSettings(name="none", engine="toy", model="org/toy"),
    ArmSettings(name="mtp", engine="toy", model="org/toy", speculation=Speculation(method="mtp", drafts=3)),
)


def write_run(
    folder: Path,
    gains: Mapping[str, float],
    boots: int = 3,
    sd_boot: float = 0.005,
    sd_request: float = 0.01,
    seed: int = 1,
    version: str = "1.0",
    study: Mapping[str, Any] | None = None,
    pools: Mapping[str, float] | None = None,
    hardware: str = "a machine",
) -> Path:
    """A study of `boots` boots in which the arms run at `gains` times 20 tok/s. Each boot is off by `sd_boot`
    and each request by `sd_request`, of the logarithm. Prompts differ in speed, alike in every run.
    """
    rng = np.random.default_rng(seed)
    declared = {**STUDY, **(study or {})}
    with Ledger.create(folder) as ledger:
        arms = [arm for arm in ARMS if arm.name in gains]
        ledger.begin(declared, "none", arms, {"short": "work"}, "0.1.0")
        for block in range(boots):
            for arm in arms:
                boot = ledger.open_boot(
                    arm, block, {"versions": {"toy": version}, "hardware": {"gpu": hardware}}
                )
                pool = (pools or {}).get(arm.name, 9000.0)
                facts = Facts(
                    "toy", version, {"kv_pool_tokens": Reading.of(pool, "tokens", "log window")}, {}, {}
                )
                ledger.boot_ready(boot, facts, 12.5)
                chain = ledger.open_chain(boot, "short:code", "work")
                rate = 20 * gains[arm.name] * math.exp(rng.normal(0, sd_boot))
                records = [
                    _record(arm, block, place, rate * (1 + 0.1 * place) * math.exp(rng.normal(0, sd_request)))
                    for place in range(declared["phases"]["short"]["repeats"])
                ]
                for record in records:
                    ledger.add_request(chain, record)
                drafting = arm.speculation.on
                counters = {
                    "requests_finished": len(records),
                    "prompt_tokens": 100.0 * len(records),
                    "generation_tokens": 65.0 * len(records),
                    "preemptions": 0.0,
                }
                if drafting:
                    counters |= {
                        "accepted_tokens": 38.0 * len(records),
                        "drafted_tokens": 78.0 * len(records),
                    }
                    counters["drafts"] = 26.0 * len(records)
                ledger.add_window(
                    chain,
                    CellKey(arm.name, block, "short", "code", 1),
                    0,
                    SECOND,
                    delta=CounterDelta(1.0, counters, None),
                )
                ledger.chain_complete(chain)
                ledger.boot_ok(boot)
    return folder


def _record(arm: ArmSettings, block: int, place: int, rate: float) -> RequestRecord:
    start = 10 * place * SECOND
    first = start + SECOND // 5
    # a chunk a step: the first has the token of prefill, the others 2 or 3 where the arm drafts
    sizes = [1, *([1] * 64 if not arm.speculation.on else [3] * 12 + [2] * 14)]
    done = np.cumsum([0, *sizes[1:]])
    times = [first + round(each / rate * SECOND) for each in done]
    drafting = arm.speculation.on
    return RequestRecord(
        key=RequestKey(
            arm.name,
            arm.fingerprint(),
            block,
            "short",
            "code",
            1,
            "short:code",
            0,
            place,
            0,
            f"code-{place}",
        ),
        status="ok",
        intended_ns=start,
        sent_ns=start,
        end_ns=times[-1],
        first_ns=first,
        first_content_ns=first,
        chunks=ChunkTimes(array("q", times), array("i", sizes)),
        prompt_tokens=100,
        output_tokens=65,
        cached_tokens=0,
        accepted_tokens=38 if drafting else None,
        drafted_tokens=78 if drafting else None,
        spec_steps=26 if drafting else None,
        expected_cached=(0, 16),
        finish_reason="length",
        content="an answer",
    )
