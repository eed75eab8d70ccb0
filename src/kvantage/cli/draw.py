"""A board as lines that fit a terminal of any size: pure, so that it can be tested and looked at."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.cells import cell_len, set_cell_size

from kvantage.cli.board import Board, Boot, Mark, phase_of
from kvantage.cli.plain import clock
from kvantage.report.escape import plain

SIGNS: dict[Mark, tuple[str, str]] = {
    "waiting": ("·", "dim"),
    "running": ("▶", "yellow"),
    "done": ("✓", "green"),
    "failed": ("✗", "red"),
    "skipped": ("–", "dim"),
}
Piece = tuple[str, str]
"""Text and its style."""
Line = list[Piece]

GAP = "  "
LEAST_ARMS = 2


def draw(board: Board, title: str, width: int, height: int, now: float) -> list[Line]:
    """At most `height` lines of at most `width` columns: the head, the grid, what goes on, the notes.

    Where there is no room, notes go first, then the arms furthest from the one at work, which is said.
    """
    head = _head(board, title, width, now)
    doing: list[Line] = [[], *_wrapped(board.now, width, "", 2), *_numbers(board, width)]
    room = max(LEAST_ARMS + 1, height - len(head) - len(doing) - 1)
    grid = _grid(board, width, room)
    left = height - len(head) - len(grid) - len(doing)
    lines = [*head, *grid, *doing, *_notes(board, width, left)]
    # what a server says is not ours: no escape sequence of it reaches the terminal
    lines = [[(plain(text, fold=False), style) for text, style in line] for line in lines]
    return [_cut(line, width) for line in lines[: max(1, height)]]


def _head(board: Board, title: str, width: int, now: float) -> list[Line]:
    words = f"{title}   {clock(now - board.began)} so far"
    if board.blocks > 1:
        words += f"   block {board.block + 1} of {board.blocks}"
    left = board.seconds_left(now)
    if left is None:
        return [[(words, "bold")], []]
    assert board.left is not None
    words += f"   about {clock(left)} left"
    basis = f"time left: {board.left[2]}"
    return [[(words, "bold")], *_wrapped(basis, width, "dim", 2), []]


def _grid(board: Board, width: int, room: int) -> list[Line]:
    """A row an arm, a column a phase, in it a sign for each chain; a folded one tells how many are done."""
    if not board.boots:
        return []
    phases, arms = board.phases, list(board.boots)
    boots = {arm: board.boot_shown(arm) for arm in arms}
    several = board.blocks > 1
    first = min(max(map(cell_len, [*arms, "arm"])), max(8, width // 4))
    columns = [max(cell_len(phase), *(len(_chains(boots[arm], phase)) for arm in arms)) for phase in phases]
    boot_column = max(5, board.blocks) if several else 0
    if first + boot_column + sum(columns) + len(GAP) * (len(columns) + 1) > width:
        columns = [max(min(cell_len(phase), 6), 5) for phase in phases]
    lines: list[Line] = [_row("arm", first, "bold")]
    lines[0] += [(GAP + _fit("boots", boot_column), "bold")] if several else []
    lines[0] += [(GAP + _fit(phase, size), "bold") for phase, size in zip(phases, columns, strict=True)]
    shown, above, below = _window(arms, board.place[0] if board.place else None, room - 1)
    lines += [[(f"… {above} more above", "dim")]] if above else []
    for arm in shown:
        at_work = board.place is not None and board.place[0] == arm
        line = _row(arm, first, "bold" if at_work else "")
        if several:
            marks = [board.boots[arm][block].mark for block in sorted(board.boots[arm])]
            line += [(GAP, ""), *_signs(marks, boot_column)]
        for phase, size in zip(phases, columns, strict=True):
            line += [(GAP, ""), *_signs(_chains(boots[arm], phase), size)]
        lines.append(line)
    lines += [[(f"… {below} more below", "dim")]] if below else []
    return lines


def _row(name: str, size: int, style: str) -> Line:
    return [(_fit(name, size), style)]


def _chains(boot: Boot, phase: str) -> list[Mark]:
    return [mark for chain, mark in boot.chains.items() if phase_of(chain) == phase]


def _signs(marks: Sequence[Mark], size: int) -> Iterable[Piece]:
    """A sign each; where they do not fit, how many are done of how many, after the sign that matters most."""
    if len(marks) <= size:
        yield from (SIGNS[mark] for mark in marks)
        yield " " * (size - len(marks)), ""
        return
    worst: Mark = next((mark for mark in ("failed", "running", "waiting") if mark in marks), "done")
    sign, style = SIGNS[worst]
    done = len(marks) - marks.count("waiting") - marks.count("running")
    yield _fit(f"{sign}{done}/{len(marks)}", size), style


def _window(arms: Sequence[str], at_work: str | None, room: int) -> tuple[Sequence[str], int, int]:
    """The arms to show, and how many are above and below them."""
    if len(arms) <= room:
        return arms, 0, 0
    size = max(1, room - 2)
    place = arms.index(at_work) if at_work in arms else 0
    start = min(max(0, place - size // 2), len(arms) - size)
    return arms[start : start + size], start, len(arms) - start - size


def _numbers(board: Board, width: int) -> list[Line]:
    """What the server does now, as many parts a line as fit; a figure that is not told is a dash."""
    if board.cell is None:
        return []
    cell, gauges = board.cell, board.gauges
    parts = [
        f"{board.speed:,.1f} tok/s" if board.speed is not None else "- tok/s",
        f"AL {board.length:.2f}" if board.length is not None else "AL -",
        f"cache {cell.hit:,} of {cell.asked:,} prompt tokens" if cell.told_hits else "cache -",
        f"running {gauges['running']:.0f}" if "running" in gauges else "running -",
        f"waiting {gauges['waiting']:.0f}" if "waiting" in gauges else "waiting -",
        _pool(board),
    ]
    lines: list[str] = []
    for part in parts:
        if lines and cell_len(lines[-1]) + 3 + cell_len(part) <= width:
            lines[-1] += f"   {part}"
        else:
            lines.append(part)
    return [[(line, "cyan")] for line in lines]


def _pool(board: Board) -> str:
    usage = board.gauges.get("pool_usage")
    total = f" of {board.pool:,.0f} tokens" if board.pool is not None else ""
    return f"pool {usage:.0%}{total}" if usage is not None else f"pool -{total}"


def _notes(board: Board, width: int, room: int) -> list[Line]:
    """The latest that fit, a line each, the newest last."""
    if room < 2 or not board.notes:
        return []
    latest = list(board.notes)[-(room - 1) :]
    return [[], *([(f"note: {' '.join(text.split())}", "yellow")] for text in latest)]


def _wrapped(text: str, width: int, style: str, most: int) -> list[Line]:
    """Text by words, at most so many lines; what is beyond ends in dots."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if cell_len(longer) <= width or not lines[-1]:
            lines[-1] = longer
        elif len(lines) < most:
            lines.append(word)
        else:
            lines[-1] = _fit(longer, width)
            break
    return [[(line, style)] for line in lines]


def _fit(text: str, size: int) -> str:
    """Text in exactly so many columns, its end cut with a dot sign where it is too long."""
    if cell_len(text) <= size:
        return set_cell_size(text, size)
    return set_cell_size(text, max(0, size - 1)) + "…" if size else ""


def _cut(line: Line, width: int) -> Line:
    made: Line = []
    left = width
    for text, style in line:
        size = cell_len(text)
        if size > left:
            made.append((_fit(text, left), style))
            break
        made.append((text, style))
        left -= size
    return made
