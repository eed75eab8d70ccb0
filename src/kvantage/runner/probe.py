"""A minute on a running server: what it is, whether it drafts and caches, whether it answers rightly.

One request at a time, each with a text of its own, so that the server is not loaded and its cache not misled.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from kvantage.client import ChatRequest, Client, read_exchange
from kvantage.client.stream import StreamReading
from kvantage.core import ArmFailed, ArmSettings, Engine, Reading, Samplers, Server, Usage, UsageError
from kvantage.core.arm import ALLOW_SIMULATED
from kvantage.engines import engine_named
from kvantage.engines.openai.advice import Lacks, advice
from kvantage.engines.simulated import refusal
from kvantage.runner.seen import Seen, lines_of, see
from kvantage.study.study import ATTACHED
from kvantage.workloads.load import shipped_prompts
from kvantage.workloads.probes import Probe, probes
from kvantage.workloads.refusal import unsupported

BUDGET_S = 60.0
SETS = ("code", "prose")
PROMPTS = 2
OUTPUT_TOKENS = 96
PROBE_TOKENS = 256
EACH_KIND = 2
REPEATED_CHARACTERS = 4000
READINGS = (
    "kv_pool_tokens",
    "kv_pool_bytes",
    "draft_kv_pool_bytes",
    "state_cache_bytes",
    "kv_block_tokens",
    "context_length",
    "effective_max_running",
    "requested_max_running",
)
"""Facts that are shown, by their names in `core.Facts`."""


@dataclass(frozen=True)
class ProbeCount:
    """How many probes of a kind were right. `why` says why one was not asked, or is void.

    `supported` is False where the server refuses the kind as such: then none was asked.
    """

    kind: str
    passed: int
    asked: int
    why: str | None = None
    supported: bool = True


@dataclass(frozen=True)
class Probed:
    """What the minute showed. `drafting`: on and counted, or off; None where it cannot be told.

    `simulated` says what makes its acceptance up; such figures have that source.
    """

    seen: Seen
    model: str
    drafting: bool | None
    drafting_words: str
    acceptance: Mapping[str, Reading]
    readings: Mapping[str, Reading]
    reports_cached: bool
    repeat: Reading
    repeat_hits: bool | None
    probes: tuple[ProbeCount, ...]
    warnings: tuple[str, ...]
    advice: tuple[str, ...]
    seconds: float
    simulated: str | None = None


async def probe_server(
    url: str, key_env: str | None = None, *, logs: Sequence[str] = (), allow_simulated: bool = False
) -> Probed:
    """Ask it. Raises UsageError where nothing serves there, ArmFailed where it answers no request.

    A server whose acceptance is made up is refused (UsageError), unless that is allowed: then it is marked.
    """
    began = time.monotonic()
    seen = await see(url, key_env, lines_of(logs, Path.cwd()))
    arm = ArmSettings("probe", ATTACHED, seen.model, engine_options={ALLOW_SIMULATED: allow_simulated})
    if why := refusal(arm, seen.facts.speculation):
        raise UsageError(f"{seen.url}: {why}")
    async with Client() as client:
        return await _Probing(seen, key_env, client, began).go()


@dataclass
class _Asked:
    """What came of requests, summed; None in a sum is 'not reported by one of them'."""

    usages: list[Usage] = field(default_factory=list)

    def total(self, name: str) -> int | None:
        values = [getattr(usage, name) for usage in self.usages]
        return None if not values or None in values else sum(values)


class _Probing:
    def __init__(self, seen: Seen, key_env: str | None, client: Client, began: float) -> None:
        options = {"url": seen.url, "behind": seen.told.engine, "key_env": key_env}
        given = {name: value for name, value in options.items() if value is not None}
        arm = ArmSettings("probe", ATTACHED, seen.model, engine_options=given)
        self.engine: Engine = engine_named(ATTACHED)
        self.server = Server(arm, seen.url, seen.model)
        self.headers = _headers(key_env)
        self.seen = seen
        self.client = client
        self.began = began
        self.salt = uuid.uuid4().hex[:8]
        self.sent = 0

    async def go(self) -> Probed:
        words = self.seen.facts.speculation.get("simulated")
        before = await self.engine.counters(self.server)
        acceptance: dict[str, Reading] = {}
        per_request = False
        for name in SETS:
            acceptance[name], told = await self._acceptance(name)
            per_request = per_request or told
        repeat, reports = await self._repeat()
        judged = await self._probes()
        moved = self.engine.delta(before, await self.engine.counters(self.server)).counters
        drafting, said = self._drafting(moved, acceptance)
        if words:
            acceptance = {name: _simulated(reading) for name, reading in acceptance.items()}
        hits = None if repeat.value is None else repeat.value > 0
        facts = self.seen.facts
        warnings = list(facts.warnings)
        finished = moved.get("requests_finished")
        if finished is not None and finished > self.sent:
            others = finished - self.sent
            warnings.append(f"somebody else is using it: {others:.0f} requests beside our {self.sent}")
        lacks = Lacks(
            metrics=not self.seen.told.metrics,
            settings=self.seen.drafts is None or not facts.resolved,
            cached_tokens=not reports,
            repeat_hits=hits,
            drafts=drafting,
            per_request=not per_request,
            pool=not facts.reading("kv_pool_tokens").known,
        )
        return Probed(
            seen=self.seen,
            model=self.seen.model,
            drafting=drafting,
            drafting_words=said,
            acceptance=acceptance,
            readings={name: facts.reading(name) for name in READINGS},
            reports_cached=reports,
            repeat=repeat,
            repeat_hits=hits,
            probes=judged,
            warnings=tuple(dict.fromkeys(warnings)),
            advice=advice(self.seen.told.engine, lacks, facts.resolved),
            seconds=time.monotonic() - self.began,
            simulated=str(words) if words else None,
        )

    def _late(self) -> bool:
        return time.monotonic() - self.began > BUDGET_S

    async def _ask(
        self, messages: Sequence[Mapping[str, Any]], tokens: int, tools: Sequence[Mapping[str, Any]] = ()
    ) -> tuple[StreamReading, Usage, int | None]:
        samplers = Samplers()
        body: dict[str, Any] = {
            "model": self.server.served_name,
            "messages": list(messages),
            "stream": True,
            "stream_options": {"include_usage": True},
            "max_tokens": tokens,
            "temperature": samplers.temperature,
            "seed": samplers.seed,
        }
        if tools:
            body["tools"] = list(tools)
        body |= self.engine.request_extras(self.server, output_tokens=None)
        request = ChatRequest(
            f"{self.server.url}/v1/chat/completions", body, self.headers, deadline_s=BUDGET_S
        )
        exchange = await self.client.stream(request)
        self.sent += exchange.http_status == 200
        reading = read_exchange(exchange)
        usage = self.engine.read_usage(reading.final, self.seen.facts)
        return reading, usage, exchange.http_status

    async def _acceptance(self, name: str) -> tuple[Reading, bool]:
        """(tokens a step, bonus included, of a prompt set; whether requests tell it themselves)."""
        if self._late():
            return Reading.absent("the minute was over"), False
        before = await self.engine.counters(self.server)
        asked = _Asked()
        for prompt in shipped_prompts(name)[:PROMPTS]:
            reading, usage, _ = await self._ask(_salted(prompt.messages, self.salt), OUTPUT_TOKENS)
            if reading.error:
                raise ArmFailed(f"{self.seen.url} fails at a request: {reading.error}")
            asked.usages.append(usage)
        moved = self.engine.delta(before, await self.engine.counters(self.server)).counters
        accepted, steps = asked.total("accepted_tokens"), asked.total("spec_steps")
        if accepted is not None and steps:
            return Reading.of(1 + accepted / steps, "tokens/step", "request"), True
        drafts, taken = moved.get("drafts"), moved.get("accepted_tokens")
        if drafts and taken is not None:
            note = "all users' requests meanwhile"
            return Reading.of(1 + taken / drafts, "tokens/step", "counter delta", note=note), False
        if self.seen.drafts is False:
            return Reading.absent("nothing drafts"), False
        return Reading.absent("neither requests nor counters tell of drafts"), False

    async def _repeat(self) -> tuple[Reading, bool]:
        """(tokens of a repeated prompt that came from the cache, whether requests report cached tokens)."""
        block = self.seen.facts.reading("kv_block_tokens").value or 16
        texts = "\n".join(str(prompt.messages[0]["content"]) for prompt in shipped_prompts("prose"))
        wanted = max(REPEATED_CHARACTERS, int(10 * block))
        text = (texts * (1 + wanted // len(texts)))[:wanted]
        messages = _salted([{"role": "user", "content": text}], f"{self.salt} repeat")
        if self._late():
            return Reading.absent("the minute was over"), False
        _, first, _ = await self._ask(messages, 4)
        before = await self.engine.counters(self.server)
        again, second, _ = await self._ask(messages, 4)
        if again.error:
            return Reading.absent(f"the long prompt failed: {again.error}"), first.cached_tokens is not None
        if second.cached_tokens is not None:
            found = max(0, second.cached_tokens - (first.cached_tokens or 0))
            note = f"of {second.prompt_tokens:,}" if second.prompt_tokens else None
            return Reading.of(found, "tokens", "request", note=note), True
        hits = self.engine.delta(before, await self.engine.counters(self.server)).counters.get("prefix_hits")
        if hits is None:
            return Reading.absent("neither requests nor counters tell of cached tokens"), False
        return Reading.of(hits, "tokens", "counter delta", note="all users' requests meanwhile"), False

    async def _probes(self) -> tuple[ProbeCount, ...]:
        counts = []
        for kind, of_kind in groupby(probes(), key=lambda probe: probe.kind):
            counts.append(await self._kind(kind, list(of_kind)[:EACH_KIND]))
        return tuple(counts)

    async def _kind(self, kind: str, chosen: Sequence[Probe]) -> ProbeCount:
        passed = asked = 0
        why: str | None = None
        for probe in chosen:
            if self._late():
                return ProbeCount(kind, passed, asked, "the minute was over")
            reading, _, status = await self._ask(probe.messages, PROBE_TOKENS, probe.tools)
            if reading.error:
                if unsupported(kind, status, reading.error):
                    return ProbeCount(kind, passed, asked, reading.error, supported=False)
                return ProbeCount(kind, passed, asked, f"failed: {reading.error}")
            calls = [dict(call) for call in reading.tool_calls]
            said = probe.judge(reading.content, calls, reading.finish_reason)
            asked += 1
            passed += said.passed
            why = why or (None if said.passed else said.why)
        return ProbeCount(kind, passed, asked, why)

    def _drafting(
        self, moved: Mapping[str, float], acceptance: Mapping[str, Reading]
    ) -> tuple[bool | None, str]:
        told = self.seen.facts.speculation
        named = told.get("method")
        kind = str(self.seen.method or (named if named != "on" else None) or "not told how")
        width = f", {self.seen.width} drafts a step" if self.seen.width else ""
        lengths = [reading.value for reading in acceptance.values() if reading.value is not None]
        if self.seen.drafts is False:
            return False, "off"
        if any(length > 1.0 for length in lengths):
            dead = "; hardly anything is accepted: a dead drafter" if max(lengths) <= 1.01 else ""
            return True, f"on ({kind}{width}), and drafting{dead}"
        if lengths or moved.get("drafts") == 0:
            if self.seen.drafts is None and not lengths:
                return None, "not told, and no draft was counted"
            return False, f"on by its settings ({kind}{width}), and no draft was accepted: it gains nothing"
        if self.seen.drafts is None:
            return None, "not told"
        return None, f"on by its settings ({kind}{width}); nothing counts its drafts"


def _simulated(reading: Reading) -> Reading:
    return reading if reading.value is None else replace(reading, source="simulated")


def _salted(messages: Sequence[Mapping[str, Any]], salt: str) -> list[Mapping[str, Any]]:
    first, *rest = messages
    return [{**first, "content": f"[{salt}] {first['content']}"}, *rest]


def _headers(key_env: str | None) -> dict[str, str]:
    key = os.environ.get(key_env) if key_env else None
    return {"Authorization": f"Bearer {key}"} if key else {}
