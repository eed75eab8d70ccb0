"""A study that was measured, opened in Python: its findings, and its tables as frames."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from kvantage.analysis import Findings, analyse
from kvantage.core.columns import StudyData
from kvantage.ledger import read_study

if TYPE_CHECKING:
    import polars as pl


class Run:
    """What lies in a study's folder. Reading is done when something is asked for, and kept.

        run = kvantage.open_run("runs/quickstart")
        run.findings.verdict.sentences
        run.cells.filter(pl.col("status") == "ok")

    Frames need polars (`kvantage[frames]`); what their columns mean is in docs/export.md. Null is 'not
    reported', never zero. Every property raises LedgerError where there is no study to read.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def data(self) -> StudyData:
        """The ledger as numpy columns."""
        return read_study(self.folder)

    @cached_property
    def findings(self) -> Findings:
        """What the analysis found: what every report shows."""
        return analyse(self.data)

    @cached_property
    def requests(self) -> pl.DataFrame:
        """One row a request."""
        return self._frame("requests")

    @cached_property
    def chunks(self) -> pl.DataFrame:
        """One row a chunk of a stream; `request` is the row of `requests`."""
        return self._frame("chunks")

    @cached_property
    def cells(self) -> pl.DataFrame:
        """One row a cell: arm x boot x phase x workload x concurrency, with its figures where it is sound."""
        return self._frame("cells")

    @cached_property
    def gates(self) -> pl.DataFrame:
        """One row a gate that voided a cell."""
        return self._frame("gates")

    @cached_property
    def windows(self) -> pl.DataFrame:
        """One row an attempt at a cell: the highest gauges, the client's own delay."""
        return self._frame("windows")

    @cached_property
    def counters(self) -> pl.DataFrame:
        """What each of the server's counters moved by; `window` is the row of `windows`."""
        return self._frame("counters")

    @cached_property
    def boots(self) -> pl.DataFrame:
        """One row a start of an arm's server."""
        return self._frame("boots")

    @cached_property
    def facts(self) -> pl.DataFrame:
        """What each server said of itself: pools, limits, bytes a token."""
        return self._frame("facts")

    @cached_property
    def settings(self) -> pl.DataFrame:
        """Each engine's settings as it resolved them."""
        return self._frame("settings")

    def _frame(self, name: str) -> pl.DataFrame:
        from kvantage.frames import frame

        return frame(name, self.data, self.findings)

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r})"

    def _repr_html_(self) -> str:
        from kvantage.api.show import run_html

        return run_html(self.findings, str(self.folder))


def open_run(folder: str | Path) -> Run:
    """Open a folder that `kvantage run` wrote to, also while it is writing.

    Raises LedgerError when there is no study in it.
    """
    run = Run(Path(folder))
    _ = run.data
    return run
