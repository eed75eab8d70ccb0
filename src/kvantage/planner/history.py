"""The planner's own error over time: what it predicted in earlier runs on this machine, and what came of it.

One file a user, `predictions.jsonl` beside the calibrations; a line a quantity of an arm of a run.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Literal

LAST = 100
"""Predictions of a kind that an error is told over."""
KEPT = 4000
"""Lines that the file keeps."""


@dataclass(frozen=True)
class Past:
    """One prediction and what was measured, of a run that is over. `kind` is the unit's: tokens or tok/s.

    `acceptance` (tokens a step) and `length` (mean context) are those of the measured speed.
    """

    run: str
    at: str
    machine: str
    engine: str
    model: str
    arm: str
    kind: Literal["pool", "speed"]
    quantity: str
    predicted: float | None
    measured: float
    method: str = "none"
    draft: str | None = None
    drafts: int | None = None
    acceptance: float | None = None
    length: int | None = None

    @property
    def error(self) -> float | None:
        """(predicted - measured) / measured; None where nothing had been predicted."""
        return None if self.predicted is None else self.predicted / self.measured - 1


@dataclass(frozen=True)
class PastSpeed:
    """A speed at one stream that was measured here before, in the cell that `quantity` names."""

    tok_s: float
    quantity: str
    at: str
    length: int
    acceptance: float | None


@dataclass(frozen=True)
class Known:
    """What earlier runs on one machine came to."""

    rows: Sequence[Past] = field(default_factory=tuple)

    def speed(
        self,
        engine: str,
        model: str,
        method: str,
        draft: str | None = None,
        drafts: int | None = None,
        quantity: str | None = None,
    ) -> PastSpeed | None:
        """The newest speed at one stream of the same model, engine and way of drafting, short ones first.

        With `quantity`, in that cell alone: two speeds tell a cost only at the same context. None where
        there is none.
        """
        found = [
            row
            for row in reversed(self.rows)
            if (row.engine, row.model, row.method) == (engine, model, method)
            and (row.draft, row.drafts) == (draft, drafts)
            and (row.quantity == quantity if quantity else row.quantity.endswith(" at 1"))
        ]
        found.sort(key=lambda row: not row.quantity.startswith("short"))
        if not found:
            return None
        row = found[0]
        return PastSpeed(row.measured, row.quantity, row.at, row.length or 512, row.acceptance)

    def errors(self, engine: str) -> dict[str, Any]:
        """The median and largest absolute error of the last predictions on that engine, by kind."""
        found: dict[str, Any] = {}
        for kind in ("pool", "speed"):
            errors = [
                abs(row.error)
                for row in self.rows
                if row.kind == kind and row.engine == engine and row.error is not None
            ][-LAST:]
            if errors:
                found[kind] = {"predictions": len(errors), "median": median(errors), "largest": max(errors)}
        return found


def file() -> Path:
    """Where it is kept: `$XDG_CACHE_HOME/kvantage`, or `~/.cache/kvantage`, as calibrations are."""
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "kvantage" / "predictions.jsonl"


def read_history(machine: str, path: Path | None = None) -> Known:
    """What is known of that machine, oldest first. A file that is not there, or a broken line, is nothing."""
    return Known(tuple(row for row in _read(path or file()) if row.machine == machine))


def note(rows: Sequence[Past], path: Path | None = None) -> None:
    """Keep a run's rows; those of the same run that were kept before are replaced. Raises OSError."""
    if not rows:
        return
    where = path or file()
    runs = {row.run for row in rows}
    kept = [*(row for row in _read(where) if row.run not in runs), *rows][-KEPT:]
    where.parent.mkdir(parents=True, exist_ok=True)
    draft = where.with_suffix(f".{os.getpid()}.tmp")
    draft.write_text("".join(json.dumps(asdict(row)) + "\n" for row in kept), encoding="utf-8")
    draft.replace(where)


def _read(path: Path) -> Iterable[Past]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return
    for line in lines:
        try:
            row = Past(**json.loads(line))
            if row.measured > 0:
                yield row
        except (ValueError, TypeError):
            continue
