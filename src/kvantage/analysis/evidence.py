"""What a gate may look at: one cell's requests, windows, facts and what the study asked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kvantage.analysis.acceptance import Acceptance
from kvantage.analysis.cells import Cell, wave_labels
from kvantage.analysis.looks import CellLooks
from kvantage.analysis.timing import Timing
from kvantage.core.arm import ArmSettings
from kvantage.core.columns import Floats, RequestColumns
from kvantage.core.facts import Facts


@dataclass(frozen=True)
class Evidence:
    """Everything that is known of one cell. `asked` is None where no output length was fixed."""

    cell: Cell
    requests: RequestColumns
    timing: Timing
    arm: ArmSettings
    drafting: bool
    facts: Facts | None
    acceptance: Acceptance
    asked: int | None
    looks: CellLooks | None = None

    def column(self, name: str) -> Floats:
        """A column of the cell's measured requests, as floats with NaN for 'not reported'."""
        return np.asarray(getattr(self.requests, name)[self.cell.rows], dtype=np.float64)

    @property
    def number(self) -> int:
        """Measured requests in the cell."""
        return len(self.cell.rows)

    def fact(self, name: str) -> float | None:
        """A fact of the boot, None where the server did not tell."""
        return self.facts.reading(name).value if self.facts else None

    def moved(self, counter: str) -> float | None:
        """What a counter moved by over the cell, None where it is not reported or was reset."""
        deltas = [window.delta for window in self.cell.windows]
        if not deltas or any(delta is None or delta.reset for delta in deltas):
            return None
        values = [delta.counters.get(counter) for delta in deltas if delta is not None]
        known = [value for value in values if value is not None]
        return float(sum(known)) if len(known) == len(values) else None

    def gauge(self, name: str) -> float | None:
        """The highest that a gauge of the windows was, None where no window tells."""
        values = [getattr(window, name) for window in self.cell.windows]
        known = [value for value in values if value is not None]
        return max(known) if known else None

    def client_lag_s(self) -> float | None:
        """The client's lag that 99 % of the cell's time stayed under; where that was not kept, the p99 over
        requests of each one's worst moment.
        """
        told = self.gauge("lag_p99_ns")
        if told is None:
            if not self.number:
                return None
            told = float(np.percentile(self.column("client_lag_ns"), 99))
        return told * 1e-9

    def needed_tokens(self) -> float | None:
        """Tokens that the largest wave holds at once: every prompt with its answer, in whole blocks."""
        prompt, output = self.column("prompt_tokens"), self.column("output_tokens")
        each = prompt + np.where(np.isnan(output), self.asked or 0, output)
        if not len(each) or np.isnan(each).any():
            return None
        block = self.fact("kv_block_tokens") or 1.0
        each = np.ceil(each / block) * block
        label = np.unique(wave_labels(self.requests, self.cell.rows), return_inverse=True)[1]
        sums = np.bincount(label, weights=each)
        largest = float(sums.max())
        members = int(np.bincount(label)[int(sums.argmax())])
        return largest * min(1.0, self.cell.key.concurrency / members)
