"""SGLang behind the engine contract."""

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
from kvantage.engines.sglang.boot import read_boot
from kvantage.engines.sglang.cache import expected_cached, flush_cache
from kvantage.engines.sglang.checks import problems
from kvantage.engines.sglang.command import command
from kvantage.engines.sglang.death import death_lines
from kvantage.engines.sglang.facts import Told, facts
from kvantage.engines.sglang.lines import logical_lines
from kvantage.engines.sglang.log import read_log
from kvantage.engines.sglang.metrics import look, snapshot
from kvantage.engines.sglang.request import request_extras
from kvantage.engines.sglang.score import read_ids, score
from kvantage.engines.sglang.usage import read_usage
from kvantage.engines.startup import wait_until_serving
from kvantage.engines.vllm.counters import delta


class Sglang:
    """SGLang, every version whose log and metrics are known. A server's served name is its arm's name."""

    name = "sglang"

    def problems(self, arm: ArmSettings, host: HostFacts) -> list[str]:
        return problems(arm, host)

    def command(self, arm: ArmSettings, host: HostFacts, port: int) -> Launch:
        return command(arm, host, port)

    async def ready(self, server: Server, within_s: float) -> None:
        await wait_until_serving(server, within_s, self.explain_death)

    async def facts(self, server: Server) -> Facts:
        """From /server_info, /metrics and the log; a part that is not served is missing."""
        info = await json_of(f"{server.url}/server_info", timeout_s=60)
        if not isinstance(info, dict):
            info = await json_of(f"{server.url}/get_server_info", timeout_s=60)
        lines = server.process.log_lines() if server.process else ()
        return facts(
            Told(
                arm=server.arm,
                info=info if isinstance(info, dict) else {},
                metrics=await text_of(f"{server.url}/metrics"),
                boot=read_boot(logical_lines(lines)),
                env=server.launch.env if server.launch else server.arm.env,
            )
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
        return request_extras(output_tokens)

    def whole_extras(self, server: Server) -> dict[str, Any]:
        return {"return_token_ids": True, "return_spec_tokens_details": True}

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
        reports = facts is not None and facts.resolved.get("enable_cache_report") is True
        return read_usage(final, reports_cache=reports)

    def read_log(self, lines: Iterable[str]) -> LogReadings:
        return read_log(lines)

    def expected_cached(self, prefix_tokens: int, facts: Facts) -> tuple[int, int]:
        return expected_cached(prefix_tokens, facts)

    def explain_death(self, lines: Sequence[str]) -> tuple[str, ...]:
        return death_lines(lines)
