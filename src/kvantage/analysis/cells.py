"""Requests and windows grouped into cells, by columns: one stable sort, whatever the number of requests."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from kvantage.core import EXACTNESS
from kvantage.core.cell import CellKey
from kvantage.core.columns import CellWindow, Ints, RequestColumns, StudyData

PHASE_ORDER = ("ttft", "probes", "short", "sweep", "cold", "repeat")
RECHECK = "recheck"
"""A short look at the control in a later session: it tells of drift and is no cell of a table."""


@dataclass(frozen=True)
class Cell:
    """One cell with the rows that count in it.

    `rows` are indices of its measured requests, `warmups` of its warm-ups; both only from the attempts
    that `windows` lists. `broken` are attempts that were broken off: shown and not used.
    """

    key: CellKey
    rows: Ints
    warmups: Ints
    windows: tuple[CellWindow, ...]
    broken: tuple[CellWindow, ...] = ()


def group_cells(data: StudyData) -> tuple[Cell, ...]:
    """Every cell of the study, in the order of the study's arms, then block, phase, workload, concurrency.

    Of each chain the latest attempt counts whose windows are all complete: a chain that was broken off
    ran again whole, so nothing of the broken attempt is mixed in.
    """
    windows = tuple(window for window in data.windows if window.key.phase not in (RECHECK, EXACTNESS))
    return _group(data, windows)


def group_rechecks(data: StudyData) -> tuple[Cell, ...]:
    """The control's rechecks, a cell a session, oldest first."""
    windows = [window for window in data.windows if window.key.phase == RECHECK]
    chains = dict.fromkeys((window.measured_at, window.chain) for window in windows)
    return tuple(
        cell
        for _, chain in sorted(chains)
        for cell in _group(data, tuple(window for window in windows if window.chain == chain))
    )


def _group(data: StudyData, chosen: tuple[CellWindow, ...]) -> tuple[Cell, ...]:
    used, broken = _choose(chosen)
    rows_of = _rows_by_window(data.requests)
    keys = {window.key for window in chosen}
    order = {arm.name: place for place, arm in enumerate(data.arms)}
    cells = []
    for key in sorted(keys, key=lambda k: _place(k, order)):
        windows = used.get(key, ())
        rows = _join(rows_of.get(_window_id(window), ()) for window in windows)
        warm = data.requests.warmup[rows]
        cells.append(Cell(key, rows[~warm], rows[warm], windows, broken.get(key, ())))
    return tuple(cells)


def ranges(starts: Ints, counts: Ints) -> Ints:
    """The indices start, start + 1, ... of every (start, count), one after another, without a loop."""
    total = int(counts.sum())
    before = np.repeat(np.cumsum(counts) - counts, counts)
    return np.repeat(starts, counts) + np.arange(total, dtype=np.int64) - before


def wave_labels(requests: RequestColumns, rows: Ints) -> Ints:
    """A whole number for each wave: the requests of one repeat of one chain leave together."""
    chains = requests.code("chain")[rows]
    repeats = requests.repeat[rows]
    return chains * (int(repeats.max(initial=0)) + 1) + repeats


_WindowId = tuple[str, int, str, str, int, str, int]


def _window_id(window: CellWindow) -> _WindowId:
    key = window.key
    return (
        key.arm,
        key.block,
        key.phase,
        key.workload,
        key.concurrency,
        window.chain,
        window.attempt,
    )


def _choose(
    windows: tuple[CellWindow, ...],
) -> tuple[dict[CellKey, tuple[CellWindow, ...]], dict[CellKey, tuple[CellWindow, ...]]]:
    chains: dict[tuple[str, int, str], dict[int, bool]] = {}
    for window in windows:
        attempts = chains.setdefault((window.key.arm, window.key.block, window.chain), {})
        attempts[window.attempt] = attempts.get(window.attempt, True) and window.complete
    latest = {
        chain: max((number for number, whole in attempts.items() if whole), default=None)
        for chain, attempts in chains.items()
    }
    used: dict[CellKey, tuple[CellWindow, ...]] = {}
    broken: dict[CellKey, tuple[CellWindow, ...]] = {}
    for window in windows:
        counts = latest[window.key.arm, window.key.block, window.chain] == window.attempt
        into = used if counts else broken
        if counts or not window.complete:
            into[window.key] = (*into.get(window.key, ()), window)
    return used, broken


def _rows_by_window(requests: RequestColumns) -> dict[_WindowId, Ints]:
    if not len(requests):
        return {}
    columns = [
        requests.code("arm"),
        requests.block,
        requests.code("phase"),
        requests.code("workload"),
        requests.concurrency,
        requests.code("chain"),
        requests.attempt,
    ]
    label = np.zeros(len(requests), dtype=np.int64)
    for column in columns:
        low = int(column.min())
        label = label * (int(column.max()) - low + 1) + (column - low)
        label = np.unique(label, return_inverse=True)[1].astype(np.int64)
    order = np.argsort(label, kind="stable")
    edges = np.flatnonzero(np.diff(label[order])) + 1
    groups = np.split(order, edges)
    return {
        (
            str(requests.arm[rows[0]]),
            int(requests.block[rows[0]]),
            str(requests.phase[rows[0]]),
            str(requests.workload[rows[0]]),
            int(requests.concurrency[rows[0]]),
            str(requests.chain[rows[0]]),
            int(requests.attempt[rows[0]]),
        ): rows
        for rows in groups
    }


def _join(parts: Iterable[Ints | tuple[()]]) -> Ints:
    arrays = [np.asarray(part, dtype=np.int64) for part in parts]
    return np.concatenate(arrays) if arrays else np.empty(0, dtype=np.int64)


def _place(key: CellKey, order: dict[str, int]) -> tuple[int, str, int, int, str, str, int]:
    phase = PHASE_ORDER.index(key.phase) if key.phase in PHASE_ORDER else len(PHASE_ORDER)
    return (
        order.get(key.arm, len(order)),
        key.arm,
        key.block,
        phase,
        key.phase,
        key.workload,
        key.concurrency,
    )
