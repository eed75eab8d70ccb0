"""Synthetic studies with a known truth: every request's times follow from a rate that is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from kvantage.core import ArmSettings, CellKey, CounterDelta, Facts, LogReadings, Reading, Speculation
from kvantage.core.columns import BootRow, CellWindow, RequestColumns, SkippedPhase, StudyData

SECOND = 1_000_000_000

STUDY: dict[str, Any] = {
    "model": {"path": "package:nano/toy", "revision": None},
    "engine": {"name": "toy"},
    "control": {"arm": "none"},
    "phases": {
        "probes": {"output_tokens": 128},
        "short": {
            "prompts": {"code": "builtin", "prose": "builtin"},
            "warmup": 1,
            "repeats": 3,
            "output_tokens": 65,
        },
        "cold": {"document_tokens": 2000, "concurrency": [1, 2, 4], "output_tokens": 33},
        "repeat": {"output_tokens": 65},
    },
    "policy": {
        "maximise": {
            "metric": "decode_tok_s",
            "phase": "short",
            "workload": "code",
            "concurrency": None,
        },
        "min_sessions": {"count": 4, "tokens": 2065},
    },
}


@dataclass
class Request:
    """One request with its truth: `rate` tokens a second after a first chunk of `block` tokens."""

    rate: float = 20.0
    output: int | None = 65
    block: int = 1
    ttft_s: float = 0.2
    sent_s: float = 0.0
    prompt: int | None = 100
    cached: int | None = 0
    expected: tuple[int, int] | None = (0, 16)
    prompt_id: str = "p"
    repeat: int = 0
    stream: int = 0
    warmup: bool = False
    ok: bool = True
    error: str = ""
    told: bool = True
    accepted: int | None = None
    drafted: int | None = None
    steps: int | None = None
    histogram: tuple[int, ...] | None = None
    queue_s: float | None = None
    retractions: int | None = None
    lag_s: float = 0.0
    content: str = "an answer"
    finish: str = "length"
    checks: Mapping[str, Any] = field(default_factory=dict)
    sizes: tuple[int, ...] | None = None

    @property
    def chunks(self) -> list[int]:
        """Tokens of each chunk: as given, else in blocks."""
        if self.sizes is not None:
            return list(self.sizes)
        left, sizes = self.output or 0, []
        while left > 0:
            sizes.append(min(self.block, left))
            left -= sizes[-1]
        return sizes


class StudyBuilder:
    """Collects arms, boots, cells and requests, then makes the StudyData."""

    def __init__(self, study: Mapping[str, Any] | None = None, control: str = "none") -> None:
        self.study = dict(STUDY if study is None else study)
        self.control = control
        self.arms: list[ArmSettings] = []
        self.boots: list[BootRow] = []
        self.windows: list[CellWindow] = []
        self.rows: list[tuple[CellKey, str, int, Request]] = []
        self.skipped: list[SkippedPhase] = []
        self.simulated = False

    def arm(
        self,
        name: str,
        speculation: Speculation | None = None,
        pool: float | None = 9000,
        block: int = 0,
        status: str = "ok",
        reason: str | None = None,
        log_lines: tuple[str, ...] = (),
        facts: Mapping[str, float] | None = None,
        resolved: Mapping[str, Any] | None = None,
        told: Mapping[str, Any] | None = None,
    ) -> StudyBuilder:
        """An arm with one boot; call again with another block for another boot."""
        settings = ArmSettings(name=name, engine="toy", model="toy", speculation=speculation or Speculation())
        if all(arm.name != name for arm in self.arms):
            self.arms.append(settings)
        readings = {
            "kv_block_tokens": Reading.of(16, "tokens", "config"),
            "context_length": Reading.of(4096, "tokens", "config"),
            "effective_max_running": Reading.of(4, "requests", "config"),
        }
        if pool is not None:
            readings["kv_pool_tokens"] = Reading.of(pool, "tokens", "log window")
            readings["kv_pool_bytes"] = Reading.of(pool * 1024, "bytes", "log window")
        for key, value in (facts or {}).items():
            readings[key] = Reading.of(value, "tokens", "config")
        self.boots.append(
            BootRow(
                arm=name,
                fingerprint=settings.fingerprint(),
                block=block,
                status=status,  # type: ignore[arg-type]
                started_at=f"2026-11-30T0{block}:00:00Z",
                ready_s=12.5 if status == "ok" else None,
                reason=reason,
                log_lines=log_lines,
                facts=(
                    Facts("toy", "1.0", readings, dict(resolved or {}), dict(told or {}))
                    if status == "ok"
                    else None
                ),
                provenance={"command": ["toy", "serve"]},
            )
        )
        return self

    def cell(
        self,
        arm: str,
        phase: str,
        workload: str,
        concurrency: int,
        requests: Sequence[Request],
        block: int = 0,
        chain: str | None = None,
        attempt: int = 0,
        complete: bool = True,
        counters: Mapping[str, float] | None = None,
        positions: tuple[float, ...] | None = None,
        log: LogReadings | None = None,
        **gauges: Any,
    ) -> StudyBuilder:
        """A cell's window with its requests. Counters that are not given move by the requests' own."""
        key = CellKey(arm, block, phase, workload, concurrency)
        name = chain or f"{phase}:{workload}@{concurrency}"
        own: dict[str, float] = {
            "requests_finished": len(requests),
            "prompt_tokens": sum(each.prompt or 0 for each in requests),
            "generation_tokens": sum(each.output or 0 for each in requests),
            "preemptions": 0,
        }
        self.windows.append(
            CellWindow(
                key=key,
                chain=name,
                attempt=attempt,
                started_ns=0,
                ended_ns=SECOND,
                complete=complete,
                delta=CounterDelta(1.0, {**own, **(counters or {})}, positions),
                log=log,
                measured_at=f"2026-11-30T0{block}:10:00Z",
                **gauges,
            )
        )
        self.rows += [(key, name, attempt, each) for each in requests]
        return self

    def data(self) -> StudyData:
        """The study."""
        return StudyData(
            study=self.study,
            control=self.control,
            arms=tuple(self.arms),
            boots=tuple(self.boots),
            windows=tuple(self.windows),
            requests=self._columns(),
            skipped=tuple(self.skipped),
            simulated=self.simulated,
            kvantage_version="0.1.0",
        )

    def _columns(self) -> RequestColumns:
        keys = [key for key, _, _, _ in self.rows]
        all_of = [request for _, _, _, request in self.rows]
        fingerprints = {arm.name: arm.fingerprint() for arm in self.arms}
        sizes = [request.chunks for request in all_of]
        offsets = np.concatenate(([0], np.cumsum([len(each) for each in sizes]))).astype(np.int64)
        times = [_chunk_times(request, each) for request, each in zip(all_of, sizes, strict=True)]
        sent = [_ns(request.sent_s) for request in all_of]
        first = [each[0] if each else -1 for each in times]
        end = [each[-1] if each else start + SECOND for each, start in zip(times, sent, strict=True)]

        def ints(values: Sequence[int]) -> Any:
            return np.array(values, dtype=np.int64)

        def floats(name: str) -> Any:
            values = [getattr(request, name) for request in all_of]
            return np.array([np.nan if value is None else value for value in values], dtype=np.float64)

        def strings(values: Sequence[str]) -> Any:
            return np.array(list(values), dtype=np.str_) if values else np.empty(0, dtype="U1")

        expected = [request.expected or (np.nan, np.nan) for request in all_of]
        return RequestColumns(
            arm=strings([key.arm for key in keys]),
            fingerprint=strings([fingerprints[key.arm] for key in keys]),
            block=ints([key.block for key in keys]),
            phase=strings([key.phase for key in keys]),
            workload=strings([key.workload for key in keys]),
            concurrency=ints([key.concurrency for key in keys]),
            chain=strings([chain for _, chain, _, _ in self.rows]),
            attempt=ints([attempt for _, _, attempt, _ in self.rows]),
            repeat=ints([request.repeat for request in all_of]),
            stream=ints([request.stream for request in all_of]),
            prompt_id=strings([request.prompt_id for request in all_of]),
            warmup=np.array([request.warmup for request in all_of], dtype=np.bool_),
            ok=np.array([request.ok for request in all_of], dtype=np.bool_),
            error=strings([request.error for request in all_of]),
            finish_reason=strings([request.finish for request in all_of]),
            intended_ns=ints(sent),
            sent_ns=ints(sent),
            first_ns=ints(first),
            first_content_ns=ints(first),
            end_ns=ints(end),
            prompt_tokens=floats("prompt"),
            output_tokens=floats("output"),
            reasoning_tokens=np.full(len(all_of), np.nan),
            cached_tokens=floats("cached"),
            accepted_tokens=floats("accepted"),
            drafted_tokens=floats("drafted"),
            spec_steps=floats("steps"),
            queue_s=floats("queue_s"),
            retractions=floats("retractions"),
            expected_low=np.array([low for low, _ in expected], dtype=np.float64),
            expected_high=np.array([high for _, high in expected], dtype=np.float64),
            client_lag_ns=ints([_ns(request.lag_s) for request in all_of]),
            chunk_offsets=offsets,
            chunk_ns=ints([moment for each in times for moment in each]),
            chunk_tokens=ints(
                [
                    size if request.told else -1
                    for request, each in zip(all_of, sizes, strict=True)
                    for size in each
                ]
            ),
            histograms=tuple(request.histogram for request in all_of),
            content=tuple(request.content for request in all_of),
            reasoning=tuple("" for _ in all_of),
            checks=tuple(request.checks for request in all_of),
        )


def _ns(seconds: float) -> int:
    return round(seconds * SECOND)


def _chunk_times(request: Request, sizes: Sequence[int]) -> list[int]:
    """The first chunk at the TTFT, each later one when its last token is due at the rate."""
    start, done, times = request.sent_s + request.ttft_s, 0, []
    for place, size in enumerate(sizes):
        done += size if place else 0
        times.append(_ns(start + done / request.rate))
    return times


def short(rates: Sequence[float], prefix: str = "code", **common: Any) -> list[Request]:
    """A warm-up, then one request a rate, one after another, each with a prompt of its own."""
    made, clock = [], 0.0
    for place, rate in enumerate((rates[0] / 2, *rates)):
        request = Request(
            rate=rate,
            sent_s=clock,
            prompt_id=f"{prefix}-{place}",
            repeat=max(place - 1, 0),
            warmup=place == 0,
        )
        request = replace(request, **common)
        made.append(request)
        clock += request.ttft_s + (request.output or 0) / rate + 0.1
    return made


def wave(
    rate: float,
    concurrency: int,
    output: int,
    cached: int = 0,
    expected: tuple[int, int] = (0, 16),
    prompt: int = 2000,
    repeat: int = 0,
    **common: Any,
) -> list[Request]:
    """One wave of documents, all sent at once, each user at `rate`."""
    request = Request(rate=rate, output=output, prompt=prompt, cached=cached, expected=expected)
    return [
        replace(
            request,
            prompt_id=f"doc-{concurrency}-{repeat}-{stream}",
            stream=stream,
            repeat=repeat,
            **common,
        )
        for stream in range(concurrency)
    ]


def drafting(requests: Sequence[Request], drafts: int, length: float) -> list[Request]:
    """The same requests by a drafter of k `drafts`: about `length` tokens a step, told per request.

    The chunks carry the steps: the first has the token of prefill alone.
    """
    made = []
    for request in requests:
        after = (request.output or 0) - 1
        steps = max(1, round(after / length))
        small, wide = divmod(after, steps)
        sizes = (1, *(small + (place < wide) for place in range(steps)))
        made.append(
            replace(
                request,
                steps=steps,
                accepted=after - steps,
                drafted=steps * drafts,
                sizes=sizes,
                told=request.told,
            )
        )
    return made


def two_arms(study: Mapping[str, Any] | None = None) -> StudyBuilder:
    """A control at 20 tok/s with 9,000 tokens of pool; `mtp` at 30 on code, 18 on prose, with 8,000."""
    builder = StudyBuilder(study)
    builder.arm("none").arm("mtp", Speculation(method="mtp", drafts=3), pool=8500)
    code, prose = [20.0, 20.2, 19.8], [20.0, 20.1, 19.9]
    for arm, by, less in (("none", 1.0, 1.0), ("mtp", 1.5, 0.9)):

        def made(requests: list[Request], arm: str = arm) -> list[Request]:
            return requests if arm == "none" else drafting(requests, 3, 2.5)

        jitter = (1.0, 1.01, 0.99) if arm == "mtp" else (1.0, 1.0, 1.0)
        builder.cell(
            arm,
            "short",
            "code",
            1,
            made(short([rate * by * j for rate, j in zip(code, jitter, strict=True)])),
        )
        builder.cell(
            arm,
            "short",
            "prose",
            1,
            made(short([rate * less * j for rate, j in zip(prose, jitter, strict=True)], "prose")),
        )
        for concurrency in (1, 2, 4):
            chain = f"waves@{concurrency}"
            builder.cell(
                arm,
                "cold",
                "documents",
                concurrency,
                made(wave(15.0 * by, concurrency, 33, checks={"recall": {"a": True, "b": concurrency < 4}})),
                chain=chain,
            )
            evicted = arm == "mtp" and concurrency == 4
            builder.cell(
                arm,
                "repeat",
                "documents",
                concurrency,
                made(
                    wave(
                        16.0 * by,
                        concurrency,
                        65,
                        cached=0 if evicted else 1984,
                        expected=(1968, 1984),
                        prompt=2100 if evicted else 2000,
                    )
                ),
                chain=chain,
            )
        for concurrency in (1, 4):
            builder.cell(
                arm,
                "probes",
                "arithmetic",
                concurrency,
                [
                    Request(
                        prompt_id=f"arithmetic-{n}",
                        output=3,
                        checks={
                            "status": "pass" if n or arm == "none" else "fail",
                            "why": "42" if n or arm == "none" else "41 instead of 42",
                            "answer": "42" if n or arm == "none" else "41",
                        },
                    )
                    for n in range(2)
                ],
            )
    return builder
