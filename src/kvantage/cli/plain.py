"""Progress as plain lines: for logs, pipes and `--plain`."""

from __future__ import annotations

from typing import Any

import click

from kvantage.cli.board import Board, Told
from kvantage.report.escape import plain


class PlainView:
    """Says each event that matters in a line, with the time since the start."""

    def __init__(self, began: float | None = None) -> None:
        self._board = Board(began)
        self._at = self._board.began

    def __enter__(self) -> PlainView:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def on(self, kind: str, **fields: Any) -> None:
        """Take note of one event that happens now."""
        self.take(Told(kind, fields))

    def take(self, told: Told) -> None:
        """Take note of one event."""
        self._board.take(told)
        self._at = told.at
        say = getattr(self, f"_on_{told.kind}", None)
        if say is not None:
            say(**told.fields)

    def _say(self, text: str) -> None:
        # what a server says is not ours: no escape sequence of it reaches the terminal
        lines = (plain(line, fold=False) for line in text.splitlines() or [""])
        click.echo(f"[{clock(self._at - self._board.began)}] " + "\n".join(lines))

    def _on_plan(self, arms: list[Any], kept: list[str], estimate_s: float, basis: str, **_: Any) -> None:
        boots = ", ".join(f"{arm}#{block}" for arm, block, *_ in arms) or "nothing"
        self._say(f"to do: {boots}; about {clock(estimate_s)} ({basis})")
        if kept:
            self._say(f"measured before and kept: {', '.join(kept)}")

    def _on_block(self, number: int, most: int, boots: list[Any], **_: Any) -> None:
        if most > 1:
            order = ", ".join(arm for arm, *_ in boots)
            self._say(f"block {number + 1} of {most}: {order}")

    def _on_look(self, words: str, **_: Any) -> None:
        self._say(words)

    def _on_boot(self, arm: str, block: int, log: str, **_: Any) -> None:
        count = f" (block {block + 1} of {self._board.blocks})" if self._board.blocks > 1 else ""
        self._say(f"{arm}#{block}: starting its server{count}; log: {log}")

    def _on_ready(self, arm: str, block: int, seconds: float, version: str | None, **fields: Any) -> None:
        pool = fields.get("pool_tokens")
        held = f", pool {pool:,.0f} tokens" if pool is not None else ""
        self._say(f"{arm}#{block}: ready in {seconds:.0f} s, version {version or 'not told'}{held}")

    def _on_request(self, ok: bool, error: str | None, **fields: Any) -> None:
        if not ok:
            self._say(f"  request {fields['prompt_id']} failed: {error}")
        cell = self._board.cell
        if cell is None or cell.ended != cell.requests:
            return
        cache = (
            f"{cell.hit:,} of {cell.asked:,} prompt tokens from the cache"
            if cell.told_hits
            else "cached tokens not reported"
        )
        length = self._board.length
        drafted = f", AL {length:.2f}" if length is not None else ""
        what = f"{cell.phase} {cell.workload} at {cell.concurrency}"
        self._say(f"{cell.arm}#{cell.block}: {what}: {cell.ended} requests, {cache}{drafted}")

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

    def _on_stopping(self, text: str, **_: Any) -> None:
        click.echo(text, err=True)

    def _on_warning(self, text: str, **_: Any) -> None:
        self._say(f"note: {text}")


def clock(seconds: float) -> str:
    """`0:42`, `12:05`, `2:03:10`."""
    whole = max(0, round(seconds))
    minutes, second = divmod(whole, 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02d}:{second:02d}" if hours else f"{minute}:{second:02d}"
