"""What each request of a wave waited for: the timeline of a cold wave and of its repeat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from kvantage.analysis.measure import MeasuredCell
from kvantage.core.columns import Floats, RequestColumns
from kvantage.core.reading import Reading

PHASES = ("cold", "repeat")
MOST = 64
"""Requests of one cell that a timeline holds; it says how many there were."""
NANO = 1e-9

Hit = Literal["hit", "miss", "cold", "not told"]


@dataclass(frozen=True, slots=True)
class WaveRequest:
    """One request. Times are seconds after the wave's first request was sent.

    queue   ends at that time, where the server says how long it kept the request waiting
    first   first content or reasoning; `last` the stream's last chunk
    hit     'hit' when the cache served what a sound one does, 'miss' when it served less, 'cold' where
            nothing was to be expected, 'not told' where the server does not report cached tokens
    """

    repeat: int
    stream: int
    prompt_id: str
    ok: bool
    sent: Reading
    queue: Reading
    first: Reading
    last: Reading
    prompt_tokens: Reading
    output_tokens: Reading
    cached_tokens: Reading
    expected_tokens: Reading
    retractions: Reading
    hit: Hit


@dataclass(frozen=True)
class Wave:
    """The requests of one cell of a cold or repeated wave, of one boot, void ones too. `asked` counts all."""

    arm: str
    block: int
    phase: str
    workload: str
    concurrency: int
    void: bool
    reasons: tuple[str, ...]
    asked: Reading
    requests: tuple[WaveRequest, ...]


def read_waves(requests: RequestColumns, cells: Sequence[MeasuredCell]) -> tuple[Wave, ...]:
    """The waves of an arm's first boot that has them."""
    mine = [each for each in cells if each.cell.key.phase in PHASES and len(each.cell.rows)]
    first: dict[tuple[str, str, int], MeasuredCell] = {}
    for each in mine:
        key = each.cell.key
        first.setdefault((key.phase, key.workload, key.concurrency), each)
    return tuple(_wave(requests, each) for each in first.values())


def _wave(requests: RequestColumns, measured: MeasuredCell) -> Wave:
    key, rows = measured.cell.key, measured.cell.rows
    status = measured.findings.status
    order = rows[np.lexsort((requests.stream[rows], requests.repeat[rows]))]
    start: dict[int, int] = {}
    for row in order.tolist():
        repeat = int(requests.repeat[row])
        sent = int(requests.sent_ns[row])
        start[repeat] = min(start.get(repeat, sent), sent)
    return Wave(
        arm=key.arm,
        block=key.block,
        phase=key.phase,
        workload=key.workload,
        concurrency=key.concurrency,
        void=status.status == "void",
        reasons=status.reasons,
        asked=Reading.of(len(rows), "requests", "client"),
        requests=tuple(
            _request(requests, row, start[int(requests.repeat[row])]) for row in order[:MOST].tolist()
        ),
    )


def _request(requests: RequestColumns, row: int, start: int) -> WaveRequest:
    def after(stamp: int, missing: str) -> Reading:
        if stamp < 0:
            return Reading.absent(missing)
        return Reading.of((stamp - start) * NANO, "s", "client")

    def counted(column: Floats, unit: str, what: str) -> Reading:
        value = float(column[row])
        return (
            Reading.absent(f"{what} not reported") if np.isnan(value) else Reading.of(value, unit, "request")
        )

    sent = int(requests.sent_ns[row])
    waited = float(requests.queue_s[row])
    chunks = int(requests.chunk_offsets[row + 1])
    last = int(requests.chunk_ns[chunks - 1]) if chunks > requests.chunk_offsets[row] else -1
    low, high = float(requests.expected_low[row]), float(requests.expected_high[row])
    cached = float(requests.cached_tokens[row])
    return WaveRequest(
        repeat=int(requests.repeat[row]),
        stream=int(requests.stream[row]),
        prompt_id=str(requests.prompt_id[row]),
        ok=bool(requests.ok[row]),
        sent=after(sent, "it was not sent"),
        queue=Reading.absent("the server does not say how long it waited")
        if np.isnan(waited)
        else Reading.of((sent - start) * NANO + waited, "s", "request"),
        first=after(int(requests.first_ns[row]), "no token came"),
        last=after(last, "no token came"),
        prompt_tokens=counted(requests.prompt_tokens, "tokens", "prompt tokens"),
        output_tokens=counted(requests.output_tokens, "tokens", "output tokens"),
        cached_tokens=counted(requests.cached_tokens, "tokens", "cached tokens"),
        expected_tokens=Reading.absent("no expected hit was recorded")
        if np.isnan(low) or np.isnan(high)
        else Reading.of(high, "tokens", "computed", low=low, high=high),
        retractions=counted(requests.retractions, "retractions", "retractions"),
        hit=_hit(cached, low),
    )


def _hit(cached: float, low: float) -> Hit:
    if np.isnan(cached) or np.isnan(low):
        return "not told"
    if cached < low:
        return "miss"
    return "hit" if low > 0 else "cold"
