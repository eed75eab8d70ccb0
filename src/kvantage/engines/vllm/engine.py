"""vLLM behind the engine contract."""

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
from kvantage.engines.answers import json_of, metrics_of, text_of
from kvantage.engines.http import fetch
from kvantage.engines.startup import wait_until_serving
from kvantage.engines.vllm.boot import boot_log
from kvantage.engines.vllm.cache import expected_cached, flush_cache
from kvantage.engines.vllm.checks import problems
from kvantage.engines.vllm.command import command
from kvantage.engines.vllm.counters import delta
from kvantage.engines.vllm.death import explain_death
from kvantage.engines.vllm.facts import Told, facts
from kvantage.engines.vllm.log import read_log
from kvantage.engines.vllm.metrics import cache_config, look, snapshot
from kvantage.engines.vllm.request import request_extras
from kvantage.engines.vllm.score import read_ids, score
from kvantage.engines.vllm.usage import read_usage


class Vllm:
    """vLLM 0.26 to 0.33. The served name of a server is its arm's name."""

    name = "vllm"

    def problems(self, arm: ArmSettings, host: HostFacts) -> list[str]:
        return problems(arm, host)

    def command(self, arm: ArmSettings, host: HostFacts, port: int) -> Launch:
        return command(arm, host, port)

    async def ready(self, server: Server, within_s: float) -> None:
        await wait_until_serving(server, within_s, self.explain_death)

    async def facts(self, server: Server) -> Facts:
        """From the log, /metrics, /server_info and /version; a part that is not served is missing."""
        metrics = await text_of(f"{server.url}/metrics")
        info = await json_of(f"{server.url}/server_info?config_format=json", timeout_s=60)
        version = await json_of(f"{server.url}/version")
        told = Told(
            arm=server.arm,
            log=boot_log(server.process.log_lines() if server.process else ()),
            cache=cache_config(metrics),
            info=info,
            version=version.get("version") if isinstance(version, dict) else None,
        )
        return facts(told)

    async def counters(self, server: Server) -> Snapshot:
        return snapshot(*await metrics_of(server.url))

    async def gauges(self, server: Server) -> Mapping[str, float]:
        return look(await fetch(f"{server.url}/metrics"))

    def delta(self, before: Snapshot, after: Snapshot) -> CounterDelta:
        return delta(before, after)

    async def flush_cache(self, server: Server) -> CacheFlush:
        return await flush_cache(server)

    def request_extras(self, server: Server, *, output_tokens: int | None) -> dict[str, Any]:
        return request_extras(output_tokens)

    def whole_extras(self, server: Server) -> dict[str, Any]:
        return {"return_token_ids": True}

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
        return explain_death(lines)
