"""Progress as plain lines: for logs, pipes and `--plain`."""

from __future__ import annotations

import time
from typing import Any

import click


class PlainView:
    """Says each event that matters in a line, with the time since the start."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._cell: dict[str, Any] = {}
        self._done = 0
        self._tokens = (0, 0)

    def __enter__(self) -> PlainView:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def on(self, kind: str, **fields: Any) -> None:
        """Take note of one event."""
        say = getattr(self, f"_on_{kind}", None)
        if say is not None:
            say(**fields)

    def _say(self, text: str) -> None:
        click.echo(f"[{clock(time.monotonic() - self._began)}] {text}")

    def _on_plan(self, arms: list[Any], kept: list[str], estimate_s: float, basis: str, **_: Any) -> None:
        boots = ", ".join(f"{arm}#{block}" for arm, block, _ in arms) or "nothing"
        self._say(f"to do: {boots}; about {clock(estimate_s)} ({basis})")
        if kept:
            self._say(f"measured before and kept: {', '.join(kept)}")

    def _on_boot(self, arm: str, block: int, log: str, **_: Any) -> None:
        self._say(f"{arm}#{block}: starting its server; log: {log}")

    def _on_ready(self, arm: str, block: int, seconds: float, version: str | None, **fields: Any) -> None:
        pool = fields.get("pool_tokens")
        held = f", pool {pool:,.0f} tokens" if pool is not None else ""
        self._say(f"{arm}#{block}: ready in {seconds:.0f} s, version {version or 'not told'}{held}")

    def _on_cell(self, arm: str, block: int, requests: int, **fields: Any) -> None:
        self._cell = {"arm": arm, "block": block, "requests": requests, **fields}
        self._done = 0
        self._tokens = (0, 0)

    def _on_request(self, ok: bool, error: str | None, **fields: Any) -> None:
        self._done += 1
        cached, prompt = fields.get("cached_tokens") or 0, fields.get("prompt_tokens") or 0
        self._tokens = (self._tokens[0] + cached, self._tokens[1] + prompt)
        if not ok:
            self._say(f"  request {fields['prompt_id']} failed: {error}")
        if self._done == self._cell.get("requests"):
            cell, (hit, asked) = self._cell, self._tokens
            what = f"{cell['phase']} {cell['workload']} at {cell['concurrency']}"
            self._say(
                f"{cell['arm']}#{cell['block']}: {what}: {self._done} requests,"
                f" {hit:,} of {asked:,} prompt tokens from the cache"
            )

    def _on_left(self, seconds: float, basis: str, **_: Any) -> None:
        self._say(f"about {clock(seconds)} left ({basis})")

    def _on_skip(self, arm: str, block: int, phase: str, workload: str, reason: str, **_: Any) -> None:
        self._say(f"{arm}#{block}: {phase} {workload} skipped: {reason}")

    def _on_failed(self, arm: str, block: int, reason: str, log_lines: Any, **fields: Any) -> None:
        self._say(f"{arm}#{block}: FAILED: {reason}")
        for line in log_lines[:8]:
            self._say(f"    {line}")
        if fields.get("hint"):
            self._say(f"    {fields['hint']}")

    def _on_ask(self, text: str, **_: Any) -> None:
        self._say(f"PLEASE {text}")

    def _on_warning(self, text: str, **_: Any) -> None:
        self._say(f"note: {text}")


def clock(seconds: float) -> str:
    """`0:42`, `12:05`, `2:03:10`."""
    whole = max(0, round(seconds))
    minutes, second = divmod(whole, 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02d}:{second:02d}" if hours else f"{minute}:{second:02d}"
