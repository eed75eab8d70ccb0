"""What a simulated server says beside its streams: boot log, log lines, metrics, its own addresses."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from kvantage.golden.source import Page
from kvantage.planner.plan import ArmPlan
from kvantage.sim.engine import Engine
from kvantage.sim.request import Request
from kvantage.sim.step import Step

MARK = "kvantage simulates this engine: nothing that it says is measured"


@dataclass(frozen=True)
class Served:
    """The server as its arm asked for it. `tokens` is its pool, as in the engine's own words; `speed` is
    virtual seconds a real one: what it says of time is in real ones, like what a client sees.
    """

    name: str
    model: str
    arm: ArmPlan
    tokens: int
    context_length: int
    dtype: str
    speed: float = 1.0


@dataclass
class Totals:
    """Counters since the start, as /metrics tells them."""

    prompt: int = 0
    generated: int = 0
    queried: int = 0
    hit: int = 0
    drafting_steps: int = 0
    drafted: int = 0
    accepted: int = 0
    finished: int = 0
    queue_s: float = 0.0
    chunks: int = 0
    started_at: float = field(default_factory=time.time)

    def step(self, step: Step, drafts: int) -> None:
        """Count a step."""
        self.drafted += step.drafted
        self.accepted += step.accepted
        self.drafting_steps += step.drafted // drafts if drafts else 0
        self.generated += step.emitted

    def end(self, request: Request, speed: float) -> None:
        """Count a request that is finished. `speed` is virtual seconds a real one."""
        self.finished += 1
        self.prompt += request.prompt_tokens
        self.queried += request.prompt_tokens
        self.hit += request.first_cached or 0
        self.queue_s += request.queued / speed
        self.chunks += max(0, len(request.chunks) - 1)


class Front(Protocol):
    """One engine's ways of saying it."""

    def boot_lines(self) -> list[str]:
        """The lines of its log up to the moment at which it serves."""
        ...

    def step(self, step: Step, engine: Engine, totals: Totals) -> list[str]:
        """The lines that a step adds to its log."""
        ...

    def counts(self, request: Request) -> tuple[dict[str, Any], dict[str, Any]]:
        """(usage, other fields of the last chunk) of a finished request."""
        ...

    def page(
        self, method: str, path: str, body: bytes, engine: Engine, totals: Totals
    ) -> tuple[Page | None, list[str]]:
        """The answer at any address that is not a completion, and lines for the log."""
        ...


def usage(request: Request) -> dict[str, Any]:
    """OpenAI's usage, as both engines give it."""
    return {
        "prompt_tokens": request.prompt_tokens,
        "completion_tokens": request.produced,
        "total_tokens": request.length,
        "prompt_tokens_details": {"cached_tokens": request.cached_tokens},
    }


def histogram(request: Request, drafts: int) -> list[int]:
    """Steps by how many drafts they accepted, so that its sums are the request's own counts."""
    return [request.accepted_counts.get(i, 0) for i in range(drafts + 1)]


def metrics_page(rows: Mapping[str, float], info: str = "") -> Page:
    """Samples in Prometheus' text form."""
    lines = [
        f"{name} {value:g}" if value != int(value) else f"{name} {int(value)}" for name, value in rows.items()
    ]
    return Page(
        ("\n".join([f"# {MARK}", *lines, info]) + "\n").encode(), content_type="text/plain; version=0.0.4"
    )


def usage_share(engine: Engine) -> float:
    """The share of the pool that is in use, 0 to 1."""
    return 1 - engine.cache.available() / engine.cache.capacity if engine.cache.capacity else 0.0
