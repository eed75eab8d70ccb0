"""What a calibration found, and what follows from it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from kvantage.calibrate.row import COMFORTABLE, Row, Spread


@dataclass(frozen=True, slots=True)
class Calibration:
    """What was measured, where and when. `quick` is the ten-second form."""

    rows: tuple[Row, ...]
    machine: Mapping[str, Any]
    taken_at: str
    version: str
    quick: bool

    @property
    def highest_exact(self) -> Row | None:
        """The row of most chunks a second whose p99 errors are at most 1 ms, more streams first in a tie."""
        exact = [row for row in self.rows if row.exact]
        return max(exact, key=lambda row: (round(row.chunks_per_s, -2), row.streams), default=None)

    @property
    def chunks_per_s_a_worker(self) -> float | None:
        """What one process may be given: half a core's worth, and no more than was found exact."""
        top = self.highest_exact
        if top is None:
            return None
        return max(top.chunks_per_s, COMFORTABLE * 1e6 / top.cpu_ms_per_1000_chunks)

    def workers(self, streams: int, chunks_per_s: float) -> int:
        """How many load workers so many streams with so many chunks a second need; 1 where nothing is known.

        A quick calibration tries few streams, and says nothing of how many are too many.
        """
        each = self.chunks_per_s_a_worker
        if not each:
            return 1
        most = max((row.streams for row in self.rows if row.exact), default=streams)
        by_streams = 1 if self.quick else math.ceil(streams / most)
        return max(1, math.ceil(chunks_per_s / each), by_streams)

    @property
    def advice(self) -> str:
        """What to do about it, in a sentence or two."""
        top = self.highest_exact
        if top is None:
            return (
                "no load was timed within 1 ms at p99: this machine is too busy to measure on; "
                "end what else runs here and calibrate again"
            )
        each = self.chunks_per_s_a_worker
        assert each is not None
        text = (
            f"one process is exact at {top.streams:,} streams and {top.chunks_per_s:,.0f} chunks/s, "
            f"with {top.core_share:.0%} of a core; from {each:,.0f} chunks/s on, use --load-workers 2"
        )
        missed = [row for row in self.rows if not row.exact]
        if missed:
            text += "; not within 1 ms at p99: " + ", ".join(
                f"{row.streams:,} streams x {row.tokens_per_chunk}" for row in missed
            )
        if any(row.disturbed for row in missed):
            text += ". Something else held the processors meanwhile: end it, and calibrate again"
        return text

    def to_json(self) -> dict[str, Any]:
        """Plain data; `from_json` reads it back."""
        top = self.highest_exact
        return {
            "rows": [asdict(row) for row in self.rows],
            "highest_exact": None
            if top is None
            else {"streams": top.streams, "chunks_per_s": top.chunks_per_s},
            "advice": self.advice,
            "machine": dict(self.machine),
            "taken_at": self.taken_at,
            "version": self.version,
            "quick": self.quick,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Calibration:
        """The inverse of `to_json`; raises ValueError on anything else."""
        try:
            rows = tuple(_read_row(row) for row in data["rows"])
            return cls(
                rows, data["machine"], str(data["taken_at"]), str(data["version"]), bool(data["quick"])
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not a calibration: {error}") from error


def _read_row(row: Mapping[str, Any]) -> Row:
    fields: dict[str, Any] = {
        name: Spread(**each) if isinstance(each, dict) else each for name, each in row.items()
    }
    return Row(**fields)
