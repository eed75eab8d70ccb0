"""A sweep over concurrency: what each arm gives at how many in flight, and where it stops paying."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from kvantage.analysis import asked
from kvantage.analysis.compare import Comparison, Ratio, step_seconds
from kvantage.analysis.crossover import Crossover, stop_paying
from kvantage.analysis.loop import steady_window
from kvantage.analysis.measure import MeasuredCell
from kvantage.analysis.timing import time_requests
from kvantage.core.columns import CellWindow, Floats, StudyData
from kvantage.core.reading import Reading

PHASE = "sweep"
CHANGED = 0.1
"""An acceptance length that moved by less than this share is called unchanged."""
SLOWER = 1.25
"""A step that costs more than this many times what it did at the lowest concurrency got slower."""


@dataclass(frozen=True)
class Row:
    """One arm at one concurrency.

    kind        'steady', 'queue' where the server did not run all at once, 'void' where a gate failed; `why`
    aggregate   tokens a second of all users in the steady window; of a queue, what got through it
    per_user    median decode rate of one user in it
    step        T_step = AL / rate of one user
    ratio       aggregate over the control's; refused where either measured a queue
    user_ratio  rate of one user over the control's
    rho         T_step / T1 = AL / user_ratio: the acceptance length at which the arm breaks even here
    running     most requests at work at once, as the server's gauge was seen; `waiting` likewise in its queue
    queue_s     mean wait in the server's queue
    goodput     requests a second, of those that ended in the steady window, that kept to the limits
    kept        their share of all that ended there
    """

    concurrency: int
    block: int
    kind: Literal["steady", "queue", "void"]
    why: str | None
    aggregate: Reading
    per_user: Reading
    ttft: Reading
    acceptance_length: Reading
    step: Reading
    ratio: Reading
    user_ratio: Reading
    rho: Reading
    running: Reading
    waiting: Reading
    queue_s: Reading
    goodput: Reading
    kept: Reading


@dataclass(frozen=True)
class Sweep:
    """One arm on one workload. `stops` is where its aggregate falls below the control's; `cause` says whether
    the drafter or the verify step is what changed on the way; `queued` are concurrencies left out of both,
    `untold` those without a ratio for another reason.
    """

    arm: str
    workload: str
    rows: tuple[Row, ...]
    stops: Crossover | None
    cause: str | None
    queued: tuple[int, ...]
    untold: tuple[int, ...] = ()


def read_sweeps(
    data: StudyData, measured: Mapping[str, Sequence[MeasuredCell]], comparisons: Sequence[Comparison]
) -> tuple[Sweep, ...]:
    """Every arm's sweeps, a workload each, in the order of the study."""
    against = {each.arm: each.ratios for each in comparisons if each.against_control}
    limits = asked.limits(data.study)
    found = []
    for arm, cells in measured.items():
        mine = [each for each in cells if each.cell.key.phase == PHASE]
        for workload in dict.fromkeys(each.cell.key.workload for each in mine):
            chosen = [each for each in mine if each.cell.key.workload == workload]
            ratios = [
                ratio for ratio in against.get(arm, ()) if ratio.phase == PHASE and ratio.workload == workload
            ]
            rows = tuple(_row(data, each, ratios, arm == data.control, limits) for each in chosen)
            found.append(_sweep(arm, workload, rows, arm == data.control))
    return tuple(found)


def _sweep(arm: str, workload: str, rows: tuple[Row, ...], is_control: bool) -> Sweep:
    if is_control:
        queued = tuple(dict.fromkeys(row.concurrency for row in rows if row.kind == "queue"))
        return Sweep(arm, workload, rows, None, None, queued)
    points = {row.concurrency: row.ratio for row in rows if row.ratio.known}
    rest = dict.fromkeys(row.concurrency for row in rows if row.concurrency not in points)
    queues = {row.concurrency for row in rows if _is_queue(row)}
    return Sweep(
        arm=arm,
        workload=workload,
        rows=rows,
        stops=stop_paying(points),
        cause=_cause(rows),
        queued=tuple(number for number in rest if number in queues),
        untold=tuple(number for number in rest if number not in queues),
    )


def _is_queue(row: Row) -> bool:
    """It measured a queue, or its control did."""
    return row.kind == "queue" or "measured a queue" in (row.ratio.missing or "")


def _row(
    data: StudyData, each: MeasuredCell, ratios: Sequence[Ratio], is_control: bool, limits: asked.Limits
) -> Row:
    key, found = each.cell.key, each.findings
    kind: Literal["steady", "queue", "void"] = (
        "void" if not found.ok else "queue" if found.queue else "steady"
    )
    length = found.acceptance.length
    goodput, kept = _goodput(data, each, limits)
    return Row(
        concurrency=key.concurrency,
        block=key.block,
        kind=kind,
        why=found.queue or "; ".join(found.status.reasons) or None,
        aggregate=found.speed.steady,
        per_user=found.speed.decode,
        ttft=found.speed.ttft,
        acceptance_length=length,
        step=_step(length, found.speed.decode, is_control),
        ratio=_of(ratios, "steady_tok_s", key.concurrency, is_control),
        user_ratio=_of(ratios, "decode_tok_s", key.concurrency, is_control),
        rho=_rho(ratios, key.concurrency, is_control),
        running=_gauge(each.cell.windows, "running_max"),
        waiting=_gauge(each.cell.windows, "waiting_max"),
        queue_s=_waited(data, each),
        goodput=goodput,
        kept=kept,
    )


def _find(ratios: Sequence[Ratio], metric: str, concurrency: int) -> Ratio | None:
    return next((r for r in ratios if (r.metric, r.concurrency) == (metric, concurrency)), None)


def _of(ratios: Sequence[Ratio], metric: str, concurrency: int, is_control: bool) -> Reading:
    ratio = _find(ratios, metric, concurrency)
    if ratio is not None:
        return ratio.ratio
    return Reading.absent("it is the control" if is_control else "the control has no such cell")


def _rho(ratios: Sequence[Ratio], concurrency: int, is_control: bool) -> Reading:
    ratio = _find(ratios, "decode_tok_s", concurrency)
    if ratio is not None:
        return ratio.rho if ratio.ratio.known else ratio.ratio
    return Reading.absent("it is the control" if is_control else "the control has no such cell")


def _step(length: Reading, rate: Reading, is_control: bool) -> Reading:
    if rate.value is None:
        return Reading.absent(rate.missing or "no rate")
    if length.value is None and not is_control:
        return Reading.absent(length.missing or "no acceptance length")
    tokens = 1.0 if length.value is None else length.value
    note = "T1: one token a step" if length.value is None else "AL / rate of one user"
    return Reading.of(step_seconds(tokens, rate.value), "s", "computed", note=note)


def _gauge(windows: Sequence[CellWindow], name: str) -> Reading:
    seen = [value for window in windows if (value := getattr(window, name)) is not None]
    if not seen:
        return Reading.absent("the server's gauge was not seen")
    return Reading.of(max(seen), "requests", "gauge", note="most that was seen, sampled once a second")


def _waited(data: StudyData, each: MeasuredCell) -> Reading:
    told = data.requests.queue_s[each.cell.rows]
    told = told[np.isfinite(told)]
    if told.size:
        return Reading.of(float(told.mean()), "s", "request", note=f"mean of {told.size} requests")
    deltas = [window.delta for window in each.cell.windows]
    if not deltas or any(delta is None or delta.reset for delta in deltas):
        return Reading.absent("the server does not report it")
    waited = [delta.counters.get("queue_s") for delta in deltas if delta is not None]
    ended = [delta.counters.get("requests_finished") for delta in deltas if delta is not None]
    known = [value for value in waited if value is not None]
    number = sum(value for value in ended if value is not None)
    if len(known) < len(waited) or not number:
        return Reading.absent("the server does not report it")
    return Reading.of(sum(known) / number, "s", "counter delta", note=f"mean of {number:.0f} requests")


def _goodput(data: StudyData, each: MeasuredCell, limits: asked.Limits) -> tuple[Reading, Reading]:
    """(requests a second, share) that kept to the study's limits.

    TTFT is counted from the request's send, the server's queue included; TPOT is the mean time for each
    token after the first chunk, over the whole answer.
    """
    if not limits.some:
        none = Reading.absent("the study sets no limit: `ttft_limit`, `tpot_limit` of its sweep")
        return none, none
    if not each.findings.ok:
        none = Reading.absent("void: " + "; ".join(each.findings.status.reasons))
        return none, none
    timing = time_requests(data.requests, each.cell.rows)
    steady = steady_window(data.requests, timing, each.cell.key.concurrency)
    if steady is None:
        none = Reading.absent("no moment lies between the ramps")
        return none, none
    ended = steady.counts(data.requests.end_ns[timing.rows])
    good = ended & within(timing.ttft, 1 / timing.rate, limits)
    said = limits_in_words(limits)
    rate = Reading.of(float(good.sum()) / steady.seconds, "requests/s", "client", note=said)
    if not ended.any():
        return rate, Reading.absent("no request ended between the ramps")
    return rate, Reading.of(float(good.sum() / ended.sum()), "ratio", "client", note=said)


def within(ttft_s: Floats, tpot_s: Floats, limits: asked.Limits) -> np.ndarray:
    """Which requests kept to the limits; one whose time is not known did not."""
    good = np.ones(len(ttft_s), dtype=np.bool_)
    for times, limit in ((ttft_s, limits.ttft_s), (tpot_s, limits.tpot_s)):
        if limit is not None:
            good &= np.nan_to_num(times, nan=np.inf) <= limit
    return good


def limits_in_words(limits: asked.Limits) -> str:
    """'TTFT at most 2 s and TPOT at most 50 ms'."""
    told = []
    if limits.ttft_s is not None:
        told.append(f"TTFT at most {limits.ttft_s:g} s")
    if limits.tpot_s is not None:
        told.append(f"TPOT at most {limits.tpot_s * 1000:g} ms")
    return " and ".join(told)


def _cause(rows: Sequence[Row]) -> str | None:
    """What changed from the lowest to the highest steady concurrency: the drafter, or the verify step."""
    told = [row for row in rows if row.kind == "steady" and row.rho.known and row.acceptance_length.known]
    if len(told) < 2 or told[0].concurrency == told[-1].concurrency:
        return None
    first, last = told[0], told[-1]
    return tell_cause(
        (first.concurrency, first.acceptance_length.value or 0.0, first.rho.value or 0.0),
        (last.concurrency, last.acceptance_length.value or 0.0, last.rho.value or 0.0),
    )


def tell_cause(first: tuple[int, float, float], last: tuple[int, float, float]) -> str | None:
    """From (concurrency, AL, rho) at both ends, what got worse; None where neither moved much.

    AL 2.2 at both ends and a rho of 1.05, then 2.86: the verify step got slower, not the drafter worse.
    """
    length = last[1] / first[1]
    cost = last[2] / first[2]
    figures = (
        f"AL {first[1]:.2f} at {first[0]} and {last[1]:.2f} at {last[0]}, "
        f"rho {first[2]:.2f} and {last[2]:.2f}"
    )
    worse, slower = length < 1 - CHANGED, cost > SLOWER
    if worse and slower:
        return f"both: the drafter is accepted less and its step costs more ({figures})"
    if slower:
        return f"the verify step, not the drafter: acceptance stays, a step costs more ({figures})"
    if worse:
        return f"the drafter, not the verify step: a step costs the same, less is accepted ({figures})"
    return None
