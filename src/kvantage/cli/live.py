"""Progress in a terminal: arms by phases as a grid that fills, and what is going on right now."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from kvantage.cli.board import Board, Told
from kvantage.cli.draw import draw
from kvantage.report.escape import plain

Held = Callable[[], Iterable[tuple[str, int, str]]]
PERIOD_S = 0.25


class LiveView:
    """Redraws itself a few times a second on the terminal's other screen, from events alone.

    The other screen is why a resize leaves nothing behind: each drawing is the whole of it. What must
    outlast it (failures, the person's own Ctrl-C) is printed when it is left. `held` tells the chains that
    were measured in earlier runs.
    """

    def __init__(
        self, title: str, console: Console, *, held: Held | None = None, began: float | None = None
    ) -> None:
        self.board = Board(began)
        self._title = title
        self._console = console
        self._held = held
        self._asked = False
        self._stopping: str | None = None
        self._live = self._screen()

    def _screen(self) -> Live:
        # its own thread draws; four times a second is what a person can follow
        return Live(self, console=self._console, refresh_per_second=1 / PERIOD_S, screen=True)

    def __enter__(self) -> LiveView:
        self._live.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._live.stop()
        for head, lines in self.board.failures:
            self._console.print(Text(plain(head), style="red"))
            for line in lines:
                self._console.print(Text(f"    {plain(line)}"))
        if self._stopping:
            self._console.print(Text(self._stopping))

    def on(self, kind: str, **fields: Any) -> None:
        """Take note of one event that happens now."""
        self.take(Told(kind, fields))

    def take(self, told: Told) -> None:
        """Take note of one event."""
        self.board.take(told)
        if told.kind == "plan" and self._held is not None:
            self.board.hold(self._held())
        elif told.kind == "ask":
            self._ask(str(told.fields["text"]))
        elif told.kind == "stopping":
            self._stopping = str(told.fields["text"])
        elif self._asked and told.kind in ("ready", "failed"):
            self._asked = False
            self._live = self._screen()
            self._live.start()

    def _ask(self, text: str) -> None:
        """Leave the screen, so that what the person is to copy stays where it can be copied."""
        self._asked = True
        self._live.stop()
        self._console.print(Text(f"please {text}", style="bold"))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width, height = options.max_width, options.height or console.height
        for number, line in enumerate(draw(self.board, self._title, width, height, time.time())):
            if number:
                yield Segment.line()
            yield from _segments(line)


def _segments(line: Sequence[tuple[str, str]]) -> Iterable[Segment]:
    for text, style in line:
        yield Segment(text, Style.parse(style) if style else None)
