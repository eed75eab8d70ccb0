"""`engine: {name: sim, like: vllm}`: what a real engine would be asked, asked of a simulated one.

Nothing of it is measured, and every fact says so.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from kvantage.core import (
    ArmSettings,
    CacheFlush,
    CounterDelta,
    Engine,
    Facts,
    HostFacts,
    Launch,
    LogReadings,
    Scores,
    ScoringError,
    Server,
    Snapshot,
    Usage,
    UsageError,
)
from kvantage.engines.sglang import Sglang
from kvantage.engines.spelling import did_you_mean
from kvantage.engines.vllm import Vllm
from kvantage.study.simulated import OPTIONS

LIKE: Mapping[str, type[Engine]] = {"sglang": Sglang, "vllm": Vllm}
MARK = "simulated: no model ran, and nothing of it is measured"


class Sim:
    """Stands for the engine that an arm's option `like` names."""

    name = "sim"

    def problems(self, arm: ArmSettings, host: HostFacts) -> list[str]:
        found = []
        like = arm.engine_options.get("like")
        if like not in LIKE:
            named = f"not `{like}`" if like else "which is missing"
            found.append(f"the simulated engine's option `like` is {' or '.join(sorted(LIKE))}, {named}")
        for option in arm.engine_options:
            if option not in OPTIONS:
                hint = did_you_mean(option, OPTIONS)
                found.append(f"the simulated engine has no option `{option}`{f': {hint}' if hint else ''}")
        speed = arm.engine_options.get("speed", 1)
        if isinstance(speed, bool) or not isinstance(speed, int | float) or not 0 < speed <= 10_000:
            found.append(f"`speed` is virtual seconds a real one, above 0, not `{speed}`")
        return found

    def command(self, arm: ArmSettings, host: HostFacts, port: int) -> Launch:
        if problems := self.problems(arm, host):
            raise UsageError(problems[0])
        text = json.dumps(asdict(arm), sort_keys=True, separators=(",", ":"), default=str)
        speed = str(arm.engine_options.get("speed", 1))
        argv = (sys.executable, "-m", "kvantage.sim", "--arm", text, "--port", str(port), "--speed", speed)
        return Launch(argv, notes=(MARK,), program_words=3)

    async def ready(self, server: Server, within_s: float) -> None:
        await like(server.arm).ready(server, within_s)

    async def facts(self, server: Server) -> Facts:
        real = await like(server.arm).facts(server)
        return replace(
            real,
            engine=self.name,
            engine_version=f"like {real.engine} {real.engine_version}",
            resolved={**real.resolved, "simulated": MARK},
            warnings=(*_hurried(server.arm), *real.warnings),
        )

    async def counters(self, server: Server) -> Snapshot:
        return await like(server.arm).counters(server)

    async def gauges(self, server: Server) -> Mapping[str, float]:
        return await like(server.arm).gauges(server)

    def delta(self, before: Snapshot, after: Snapshot) -> CounterDelta:
        return Vllm().delta(before, after)

    async def flush_cache(self, server: Server) -> CacheFlush:
        return await like(server.arm).flush_cache(server)

    def request_extras(self, server: Server, *, output_tokens: int | None) -> dict[str, Any]:
        return like(server.arm).request_extras(server, output_tokens=output_tokens)

    def whole_extras(self, server: Server) -> dict[str, Any]:
        return like(server.arm).whole_extras(server)

    def read_ids(self, body: Mapping[str, Any]) -> tuple[int, ...] | None:
        return Vllm().read_ids(body) or Sglang().read_ids(body)

    async def score(
        self,
        server: Server,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]],
        output_ids: Sequence[int],
    ) -> Scores:
        raise ScoringError(MARK)

    def read_usage(self, final: Mapping[str, Any], facts: Facts | None = None) -> Usage:
        return (Vllm() if isinstance(final.get("metrics"), Mapping) else Sglang()).read_usage(final, facts)

    def read_log(self, lines: Iterable[str]) -> LogReadings:
        kept = list(lines)
        stamped = any(line.startswith("[2") for line in kept)
        return (Sglang() if stamped else Vllm()).read_log(kept)

    def expected_cached(self, prefix_tokens: int, facts: Facts) -> tuple[int, int]:
        known = next((name for name in LIKE if f"like {name} " in str(facts.engine_version)), "vllm")
        return LIKE[known]().expected_cached(prefix_tokens, facts)

    def explain_death(self, lines: Sequence[str]) -> tuple[str, ...]:
        return tuple(line for line in lines if "kvantage sim:" in line or "Error" in line)[-5:]


def _hurried(arm: ArmSettings) -> tuple[str, ...]:
    """At another speed than 1, every time that a client takes is to be multiplied."""
    speed = float(arm.engine_options.get("speed", 1))
    return () if speed == 1 else (f"time runs {speed:g} times as fast as what is simulated: so do all rates",)


def like(arm: ArmSettings) -> Engine:
    """The engine whose words a simulated arm speaks."""
    return LIKE[str(arm.engine_options.get("like"))]()
