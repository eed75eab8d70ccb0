"""Progress in a terminal: arms by chains as a grid that fills, and what is going on right now."""

from __future__ import annotations

import time
from collections import deque
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from kvantage.cli.plain import clock

WAITING, RUNNING, DONE, FAILED, SKIPPED = "·", "▶", "✓", "✗", "–"
COLOURS = {RUNNING: "yellow", DONE: "green", FAILED: "red", SKIPPED: "dim", WAITING: "dim"}


class LiveView:
    """Redraws itself a few times a second, from events alone."""

    def __init__(self, title: str, console: Console) -> None:
        self._title = title
        self._console = console
        self._began = time.monotonic()
        self._marks: dict[tuple[str, int], dict[str, str]] = {}
        self._chains: list[str] = []
        self._arm: tuple[str, int] | None = None
        self._chain: str | None = None
        self._now = "starting"
        self._speed: float | None = None
        self._gauges: dict[str, float] = {}
        self._hit = self._asked = 0
        self._left: tuple[float, float, str] | None = None
        self._said: deque[str] = deque(maxlen=4)
        self._live = Live(self, console=console, refresh_per_second=4, transient=True)

    def __enter__(self) -> LiveView:
        self._live.__enter__()
        return self

    def __exit__(self, *problem: Any) -> None:
        self._live.__exit__(*problem)

    def on(self, kind: str, **fields: Any) -> None:
        """Take note of one event."""
        note = getattr(self, f"_on_{kind}", None)
        if note is not None:
            note(**fields)

    def _on_plan(self, arms: list[Any], estimate_s: float, basis: str, **_: Any) -> None:
        for arm, block, chains in arms:
            self._marks[arm, block] = dict.fromkeys(chains, WAITING)
            self._chains += [chain for chain in chains if chain not in self._chains]
        self._left = (time.monotonic(), estimate_s, basis)

    def _on_boot(self, arm: str, block: int, **_: Any) -> None:
        self._arm = (arm, block)
        self._chain = None
        self._now = f"{arm}, boot {block}: starting its server"

    def _on_ready(self, arm: str, seconds: float, **fields: Any) -> None:
        pool = fields.get("pool_tokens")
        self._now = f"{arm}: ready in {seconds:.0f} s" + (f", pool {pool:,.0f} tokens" if pool else "")

    def _on_chain(self, chain: str, **_: Any) -> None:
        self._finish(DONE)
        self._chain = chain
        self._mark(RUNNING)

    def _on_cell(self, arm: str, block: int, phase: str, workload: str, **fields: Any) -> None:
        self._requests, self._done = fields["requests"], 0
        self._hit = self._asked = 0
        self._cell = f"{arm}, boot {block}: {phase} {workload} at {fields['concurrency']}"
        self._now = f"{self._cell}, request 1 of {self._requests}"

    def _on_request(self, **fields: Any) -> None:
        self._done += 1
        self._hit += fields.get("cached_tokens") or 0
        self._asked += fields.get("prompt_tokens") or 0
        place = min(self._done + 1, self._requests)
        self._now = f"{self._cell}, request {place} of {self._requests}"
        if not fields["ok"]:
            self._said.append(f"{fields['prompt_id']} failed: {fields['error']}")

    def _on_live(self, tok_s: float | None, **gauges: Any) -> None:
        self._speed = tok_s
        self._gauges = gauges

    def _on_left(self, seconds: float, basis: str, **_: Any) -> None:
        self._left = (time.monotonic(), seconds, basis)

    def _on_skip(self, arm: str, phase: str, workload: str, reason: str, **_: Any) -> None:
        self._said.append(f"{arm}: {phase} {workload} skipped: {reason}")

    def _on_failed(self, arm: str, reason: str, log_lines: Any, **_: Any) -> None:
        self._finish(FAILED)
        self._console.print(Text(f"{arm} failed: {reason}", style="red"))
        for line in log_lines[:8]:
            self._console.print(Text(f"    {line}"))

    def _on_stopped(self, **_: Any) -> None:
        self._finish(DONE)
        self._chain = None
        self._speed = None

    def _on_ask(self, text: str, **_: Any) -> None:
        self._console.print(Text(f"please {text}", style="bold"))

    def _on_warning(self, text: str, **_: Any) -> None:
        self._said.append(text)

    def _mark(self, mark: str) -> None:
        if self._arm is not None and self._chain is not None:
            self._marks.setdefault(self._arm, {})[self._chain] = mark

    def _finish(self, mark: str) -> None:
        held = self._marks.get(self._arm, {}).get(self._chain or "") if self._arm else None
        if held == RUNNING:
            self._mark(mark)

    def __rich__(self) -> RenderableType:
        now = time.monotonic()
        head = f"{self._title}   {clock(now - self._began)} so far"
        if self._left is not None:
            at, seconds, basis = self._left
            head += f", about {clock(seconds - (now - at))} left ({basis})"
        parts: list[RenderableType] = [Text(head, style="bold"), self._grid(), Text(self._now)]
        parts.append(Text(self._numbers(), style="cyan"))
        parts += [
            Text(f"note: {text}", style="dim", overflow="ellipsis", no_wrap=True) for text in self._said
        ]
        return Group(*parts)

    def _grid(self) -> Table:
        grid = Table(box=None, padding=(0, 1), pad_edge=False)
        grid.add_column("arm")
        for chain in self._chains:
            grid.add_column(chain, justify="center", overflow="fold")
        for (arm, block), marks in self._marks.items():
            cells = [Text(m := marks.get(chain, " "), style=COLOURS.get(m, "")) for chain in self._chains]
            grid.add_row(f"{arm}#{block}", *cells)
        return grid

    def _numbers(self) -> str:
        parts = [f"{self._speed:.1f} tok/s now" if self._speed is not None else "- tok/s"]
        if self._asked:
            parts.append(f"cache: {self._hit:,} of {self._asked:,} prompt tokens hit")
        if "running" in self._gauges:
            parts.append(
                f"running {self._gauges['running']:.0f}, waiting {self._gauges.get('waiting', 0):.0f}"
            )
        if "pool_usage" in self._gauges:
            parts.append(f"pool {self._gauges['pool_usage']:.0%}")
        return "   ".join(parts)
