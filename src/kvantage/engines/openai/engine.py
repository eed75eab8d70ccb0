"""Any OpenAI server that already runs, behind the engine contract."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from kvantage.core import (
    ArmFailed,
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
from kvantage.engines.answers import text_of
from kvantage.engines.http import ask, fetch
from kvantage.engines.llamacpp import Llamacpp
from kvantage.engines.llamacpp import metrics as llamacpp_metrics
from kvantage.engines.llamacpp import score as llamacpp_score
from kvantage.engines.openai.attached import HINT, key_of, look_at
from kvantage.engines.openai.facts import facts
from kvantage.engines.openai.usage import read_usage
from kvantage.engines.recognise import engine_of_answer, engines_of_log, engines_of_metrics
from kvantage.engines.sglang import Sglang
from kvantage.engines.sglang import metrics as sglang_metrics
from kvantage.engines.sglang import score as sglang_score
from kvantage.engines.simulated import OPTION
from kvantage.engines.spelling import did_you_mean
from kvantage.engines.startup import said, tokens_of
from kvantage.engines.vllm import Vllm
from kvantage.engines.vllm import metrics as vllm_metrics
from kvantage.engines.vllm import score as vllm_score
from kvantage.engines.vllm.counters import delta

ENGINE_OPTIONS = frozenset({OPTION, "behind", "key_env", "served", "url"})
_BEHIND: Mapping[str, Callable[[], Engine]] = {"llamacpp": Llamacpp, "sglang": Sglang, "vllm": Vllm}
_SNAPSHOTS = {
    "llamacpp": llamacpp_metrics.snapshot,
    "sglang": sglang_metrics.snapshot,
    "vllm": vllm_metrics.snapshot,
}
_SCORES = {
    "vllm": vllm_score.score,
    "sglang": sglang_score.score,
    "llamacpp": llamacpp_score.score,
}
_LOOKS = (llamacpp_metrics.look, sglang_metrics.look, vllm_metrics.look)
_SMOKE_TOKENS = 8
_BETWEEN_POLLS_S = 1.0


class OpenAi:
    """A server at a URL. It is asked and measured, never started, stopped, flushed or reconfigured.

    Everything is by the readers of the engine behind it, recognised by what it tells. The key is read from
    the environment when it is sent, and kept nowhere.
    """

    name = "openai"

    def problems(self, arm: ArmSettings, host: HostFacts) -> list[str]:
        found = []
        for name in arm.engine_options:
            if name not in ENGINE_OPTIONS:
                found.append(f"engine option `{name}` is not known ({did_you_mean(name, ENGINE_OPTIONS)})")
        if not str(arm.engine_options.get("url", "")).startswith(("http://", "https://")):
            found.append(f"engine `openai` attaches to a server that runs, and needs its address ({HINT})")
        behind = arm.engine_options.get("behind")
        if behind is not None and behind not in _BEHIND:
            found.append(
                f"engine option `behind`: {behind} is not known ({did_you_mean(str(behind), _BEHIND)})"
            )
        try:
            key_of(arm)
        except UsageError as error:
            found.append(error.message)
        return found

    def command(self, arm: ArmSettings, host: HostFacts, port: int) -> Launch:
        """Raises UsageError: there is nothing to start."""
        raise UsageError("engine `openai` starts no server: it measures one that runs", hint=HINT)

    async def ready(self, server: Server, within_s: float) -> None:
        """Wait until it lists its models, then prove it by one request."""
        until = time.monotonic() + within_s
        key, where = key_of(server.arm), f"arm {server.arm.name}"
        while True:
            try:
                listing = await ask(f"{server.url}/v1/models", timeout_s=10, key=key)
            except OSError as error:
                listing, why = None, str(error)
            if listing is not None and listing.status in (401, 403):
                raise ArmFailed(f"{server.url} refuses the key ({listing.status})", where=where, hint=HINT)
            if listing is not None and listing.ok:
                break
            if time.monotonic() > until:
                told = why if listing is None else f"it answers {listing.status}"
                raise ArmFailed(f"{server.url} does not serve within {within_s:.0f} s: {told}", where=where)
            await asyncio.sleep(_BETWEEN_POLLS_S)
        body = {
            "model": server.served_name,
            "messages": [{"role": "user", "content": "Say hello."}],
            "max_tokens": _SMOKE_TOKENS,
            "temperature": 0.0,
        }
        try:
            answer = await ask(f"{server.url}/v1/chat/completions", body=body, timeout_s=120, key=key)
        except OSError as error:
            raise ArmFailed(f"{server.url} fails at one request ({error})", where=where) from error
        if not answer.ok or tokens_of(answer) < 1:
            what = "with no token" if answer.ok else f"with {answer.status}: {said(answer)}"
            raise ArmFailed(f"{server.url} answers one request {what}", where=where)

    async def facts(self, server: Server) -> Facts:
        lines = server.process.log_lines() if server.process else ()
        return facts(server.arm, await look_at(server.url, key_of(server.arm)), lines)

    async def counters(self, server: Server) -> Snapshot:
        """An unknown server's are empty; raises OSError where nothing answers at all."""
        text = await text_of(f"{server.url}/metrics", key=key_of(server.arm))
        taken_ns = time.monotonic_ns()
        engines = engines_of_metrics(text)
        return _SNAPSHOTS[engines[0]](text, taken_ns) if engines else Snapshot(taken_ns)

    async def gauges(self, server: Server) -> Mapping[str, float]:
        url, key = f"{server.url}/metrics", key_of(server.arm)
        body = (await text_of(url, key=key)).encode() if key else await fetch(url)
        return next((found for look in _LOOKS if (found := look(body))), {})

    def delta(self, before: Snapshot, after: Snapshot) -> CounterDelta:
        return delta(before, after)

    async def flush_cache(self, server: Server) -> CacheFlush:
        """Never: the server is not ours. Prompts are salted, so that cold ones are cold all the same."""
        return CacheFlush(False, "somebody else's server: not flushed unasked")

    def request_headers(self, server: Server) -> dict[str, str]:
        """The authorization of every request to this server; never stored."""
        key = key_of(server.arm)
        return {"Authorization": f"Bearer {key}"} if key else {}

    def request_extras(self, server: Server, *, output_tokens: int | None) -> dict[str, Any]:
        """Those of the engine behind it where the arm names it; else what every OpenAI server takes.

        There an exact output length cannot be forced: `max_tokens` is an upper end.
        """
        behind = server.arm.engine_options.get("behind")
        if behind in _BEHIND:
            return _engine(behind).request_extras(server, output_tokens=output_tokens)
        extras: dict[str, Any] = {"stream_options": {"include_usage": True}}
        return extras if output_tokens is None else extras | {"max_tokens": output_tokens}

    def whole_extras(self, server: Server) -> dict[str, Any]:
        """Those of the engine behind it where the arm names it; else vLLM's, which others leave unread."""
        return _engine(server.arm.engine_options.get("behind")).whole_extras(server)

    def read_ids(self, body: Mapping[str, Any]) -> tuple[int, ...] | None:
        return next((ids for make in _BEHIND.values() if (ids := make().read_ids(body))), None)

    async def score(
        self,
        server: Server,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]],
        output_ids: Sequence[int],
    ) -> Scores:
        """By the route of the engine that it turns out to be; else by each in turn."""
        behind = server.arm.engine_options.get("behind")
        key, told = key_of(server.arm), []
        for name in [behind] if behind in _SCORES else [*_SCORES]:
            try:
                return await _SCORES[name](server, messages, tools, output_ids, key)
            except ScoringError as error:
                told.append(error.message)
        raise ScoringError("; ".join(dict.fromkeys(told)))

    def read_usage(self, final: Mapping[str, Any], facts: Facts | None = None) -> Usage:
        behind = engine_of_answer(final) or (facts.engine if facts else None)
        return _engine(behind).read_usage(final, facts) if behind in _BEHIND else read_usage(final)

    def read_log(self, lines: Iterable[str]) -> LogReadings:
        kept = list(lines)
        engines = engines_of_log("\n".join(kept))
        return _engine(engines[0]).read_log(kept) if engines else LogReadings()

    def expected_cached(self, prefix_tokens: int, facts: Facts) -> tuple[int, int]:
        if facts.engine in _BEHIND:
            return _engine(facts.engine).expected_cached(prefix_tokens, facts)
        return 0, max(0, prefix_tokens)

    def explain_death(self, lines: Sequence[str]) -> tuple[str, ...]:
        return self.read_log(lines).errors


def _engine(name: str | None) -> Engine:
    """An engine's readers; vLLM's are those of the plain OpenAI fields."""
    return _BEHIND.get(name or "", Vllm)()
