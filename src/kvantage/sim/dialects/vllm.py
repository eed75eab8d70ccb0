"""vLLM: its scheduler as rules, and its addresses, metrics and log lines (as of 0.33)."""

from __future__ import annotations

import json
import time
from typing import Any

from kvantage.golden.source import Page
from kvantage.planner.memory import GIB, Demand, Pool
from kvantage.planner.pools.vllm import PREFILL
from kvantage.sim.engine import Engine
from kvantage.sim.front import MARK, Served, Totals, histogram, metrics_page, usage, usage_share
from kvantage.sim.request import Request
from kvantage.sim.rules import Rules
from kvantage.sim.step import Step

VERSION = "0.33.0"
RUNNING = 256
DROPS_A_BLOCK = ("mtp", "eagle3", "dflash")
"""Drafters that need the hidden state before a hit's end: the last block of every hit is computed again."""
EVERY_S = 10.0
"""Seconds between two lines of throughput."""


def rules(demand: Demand, pool: Pool) -> Rules:
    """How this arm would schedule."""
    return Rules(
        running=demand.settings.max_running_requests or RUNNING,
        chunk=demand.settings.chunked_prefill or PREFILL,
        mixed=True,
        page=pool.block_tokens,
        drafts=demand.drafts,
        drop_block=demand.speculation.method in DROPS_A_BLOCK,
        extra_slots=_lookahead(demand),
        newest_first=True,
        prefix_caching=demand.settings.prefix_caching is not False,
    )


def _lookahead(demand: Demand) -> int:
    """Slots beyond those of the drafts to be verified, into which a drafter writes the next ones."""
    match demand.speculation.method:
        case "none" | "ngram":
            return 0
        case "dflash":  # a block holds one query more than it has drafts
            return demand.drafts + 1
        case _:
            return demand.drafts


class Front:
    """vLLM's own words for one simulated server."""

    def __init__(self, served: Served, rules: Rules) -> None:
        self.served = served
        self.rules = rules
        self._since = 0.0
        self._before = Totals()

    def boot_lines(self) -> list[str]:
        served, spec = self.served, self._speculation()
        pool = served.arm.pool.at if served.arm.pool else None
        bytes_held = (pool.token_bytes + pool.draft_bytes) * served.tokens if pool else 0
        lengths = served.tokens / served.context_length
        told = "None"
        if spec:
            told = (
                f"SpeculativeConfig(method='{spec['method']}', model={spec.get('model')!r}, "
                f"num_spec_tokens={spec['num_speculative_tokens']})"
            )
        return [
            self._line(MARK, "WARNING"),
            self._line(
                f"Initializing a V1 LLM engine (v{VERSION}) with config: model='{served.model}', "
                f"speculative_config={told}, dtype={served.dtype}, max_seq_len={served.context_length}, "
                f"enable_prefix_caching={self.rules.prefix_caching}, kv_cache_dtype=auto"
            ),
            self._line(f"Available KV cache memory: {bytes_held / GIB:.2f} GiB"),
            self._line(
                f"GPU KV cache size: {served.tokens:,} tokens, Maximum concurrency for "
                f"{served.context_length:,} tokens per request: {lengths:.2f}x"
            ),
        ]

    def step(self, step: Step, engine: Engine, totals: Totals) -> list[str]:
        if engine.now - self._since < EVERY_S:
            return []
        passed = (engine.now - self._since) / self.served.speed
        old, lines = self._before, []
        hit = 100 * totals.hit / totals.queried if totals.queried else 0.0
        lines.append(
            self._line(
                f"Engine 000: Avg prompt throughput: {(totals.prompt - old.prompt) / passed:.1f} tokens/s, "
                f"Avg generation throughput: {(totals.generated - old.generated) / passed:.1f} tokens/s, "
                f"Running: {len(engine.running)} reqs, Waiting: {len(engine.waiting)} reqs, "
                f"GPU KV cache usage: {100 * usage_share(engine):.1f}%, Prefix cache hit rate: {hit:.1f}%"
            )
        )
        steps = totals.drafting_steps - old.drafting_steps
        if steps:
            accepted, drafted = totals.accepted - old.accepted, totals.drafted - old.drafted
            lines.append(
                self._line(
                    f"SpecDecoding metrics: Mean acceptance length: {1 + accepted / steps:.2f}, "
                    f"Accepted throughput: {accepted / passed:.2f} tokens/s, "
                    f"Drafted throughput: {drafted / passed:.2f} tokens/s, "
                    f"Accepted: {accepted} tokens, Drafted: {drafted} tokens, "
                    f"Avg Draft acceptance rate: {100 * accepted / drafted:.1f}%"
                )
            )
        self._since = engine.now
        self._before = Totals(**{**vars(totals)})
        return lines

    def counts(self, request: Request) -> tuple[dict[str, Any], dict[str, Any]]:
        metrics: dict[str, Any] = {"queue_time_ms": request.queued / self.served.speed * 1000}
        if self.rules.drafts:
            metrics["speculative_decoding"] = {
                "num_spec_tokens": self.rules.drafts,
                "num_spec_steps": request.steps,
                "num_draft_tokens": request.drafted,
                "num_accepted_draft_tokens": request.accepted,
                "acceptance_histogram": histogram(request, self.rules.drafts),
            }
        return usage(request), {"metrics": metrics}

    def page(
        self, method: str, path: str, body: bytes, engine: Engine, totals: Totals
    ) -> tuple[Page | None, list[str]]:
        match path:
            case "/metrics":
                return self._metrics(engine, totals), []
            case "/version":
                return _json({"version": VERSION}), []
            case "/server_info":
                return _json(self._info()), []
            case "/v1/models":
                entry = {
                    "id": self.served.name,
                    "object": "model",
                    "root": self.served.model,
                    "max_model_len": self.served.context_length,
                }
                return _json({"object": "list", "data": [entry]}), []
            case "/reset_prefix_cache" if method == "POST":
                if engine.running or engine.waiting:
                    return _json({"success": False}), []
                engine.cache.flush()
                return _json({"success": True}), [self._line("Successfully reset prefix cache")]
        return None, []

    def _metrics(self, engine: Engine, totals: Totals) -> Page:
        label = f'{{engine="0",model_name="{self.served.name}"}}'
        rows: dict[str, float] = {
            f"vllm:num_requests_running{label}": len(engine.running),
            f"vllm:num_requests_waiting{label}": len(engine.waiting),
            f"vllm:kv_cache_usage_perc{label}": usage_share(engine),
            f"vllm:prefix_cache_queries_total{label}": totals.queried,
            f"vllm:prefix_cache_hits_total{label}": totals.hit,
            f"vllm:num_preemptions_total{label}": engine.retracted,
            f"vllm:prompt_tokens_total{label}": totals.prompt,
            f"vllm:generation_tokens_total{label}": totals.generated,
            f"vllm:request_success_total{label}": totals.finished,
            f"vllm:request_queue_time_seconds_sum{label}": totals.queue_s,
            f"vllm:inter_token_latency_seconds_count{label}": totals.chunks,
            "process_start_time_seconds": totals.started_at,
        }
        if self.rules.drafts:
            rows[f"vllm:spec_decode_num_drafts_total{label}"] = totals.drafting_steps
            rows[f"vllm:spec_decode_num_draft_tokens_total{label}"] = totals.drafted
            rows[f"vllm:spec_decode_num_accepted_tokens_total{label}"] = totals.accepted
            for place, count in enumerate(engine.accepted_at):
                name = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
                rows[f'{name}{{engine="0",position="{place}"}}'] = count
        labels = {
            "block_size": self.rules.page,
            "num_gpu_blocks": self.served.tokens // self.rules.page,
            "kv_cache_size_tokens": self.served.tokens,
            "enable_prefix_caching": self.rules.prefix_caching,
            "cache_dtype": self.served.arm.demand.kv_name if self.served.arm.demand else "auto",
        }
        text = ",".join(f'{name}="{value}"' for name, value in labels.items())
        return metrics_page(rows, f"vllm:cache_config_info{{{text}}} 1.0")

    def _info(self) -> dict[str, Any]:
        config: dict[str, Any] = {
            "model_config": {"max_model_len": self.served.context_length, "dtype": self.served.dtype},
            "scheduler_config": {
                "max_num_seqs": self.rules.running,
                "max_num_batched_tokens": self.rules.chunk,
                "max_num_scheduled_tokens": self.rules.chunk,
                "enable_chunked_prefill": True,
            },
            "speculative_config": self._speculation() or None,
        }
        return {"vllm_config": config, "simulated": MARK}

    def _speculation(self) -> dict[str, Any]:
        speculation = self.served.arm.speculation
        if not speculation.on:
            return {}
        return {
            "method": speculation.method,
            "model": speculation.draft or self.served.model,
            "num_speculative_tokens": speculation.drafts,
        }

    def _line(self, text: str, level: str = "INFO") -> str:
        stamp = time.strftime("%m-%d %H:%M:%S")
        return f"(EngineCore pid=1) {level} {stamp} [simulated.py:1] {text}"


def _json(value: Any) -> Page:
    return Page(json.dumps(value).encode())
