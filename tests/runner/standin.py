"""The stand-in as an engine. Its figures are of no model: only the runner's conduct is tested with it."""

from __future__ import annotations

import asyncio
import json
import sys
import time
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kvantage.core import (
    ArmFailed,
    ArmSettings,
    CacheFlush,
    CounterDelta,
    Facts,
    HostFacts,
    Launch,
    LogReadings,
    Reading,
    Server,
    Snapshot,
    Usage,
)

SERVER = Path(__file__).with_name("standin_server.py")


class StandIn:
    """Implements the Engine contract on `standin_server.py`; an arm's flags are the server's settings."""

    name = "standin"

    def problems(self, arm: ArmSettings, host: HostFacts) -> list[str]:
        return ["told to be impossible"] if arm.flags.get("impossible") else []

    def command(self, arm: ArmSettings, host: HostFacts, port: int) -> Launch:
        settings = {name.replace("-", "_"): value for name, value in arm.flags.items()}
        settings["name"] = arm.name
        settings["drafts"] = arm.speculation.drafts or 0
        if arm.speculation.on:
            settings.setdefault("tokens_per_step", 1 + (arm.speculation.drafts or 0))
        if arm.settings.pool_tokens:
            settings["pool_tokens"] = arm.settings.pool_tokens
        argv = (sys.executable, str(SERVER), str(port), json.dumps(settings))
        nodes = arm.settings.nodes or 1
        ranks = tuple((*argv, f"{rank} of {nodes}") for rank in range(nodes)) if nodes > 1 else ()
        return Launch(ranks[0] if ranks else argv, dict(arm.env), per_node=ranks, program_words=2)

    async def ready(self, server: Server, within_s: float) -> None:
        until = time.monotonic() + within_s
        while time.monotonic() < until:
            if server.process is not None and server.process.exit_code() is not None:
                lines = self.explain_death(server.process.log_lines())
                raise ArmFailed("the server ended before it was ready", log_lines=lines)
            try:
                await self._get(server, "/health")
                return
            except OSError:
                await asyncio.sleep(0.02)
        raise ArmFailed(f"not ready within {within_s:.0f} s")

    async def facts(self, server: Server) -> Facts:
        told = await self._get(server, "/facts")
        pool = told["pool_tokens"]
        return Facts(
            self.name,
            "0",
            {
                "kv_pool_tokens": Reading.of(pool, "tokens", "gauge"),
                "kv_pool_bytes": Reading.of(pool * 64, "bytes", "gauge"),
                "kv_block_tokens": Reading.of(16, "tokens", "gauge"),
                "effective_max_running": Reading.of(64, "requests", "gauge"),
            },
            prefix_caching=True,
        )

    async def counters(self, server: Server) -> Snapshot:
        seen = await self._get(server, "/counters")
        drafts = server.arm.speculation.drafts or 0
        counters = {
            "prompt_tokens": seen["prompt_tokens"],
            "generation_tokens": seen["generation_tokens"],
            "requests_finished": seen["requests"],
            "preemptions": 0,
        }
        if drafts:
            counters |= {
                "drafts": seen["drafts"],
                "drafted_tokens": seen["drafts"] * drafts,
                "accepted_tokens": seen["accepted"],
            }
        return Snapshot(time.monotonic_ns(), counters)

    async def gauges(self, server: Server) -> Mapping[str, float]:
        return {"running": 1, "waiting": 0}

    def delta(self, before: Snapshot, after: Snapshot) -> CounterDelta:
        moved = {name: value - before.counters.get(name, 0) for name, value in after.counters.items()}
        return CounterDelta((after.taken_ns - before.taken_ns) / 1e9, moved)

    async def flush_cache(self, server: Server) -> CacheFlush:
        await asyncio.to_thread(_ask, f"{server.url}/flush", b"{}")
        return CacheFlush(True, "flushed")

    def request_extras(self, server: Server, *, output_tokens: int | None) -> dict[str, Any]:
        return {}

    def read_usage(self, final: Mapping[str, Any], facts: Facts | None = None) -> Usage:
        usage = final.get("usage") or {}
        details = usage.get("prompt_tokens_details") or {}
        return Usage(
            usage.get("prompt_tokens"), usage.get("completion_tokens"), None, details.get("cached_tokens")
        )

    def read_log(self, lines: Iterable[str]) -> LogReadings:
        return LogReadings()

    def expected_cached(self, prefix_tokens: int, facts: Facts) -> tuple[int, int]:
        return max(0, prefix_tokens - 32), prefix_tokens

    def explain_death(self, lines: Sequence[str]) -> tuple[str, ...]:
        return tuple(line for line in lines if "Error" in line)

    async def _get(self, server: Server, path: str) -> Any:
        return json.loads(await asyncio.to_thread(_ask, server.url + path, None))


def _ask(url: str, body: bytes | None) -> bytes:
    with urllib.request.urlopen(urllib.request.Request(url, body), timeout=5) as answer:
        return bytes(answer.read())
