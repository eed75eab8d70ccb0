"""Decode reports put together: acceptance over a log, which windows are speed and which are not."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kvantage.engines.acceptance import RateFormula, infer_width
from kvantage.engines.sglang.lines import Report

FULL = 0.9
"""From this share of the pool in use, waiting requests wait for memory."""

CEILING_WINDOWS = 3
"""So many windows in a row with every draft accepted are a repetition loop until the text is looked at."""


@dataclass(frozen=True, slots=True)
class Window:
    """A decode report, and whether its throughput is a speed.

    SGLang divides a window's tokens by the time since the last report, whatever happened meanwhile: the
    first report after a start, one after a prefill, and one after the batch changed or ended are no speed
    (`steady` False). None: what came before is not in the log.
    """

    report: Report
    steady: bool | None

    def plain(self) -> dict[str, float]:
        """In the words of `LogReadings.windows`; what the line does not say is not a key."""
        told = {
            "acceptance_length": self.report.accept_length,
            "draft_acceptance_rate": self.report.accept_rate,
            "running": self.report.running,
            "waiting": self.report.queue,
            "generation_tok_s": self.report.throughput,
            "pool_tokens_used": self.report.tokens,
            "pool_usage": self.report.usage,
            "steady": self.steady,
        }
        return {name: float(value) for name, value in told.items() if value is not None}


def windows_of(reports: Iterable[Report], *, from_start: bool) -> list[Window]:
    """The decode reports of a log, in their order. `from_start`: the log holds the server's start."""
    found: list[Window] = []
    last: dict[str, Report] = {}
    for report in reports:
        before = last.get(report.rank)
        last[report.rank] = report
        if report.kind == "decode":
            found.append(Window(report, _steady(report, before, from_start)))
    return found


def _steady(report: Report, before: Report | None, from_start: bool) -> bool | None:
    if report.tokens == 0:
        return False
    if before is None:
        return False if from_start else None
    return before.kind == "decode" and before.running == report.running


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Acceptance over several windows, each weighted by its running requests (steps, at a fixed interval).

    `length` counts the bonus token. `width` is D, given or inferred; None where the numbers leave it open.
    `rate` is accepted / proposed drafts: from length and width where that is known, else as printed.
    """

    length: float
    windows: int
    width: int | None
    formula: RateFormula | None
    rate: float | None
    at_ceiling: int


def acceptance_of(windows: Sequence[Window], width: int | None) -> Acceptance | None:
    """None where no report speaks of acceptance. `width` is D where the arguments tell it."""
    told = [w.report for w in windows if w.report.accept_length is not None]
    if not told:
        return None
    weights = [max(report.running or 1, 1) for report in told]
    total = sum(weights)
    length = sum((r.accept_length or 0.0) * w for r, w in zip(told, weights, strict=True)) / total
    pairs = [(r.accept_length, r.accept_rate) for r in told if r.accept_length and r.accept_rate is not None]
    inferred, formula = infer_width([(a, b) for a, b in pairs if a is not None and b is not None])
    width = width if width is not None and width > 1 else inferred
    if width is not None and width > 1:
        rate: float | None = (length - 1) / (width - 1)
    else:
        printed = [
            (r.accept_rate, w) for r, w in zip(told, weights, strict=True) if r.accept_rate is not None
        ]
        whole = sum(w for _, w in printed)
        rate = sum(r * w for r, w in printed) / whole if whole and formula != "(m+1)/D" else None
    if rate is not None and not 0 <= rate <= 1:
        rate = None
    return Acceptance(length, len(told), width, formula, rate, _longest_ceiling(told, width))


def _longest_ceiling(reports: Sequence[Report], width: int | None) -> int:
    longest = row = 0
    for report in reports:
        length, rate = report.accept_length, report.accept_rate
        full = rate is not None and rate >= 0.995 and (length or 0) > 1
        if width is not None and length is not None:
            full = length >= width - 0.005
        row = row + 1 if full else 0
        longest = max(longest, row)
    return longest


@dataclass(frozen=True, slots=True)
class PoolBracket:
    """A pool's tokens from what is used and its share, rounded to two digits: an estimate and its ends."""

    estimate: int
    low: int
    high: int


def bracket_pool(windows: Iterable[Window]) -> PoolBracket | None:
    """The pool that every window allows; the estimate is from the fullest. None below a share of 0.05."""
    best: tuple[float, int] | None = None
    low, high = 0, 0
    for window in windows:
        tokens, share = window.report.tokens, window.report.token_usage
        if not tokens or share is None or share < 0.05:
            continue
        least, most = math.ceil(tokens / (share + 0.005)), math.floor(tokens / (share - 0.005))
        if best is None:
            low, high = least, most
        elif least <= high and most >= low:
            low, high = max(low, least), min(high, most)
        if best is None or share > best[0]:
            best = share, round(tokens / share)
    if best is None:
        return None
    return PoolBracket(min(max(best[1], low), high), low, high)


@dataclass(frozen=True, slots=True)
class Speed:
    """Output tokens per second of all running requests together, and what it covers."""

    tok_s: float
    note: str


def speed_of(windows: Sequence[Window]) -> Speed | None:
    """The median of the steady windows of the commonest batch, or of those that may be steady."""
    for steady, what in ((True, "steady reports"), (None, "reports; what came before is not in the log")):
        by_running: dict[int, list[float]] = {}
        for window in windows:
            report = window.report
            if window.steady is steady and report.throughput is not None and report.running:
                by_running.setdefault(report.running, []).append(report.throughput)
        if by_running:
            running, speeds = max(by_running.items(), key=lambda item: len(item[1]))
            note = f"{running} running together, median of {len(speeds)} {what}"
            return Speed(statistics.median(speeds), note)
    return None
