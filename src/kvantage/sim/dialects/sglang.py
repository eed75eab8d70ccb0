"""SGLang: its scheduler as rules, and its addresses, metrics and log lines (as of 0.5.23)."""

from __future__ import annotations

import json
import time
from typing import Any

from kvantage.golden.source import Page
from kvantage.planner.memory import GIB, Demand, Pool
from kvantage.planner.pools.sglang import SPECULATIVE_RUNNING, slots_a_request
from kvantage.sim.engine import Engine
from kvantage.sim.front import MARK, Served, Totals, histogram, metrics_page, usage, usage_share
from kvantage.sim.request import Request
from kvantage.sim.rules import Rules
from kvantage.sim.step import Step

VERSION = "0.5.23"
CHUNK = 8192
PAIRS = ("mtp", "eagle3", "draft_model")
"""Drafters under which the keys of the prefix tree are pairs of tokens: a hit is a token shorter."""
EVERY_STEPS = 40
"""Decode steps between two lines of the log."""
ALGORITHMS = {
    "mtp": "EAGLE",
    "eagle3": "EAGLE3",
    "dflash": "DFLASH",
    "draft_model": "STANDALONE",
    "ngram": "NGRAM",
}


def rules(demand: Demand, pool: Pool) -> Rules:
    """How this arm would schedule. The share of an answer that is reserved is the scheduler's first guess."""
    hybrid = bool(demand.target.state_layers)
    chunk = demand.settings.chunked_prefill or CHUNK
    return Rules(
        running=pool.max_running or demand.settings.max_running_requests or SPECULATIVE_RUNNING,
        chunk=chunk if chunk > 0 else 10**9,
        page=pool.block_tokens,
        drafts=demand.drafts,
        hit_shorter=1 if demand.speculation.method in PAIRS else 0,
        reserve=0.7,
        states=pool.state_slots if hybrid and pool.state_slots else None,
        states_running=slots_a_request(demand) if hybrid else 1,
        prefix_caching=demand.settings.prefix_caching is not False,
    )


class Front:
    """SGLang's own words for one simulated server."""

    def __init__(self, served: Served, rules: Rules) -> None:
        self.served = served
        self.rules = rules
        self._before = Totals()
        self._since = 0.0
        self._decoded = 0

    def boot_lines(self) -> list[str]:
        served, pool = self.served, self.served.arm.pool
        lines = [self._line(MARK)]
        arguments = ", ".join(f"{name}={value!r}" for name, value in self._arguments().items())
        lines.append(self._line(f"server_args=ServerArgs({arguments})"))
        if pool:
            size = pool.at.token_bytes * served.tokens / GIB
            lines.append(
                self._line(
                    f"KV Cache is allocated. dtype: torch.bfloat16, #tokens: {served.tokens}, "
                    f"KV size: {size:.2f} GB"
                )
            )
            lines.append(self._line("Memory pool end. avail mem=1.00 GB"))
        lines.append(
            self._line(
                f"max_total_num_tokens={served.tokens}, chunked_prefill_size={self.rules.chunk}, "
                f"max_prefill_tokens=16384, max_running_requests={self.rules.running}, "
                f"context_len={served.context_length}, available_gpu_mem=1.00 GB"
            )
        )
        return lines

    def step(self, step: Step, engine: Engine, totals: Totals) -> list[str]:
        share = usage_share(engine)
        if step.kind == "prefill":
            return [
                self._line(
                    f"Prefill batch, #new-seq: 1, #new-token: {step.new_tokens}, "
                    f"#cached-token: {step.cached_tokens}, token usage: {share:.2f}, "
                    f"#running-req: {step.running}, #queue-req: {step.waiting}, "
                    f"input throughput (token/s): {step.new_tokens / max(step.seconds, 1e-9):.2f}"
                )
            ]
        self._decoded += 1
        if self._decoded % EVERY_STEPS:
            return []
        old = self._before
        passed = max(engine.now - self._since, 1e-9) / self.served.speed
        spec = ""
        if (steps := totals.drafting_steps - old.drafting_steps) > 0:
            accepted = totals.accepted - old.accepted
            rate = accepted / (steps * self.rules.drafts)
            spec = f"accept len: {1 + accepted / steps:.2f}, accept rate: {rate:.2f}, "
        held = round(share * self.served.tokens)
        line = self._line(
            f"Decode batch, #running-req: {step.running}, #token: {held}, token usage: {share:.2f}, {spec}"
            f"cuda graph: True, gen throughput (token/s): {(totals.generated - old.generated) / passed:.2f}, "
            f"#queue-req: {step.waiting}"
        )
        self._before, self._since = Totals(**{**vars(totals)}), engine.now
        return [line]

    def counts(self, request: Request) -> tuple[dict[str, Any], dict[str, Any]]:
        meta: dict[str, Any] = {
            "prompt_tokens": request.prompt_tokens,
            "completion_tokens": request.produced,
            "cached_tokens": request.cached_tokens,
            "queue_time": request.queued / self.served.speed,
            "num_retractions": request.retractions,
        }
        if self.rules.drafts and request.steps:
            meta |= {
                "spec_verify_ct": request.steps,
                "spec_num_correct_drafts": request.accepted,
                "spec_num_proposed_drafts": request.drafted,
                "spec_accept_rate": request.accepted / request.drafted,
                "spec_accept_length": request.produced / request.steps,
                "spec_correct_drafts_histogram": histogram(request, self.rules.drafts),
            }
        return usage(request), {"meta_info": meta}

    def page(
        self, method: str, path: str, body: bytes, engine: Engine, totals: Totals
    ) -> tuple[Page | None, list[str]]:
        match path:
            case "/metrics":
                return self._metrics(engine, totals), []
            case "/server_info" | "/get_server_info":
                return _json(self._info()), []
            case "/model_info" | "/get_model_info":
                return _json({"model_path": self.served.model, "served_model_name": self.served.name}), []
            case "/v1/models":
                entry = {
                    "id": self.served.name,
                    "object": "model",
                    "max_model_len": self.served.context_length,
                }
                return _json({"object": "list", "data": [entry]}), []
            case "/flush_cache":
                if engine.running or engine.waiting:
                    return Page(b"Flush cache failed: requests are running.", 400, "text/plain"), []
                engine.cache.flush()
                return Page(b"Cache flushed.\n", content_type="text/plain"), [self._line("Cache flushed")]
        return None, []

    def _arguments(self) -> dict[str, Any]:
        speculation = self.served.arm.speculation
        demand = self.served.arm.demand
        arguments: dict[str, Any] = {
            "model_path": self.served.model,
            "served_model_name": self.served.name,
            "kv_cache_dtype": demand.kv_name if demand else "auto",
            "tp_size": demand.tp if demand else 1,
            "page_size": self.rules.page,
            "chunked_prefill_size": self.rules.chunk,
            "max_running_requests": self.rules.running,
            "disable_radix_cache": not self.rules.prefix_caching,
            "speculative_algorithm": ALGORITHMS.get(speculation.method),
        }
        if speculation.on:
            arguments["speculative_num_draft_tokens"] = self.rules.drafts + 1
            arguments["speculative_num_steps"] = 1 if speculation.method == "dflash" else self.rules.drafts
            arguments["speculative_draft_model_path"] = speculation.draft or self.served.model
        return arguments

    def _info(self) -> dict[str, Any]:
        pool = self.served.arm.pool
        memory: dict[str, Any] = {"token_capacity": self.served.tokens}
        if pool:
            memory["kvcache"] = round(pool.at.token_bytes * self.served.tokens / GIB, 3)
        state = {"effective_max_running_requests_per_dp": self.rules.running, "memory_usage": memory}
        return {
            **self._arguments(),
            "version": VERSION,
            "context_length": self.served.context_length,
            "max_total_num_tokens": self.served.tokens,
            "internal_states": [state],
            "simulated": MARK,
        }

    def _metrics(self, engine: Engine, totals: Totals) -> Page:
        label = f'{{model_name="{self.served.name}",tp_rank="0"}}'
        rows: dict[str, float] = {
            f"sglang:num_running_reqs{label}": len(engine.running),
            f"sglang:num_queue_reqs{label}": len(engine.waiting),
            f"sglang:token_usage{label}": usage_share(engine),
            f"sglang:prompt_tokens_total{label}": totals.prompt,
            f"sglang:cached_tokens_total{label}": totals.hit,
            f"sglang:generation_tokens_total{label}": totals.generated,
            f"sglang:num_requests_total{label}": totals.finished,
            f"sglang:num_retracted_requests_total{label}": engine.retracted,
            f"sglang:queue_time_seconds_sum{label}": totals.queue_s,
            f"sglang:inter_token_latency_seconds_count{label}": totals.chunks,
            f"sglang:max_total_num_tokens{label}": self.served.tokens,
            f"sglang:context_len{label}": self.served.context_length,
            f"sglang:page_size{label}": self.rules.page,
            "process_start_time_seconds": totals.started_at,
        }
        if self.rules.drafts:
            rows[f"sglang:spec_verify_calls_total{label}"] = totals.drafting_steps
            rows[f"sglang:spec_num_draft_tokens{label}"] = self.rules.drafts + 1
        return metrics_page(rows)

    def _line(self, text: str) -> str:
        return f"[{time.strftime('%Y-%m-%d %H:%M:%S')}] {text}"


def _json(value: Any) -> Page:
    return Page(json.dumps(value).encode())
