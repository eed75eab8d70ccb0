"""llama.cpp's llama-server behind the engine contract."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kvantage.core import (
    ArmSettings,
    CacheFlush,
    CounterDelta,
    Facts,
    HostFacts,
    Launch,
    LogReadings,
    Scores,
    Server,
    Snapshot,
    Usage,
)
from kvantage.engines.answers import json_of, metrics_of
from kvantage.engines.http import fetch
from kvantage.engines.llamacpp.cache import expected_cached, flush_cache
from kvantage.engines.llamacpp.checks import problems
from kvantage.engines.llamacpp.command import command
from kvantage.engines.llamacpp.facts import Told, facts
from kvantage.engines.llamacpp.log import read_log
from kvantage.engines.llamacpp.metrics import look, snapshot
from kvantage.engines.llamacpp.scan import scan
from kvantage.engines.llamacpp.score import read_ids, score
from kvantage.engines.llamacpp.usage import read_usage
from kvantage.engines.startup import failed, wait_until_serving
from kvantage.engines.vllm.counters import delta


class Llamacpp:
    """llama-server. A server's served name is its arm's name."""

    name = "llamacpp"

    def problems(self, arm: ArmSettings, host: HostFacts) -> list[str]:
        return problems(arm, host)

    def command(self, arm: ArmSettings, host: HostFacts, port: int) -> Launch:
        return command(arm, host, port)

    async def ready(self, server: Server, within_s: float) -> None:
        """As every engine, and then: the slots must draft where the arm says so.

        A missing or wrong drafter comes up healthy, answers, and drafts nothing.
        """
        await wait_until_serving(server, within_s, self.explain_death)
        told = await self._told(server)
        if server.arm.speculation.on and told.speculating is False:
            why = told.log.failed or "its slots say `speculative: false`"
            message = f"the server serves, but speculation `{server.arm.speculation.method}` is off: {why}"
            raise failed(server, message, self.explain_death)
        if not server.arm.speculation.on and told.speculating:
            raise failed(server, "the server drafts, though this arm has no speculation", self.explain_death)

    async def facts(self, server: Server) -> Facts:
        """From /props, /slots and the log; a part that is not served is missing."""
        return facts(await self._told(server))

    async def _told(self, server: Server) -> Told:
        props = await json_of(f"{server.url}/props")
        slots = await json_of(f"{server.url}/slots")
        return Told(
            arm=server.arm,
            props=props if isinstance(props, dict) else {},
            slots=[slot for slot in slots if isinstance(slot, dict)] if isinstance(slots, list) else [],
            log=scan(server.process.log_lines() if server.process else ()),
        )

    async def counters(self, server: Server) -> Snapshot:
        return snapshot(*await metrics_of(server.url))

    async def gauges(self, server: Server) -> Mapping[str, float]:
        return look(await fetch(f"{server.url}/metrics"))

    def delta(self, before: Snapshot, after: Snapshot) -> CounterDelta:
        return delta(before, after)

    async def flush_cache(self, server: Server) -> CacheFlush:
        return await flush_cache(server)

    def request_extras(self, server: Server, *, output_tokens: int | None) -> dict[str, Any]:
        """Usage and timings at the end, the sampler under llama.cpp's own name, an exact output length."""
        extras: dict[str, Any] = {
            "stream_options": {"include_usage": True},
            "repeat_penalty": server.arm.samplers.repetition_penalty,
        }
        if server.arm.settings.prefix_caching is not None:  # else as the server does by itself
            extras["cache_prompt"] = server.arm.settings.prefix_caching
        if output_tokens is not None:
            extras |= {"max_tokens": output_tokens, "ignore_eos": True}
        return extras

    def whole_extras(self, server: Server) -> dict[str, Any]:
        return {"logprobs": True, "top_logprobs": 1}

    def read_ids(self, body: Mapping[str, Any]) -> tuple[int, ...] | None:
        return read_ids(body)

    async def score(
        self,
        server: Server,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]],
        output_ids: Sequence[int],
    ) -> Scores:
        return await score(server, messages, tools, output_ids)

    def read_usage(self, final: Mapping[str, Any], facts: Facts | None = None) -> Usage:
        return read_usage(final)

    def read_log(self, lines: Iterable[str]) -> LogReadings:
        return read_log(lines)

    def expected_cached(self, prefix_tokens: int, facts: Facts) -> tuple[int, int]:
        return expected_cached(prefix_tokens, facts)

    def explain_death(self, lines: Sequence[str]) -> tuple[str, ...]:
        return read_log(lines).errors
