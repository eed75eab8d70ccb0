"""Arms beside each other: ratios with their baselines and intervals, refused where a cell is void."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from kvantage.analysis.cells import codes
from kvantage.analysis.crossover import Crossover, find_crossover
from kvantage.analysis.differences import Differing
from kvantage.analysis.measure import MeasuredCell
from kvantage.analysis.stats import ratio_interval
from kvantage.core.columns import Floats, Ints, RequestColumns
from kvantage.core.reading import Reading

Metric = Literal["decode_tok_s", "steady_tok_s", "e2e_tok_s", "ttft_s"]

METRICS: dict[str, tuple[Metric, ...]] = {
    "short": ("decode_tok_s", "e2e_tok_s"),
    "sweep": ("decode_tok_s", "steady_tok_s", "e2e_tok_s", "ttft_s"),
    "cold": ("decode_tok_s", "steady_tok_s", "e2e_tok_s", "ttft_s"),
    "repeat": ("decode_tok_s", "steady_tok_s", "e2e_tok_s", "ttft_s"),
}
PER_REQUEST: tuple[Metric, ...] = ("decode_tok_s", "ttft_s")
"""Metrics of one user: their ratio is the geometric mean of the paired ratios."""

BOOT_NOTE = "boot effects are not in it"


@dataclass(frozen=True)
class Ratio:
    """One figure of an arm over the baseline's, with both, so that the quotient can be checked.

    `ratio` has its interval, or is missing with the reason: a void cell on either side refuses it.
    `void_arms` names the sides that are void.
    `replication` says at which level the interval was taken. `rho` is T_step / T1 = AL / speed-up, and
    so the break-even acceptance length, where the baseline does not speculate.
    """

    metric: Metric
    phase: str
    workload: str
    concurrency: int
    ratio: Reading
    value: Reading
    baseline: Reading
    replication: str
    acceptance_length: Reading
    rho: Reading
    void_arms: tuple[str, ...] = ()

    def inverted(self) -> Ratio:
        """The baseline over the arm."""
        ratio = self.ratio
        if ratio.value is not None:
            ratio = replace(
                ratio,
                value=1 / ratio.value,
                low=1 / ratio.high if ratio.high is not None else None,
                high=1 / ratio.low if ratio.low is not None else None,
            )
        gone = Reading.absent("told of the arm, not of its baseline")
        return replace(
            self, ratio=ratio, value=self.baseline, baseline=self.value, acceptance_length=gone, rho=gone
        )


@dataclass(frozen=True)
class Comparison:
    """One arm against a baseline. `pool_tokens` and `pool_bytes` are ratios too; `sentence` tells all
    of it in percent.
    """

    arm: str
    baseline: str
    against_control: bool
    pool_tokens: Reading
    pool_bytes: Reading
    ratios: tuple[Ratio, ...]
    crossover: Crossover | None
    crossover_phase: str | None
    differs: tuple[Differing, ...]
    sentence: str = ""

    def ratio(
        self, metric: Metric, phase: str, workload: str | None = None, concurrency: int | None = None
    ) -> Ratio | None:
        """The ratio of that description, None where it was not measured."""
        for ratio in self.ratios:
            if (
                ratio.metric == metric
                and ratio.phase == phase
                and workload in (None, ratio.workload)
                and concurrency in (None, ratio.concurrency)
            ):
                return ratio
        return None


def speed_up(tok_s: float, baseline: float) -> float:
    """How many times as fast: 27.6 over 14.7 tok/s is 1.88."""
    return tok_s / baseline


def step_cost(acceptance_length: float, speedup: float) -> float:
    """rho = T_step / T1 = AL / speed-up: also the acceptance length at which speculation breaks even.

    2.2 tokens a step at 2.09 times the speed cost 1.05 plain steps each. It tells 'the drafter got worse'
    (AL fell) from 'the verify step got slower' (rho rose).
    """
    return acceptance_length / speedup


def step_seconds(acceptance_length: float, tok_s: float) -> float:
    """Time of one step: AL / tok/s. 6.65 tokens a step at 51.89 tok/s take 128.2 ms."""
    return acceptance_length / tok_s


def compare_cells(
    requests: RequestColumns,
    arm: Sequence[MeasuredCell],
    baseline: Sequence[MeasuredCell],
    baseline_drafts: bool,
) -> tuple[Ratio, ...]:
    """Every ratio of two arms' cells of the same phase, workload and concurrency, over all their blocks."""
    mine, theirs = _by_place(arm), _by_place(baseline)
    found = []
    for place in mine:
        if place not in theirs:
            continue
        for metric in METRICS.get(place[0], ()):
            if metric == "steady_tok_s" and place[2] == 1 and place[0] != "sweep":
                continue
            found.append(_ratio(requests, metric, place, mine[place], theirs[place], baseline_drafts))
    return tuple(found)


def compare_pair(requests: RequestColumns, metric: Metric, mine: MeasuredCell, theirs: MeasuredCell) -> Ratio:
    """One cell over another of the same prompts, as of the control over itself at another time."""
    key = mine.cell.key
    return _ratio(requests, metric, (key.phase, key.workload, key.concurrency), {0: mine}, {0: theirs}, True)


def pool_ratio(arm: Reading, baseline: Reading) -> Reading:
    """One pool over another."""
    if arm.value is None or not baseline.value:
        return Reading.absent(arm.missing or baseline.missing or "the baseline's pool is empty")
    return Reading.of(arm.value / baseline.value, "ratio", "computed")


def crossing(ratios: Sequence[Ratio]) -> tuple[Crossover | None, str | None]:
    """The crossover over the concurrencies of the repeats, else of the cold waves, and the phase. A sweep's
    are found apart, one a workload.
    """
    for phase in ("repeat", "cold"):
        points = {
            ratio.concurrency: ratio.ratio.value
            for ratio in ratios
            if ratio.phase == phase
            and ratio.ratio.value is not None
            and ratio.metric == ("decode_tok_s" if ratio.concurrency == 1 else "steady_tok_s")
        }
        if len(points) > 1:
            return find_crossover(tuple(points), tuple(points.values())), phase
    return None, None


_Place = tuple[str, str, int]


def _by_place(cells: Sequence[MeasuredCell]) -> dict[_Place, dict[int, MeasuredCell]]:
    places: dict[_Place, dict[int, MeasuredCell]] = {}
    for measured in cells:
        key = measured.cell.key
        places.setdefault((key.phase, key.workload, key.concurrency), {})[key.block] = measured
    return places


def _ratio(
    requests: RequestColumns,
    metric: Metric,
    place: _Place,
    mine: dict[int, MeasuredCell],
    theirs: dict[int, MeasuredCell],
    baseline_drafts: bool,
) -> Ratio:
    blocks = [block for block in mine if block in theirs]
    sound = [block for block in blocks if mine[block].findings.sound and theirs[block].findings.sound]
    gone = Reading.absent("no ratio")
    refused = Ratio(
        metric,
        *place,
        _refusal(mine, theirs, blocks),
        gone,
        gone,
        "no sound pair of cells",
        gone,
        gone,
        _void_arms(mine, theirs, blocks),
    )
    if not sound:
        return refused
    pairs = [_pair(requests, metric, mine[block], theirs[block]) for block in sound]
    pairs = [pair for pair in pairs if pair is not None]
    if not pairs:
        return replace(refused, ratio=Reading.absent("one side did not measure it"))
    logs = np.array([pair.log for pair in pairs if pair is not None])
    if len(logs) > 1:
        interval = ratio_interval(logs)
        level = f"over {len(logs)} boots of each arm, paired by block"
        low, high = interval.low, interval.high
    else:
        first = pairs[0]
        assert first is not None
        low, high, level = _within_boot(first)
    value = math.exp(float(logs.mean()))
    unit = "s" if metric == "ttft_s" else "tok/s"
    above = math.exp(float(np.mean([math.log(pair.value) for pair in pairs if pair])))
    below = math.exp(float(np.mean([math.log(pair.baseline) for pair in pairs if pair])))
    note = "geometric mean over the pairs" if metric in PER_REQUEST else None
    ratio = Reading.of(value, "ratio", "computed", low=low, high=high, note=level)
    length = _length([mine[block] for block in sound])
    return Ratio(
        metric,
        *place,
        ratio,
        Reading.of(above, unit, "client", note=note),
        Reading.of(below, unit, "client", note=note),
        level,
        length,
        _rho(metric, length, ratio, baseline_drafts),
    )


def _refusal(
    mine: dict[int, MeasuredCell], theirs: dict[int, MeasuredCell], blocks: Sequence[int]
) -> Reading:
    if not blocks:
        return Reading.absent("refused: no boot of the same block on both sides")
    told = []
    for side in (mine, theirs):
        for block in blocks:
            found = side[block].findings
            if not found.ok:
                told.append(f"{found.key.arm} is void ({'; '.join(found.status.reasons)})")
            elif found.queue:
                told.append(f"{found.key.arm} measured a queue ({found.queue})")
    return Reading.absent("refused: " + "; ".join(dict.fromkeys(told)))


def _void_arms(
    mine: dict[int, MeasuredCell], theirs: dict[int, MeasuredCell], blocks: Sequence[int]
) -> tuple[str, ...]:
    sides = [side[block].findings for side in (mine, theirs) for block in blocks]
    return tuple(dict.fromkeys(found.key.arm for found in sides if not found.ok))


@dataclass(frozen=True)
class _Pair:
    log: float
    value: float
    baseline: float
    spread: Floats


def _pair(requests: RequestColumns, metric: Metric, mine: MeasuredCell, theirs: MeasuredCell) -> _Pair | None:
    left, right = _matched(requests, mine, theirs)
    above, below = _each(requests, metric, mine)[left], _each(requests, metric, theirs)[right]
    use = np.isfinite(above) & np.isfinite(below) & (above > 0) & (below > 0)
    logs_above, logs_below = np.log(above[use]), np.log(below[use])
    logs = logs_above - logs_below
    if metric in PER_REQUEST:
        if not logs.size:
            return None
        return _Pair(
            float(logs.mean()),
            math.exp(float(logs_above.mean())),
            math.exp(float(logs_below.mean())),
            logs,
        )
    whole_above, whole_below = _whole(metric, mine), _whole(metric, theirs)
    if not whole_above.value or not whole_below.value:
        return None
    return _Pair(math.log(whole_above.value / whole_below.value), whole_above.value, whole_below.value, logs)


def _within_boot(pair: _Pair) -> tuple[float | None, float | None, str]:
    number = pair.spread.size
    if number < 2:
        return None, None, f"one boot, {number} pair of requests: no interval; {BOOT_NOTE}"
    interval = ratio_interval(pair.spread - pair.spread.mean() + pair.log)
    level = f"95 % t interval within one boot over {number} paired requests; {BOOT_NOTE}"
    return interval.low, interval.high, level


def _matched(requests: RequestColumns, mine: MeasuredCell, theirs: MeasuredCell) -> tuple[Ints, Ints]:
    """Places in both timings of the requests with the same prompt, repeat and stream."""
    left, right = np.flatnonzero(mine.kept), np.flatnonzero(theirs.kept)
    rows = np.concatenate((mine.timing.rows[left], theirs.timing.rows[right]))
    if not len(rows):
        return left[:0], right[:0]
    prompt = codes(requests.prompt_id[rows])
    repeat, stream = requests.repeat[rows], requests.stream[rows]
    label = (prompt * (int(repeat.max()) + 1) + repeat) * (int(stream.max()) + 1) + stream
    _, a, b = np.intersect1d(label[: len(left)], label[len(left) :], return_indices=True)
    return left[a], right[b]


def _each(requests: RequestColumns, metric: Metric, measured: MeasuredCell) -> Floats:
    if metric == "ttft_s":
        return measured.timing.ttft
    if metric == "e2e_tok_s":
        rows = measured.timing.rows
        seconds = (requests.end_ns[rows] - requests.sent_ns[rows]) * 1e-9
        out = np.full(len(rows), np.nan)
        np.divide(requests.output_tokens[rows], seconds, out=out, where=seconds > 0)
        return out
    return measured.timing.rate


def _whole(metric: Metric, measured: MeasuredCell) -> Reading:
    speed = measured.findings.speed
    return speed.steady if metric == "steady_tok_s" else speed.end_to_end


def _length(cells: Sequence[MeasuredCell]) -> Reading:
    lengths = [measured.findings.acceptance.length for measured in cells]
    values = [length.value for length in lengths if length.value is not None]
    if not values:
        return lengths[0]
    if len(values) == 1:
        return next(length for length in lengths if length.known)
    return Reading.of(float(np.mean(values)), "tokens/step", "computed", note=f"mean of {len(values)} boots")


def _rho(metric: Metric, length: Reading, ratio: Reading, baseline_drafts: bool) -> Reading:
    if metric not in ("decode_tok_s", "steady_tok_s"):
        return Reading.absent("only of decoding")
    if baseline_drafts:
        return Reading.absent("the baseline speculates too")
    if length.value is None:
        return Reading.absent(f"no acceptance length: {length.missing}")
    if ratio.value is None:
        return Reading.absent(ratio.missing or "no ratio")
    return Reading.of(
        step_cost(length.value, ratio.value), "ratio", "computed", note="T_step / T1; the break-even length"
    )
