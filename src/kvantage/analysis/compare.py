"""Arms beside each other: ratios with their baselines and intervals, refused where a cell is void."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from kvantage.analysis.crossover import Crossover, stop_paying
from kvantage.analysis.differences import Differing
from kvantage.analysis.effect import PER_REQUEST, BootEffect, boot_effect
from kvantage.analysis.inference import Inference, Side, adjusted, infer
from kvantage.analysis.measure import MeasuredCell
from kvantage.analysis.spending import Level
from kvantage.analysis.stats import holm, ratio_interval
from kvantage.core.columns import RequestColumns
from kvantage.core.reading import Reading

Metric = Literal["decode_tok_s", "steady_tok_s", "e2e_tok_s", "ttft_s"]

METRICS: dict[str, tuple[Metric, ...]] = {
    "short": ("decode_tok_s", "e2e_tok_s"),
    "sweep": ("decode_tok_s", "steady_tok_s", "e2e_tok_s", "ttft_s"),
    "cold": ("decode_tok_s", "steady_tok_s", "e2e_tok_s", "ttft_s"),
    "repeat": ("decode_tok_s", "steady_tok_s", "e2e_tok_s", "ttft_s"),
}

Place = tuple[str, str, int]
"""(phase, workload, concurrency)."""


@dataclass(frozen=True)
class Ratio:
    """One figure of an arm over the baseline's, with both, so that the quotient can be checked.

    `ratio` has its interval, or is missing with the reason: a void cell on either side refuses it.
    `void_arms` names the sides that are void.
    `replication` says at which level the interval was taken; `inference` holds what else is known of it,
    and is None where the ratio is refused. `boots` are (block, ratio of that block). `rho` is
    T_step / T1 = AL / speed-up, and so the break-even acceptance length, where the baseline does not
    speculate.
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
    inference: Inference | None = None
    boots: tuple[tuple[int, float], ...] = ()

    @property
    def place(self) -> Place:
        """Phase, workload and concurrency."""
        return self.phase, self.workload, self.concurrency

    @property
    def side(self) -> Side:
        """On which side of 1 it is for certain, the comparison of several arms allowed for."""
        return "inconclusive" if self.inference is None else self.inference.side

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
            self,
            ratio=ratio,
            value=self.baseline,
            baseline=self.value,
            acceptance_length=gone,
            rho=gone,
            inference=None if self.inference is None else self.inference.inverted(),
            boots=tuple((block, 1 / value) for block, value in self.boots),
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
    level: Level | None = None,
) -> tuple[Ratio, ...]:
    """Every ratio of two arms' cells of the same phase, workload and concurrency, over all their blocks.

    `level` is that of a study that was looked at as it went; 95 % without one.
    """
    mine, theirs = by_place(arm), by_place(baseline)
    found = []
    for place in mine:
        if place not in theirs:
            continue
        for metric in METRICS.get(place[0], ()):
            if metric == "steady_tok_s" and place[2] == 1 and place[0] != "sweep":
                continue
            found.append(_ratio(requests, metric, place, mine[place], theirs[place], baseline_drafts, level))
    return tuple(found)


def compare_pair(requests: RequestColumns, metric: Metric, mine: MeasuredCell, theirs: MeasuredCell) -> Ratio:
    """One cell over another of the same prompts, as of the control over itself at another time."""
    key = mine.cell.key
    place = (key.phase, key.workload, key.concurrency)
    return _ratio(requests, metric, place, {0: mine}, {0: theirs}, True, None)


def allow_for_arms(comparisons: Sequence[Comparison]) -> tuple[Comparison, ...]:
    """The comparisons with Holm's p-values: arms that are compared with one baseline at one place and metric
    are a family, and so are all pairs of drafters.
    """
    families: dict[tuple[object, ...], list[tuple[int, int]]] = {}
    for row, comparison in enumerate(comparisons):
        for column, ratio in enumerate(comparison.ratios):
            if ratio.inference is not None and ratio.inference.p is not None:
                key = (comparison.against_control, ratio.metric, *ratio.place)
                families.setdefault(key, []).append((row, column))
    made = [list(comparison.ratios) for comparison in comparisons]
    for places in families.values():
        inferences = [
            inference for row, column in places if (inference := made[row][column].inference) is not None
        ]
        adjusted_p = holm([each.p or 0.0 for each in inferences])
        for (row, column), inference in zip(places, adjusted(inferences, adjusted_p), strict=True):
            made[row][column] = replace(made[row][column], inference=inference)
    return tuple(
        replace(comparison, ratios=tuple(ratios))
        for comparison, ratios in zip(comparisons, made, strict=True)
    )


def pool_ratio(arm: Reading, baseline: Reading, by_block: Sequence[tuple[float, float]] = ()) -> Reading:
    """One pool over another; with (arm, baseline) of two blocks or more, the geometric mean of the blocks'
    ratios with a t interval, since pools have boot noise too.
    """
    if arm.value is None or not baseline.value:
        return Reading.absent(arm.missing or baseline.missing or "the baseline's pool is empty")
    pairs = [(mine, theirs) for mine, theirs in by_block if mine > 0 and theirs > 0]
    if len(pairs) < 2:
        return Reading.of(arm.value / baseline.value, "ratio", "computed", note="one boot: no interval")
    found = ratio_interval(np.log([mine / theirs for mine, theirs in pairs]))
    note = f"95 % t interval over {len(pairs)} boots of each arm, paired by block"
    return Reading.of(found.mean, "ratio", "computed", low=found.low, high=found.high, note=note)


def crossing(ratios: Sequence[Ratio]) -> tuple[Crossover | None, str | None]:
    """The crossover over the concurrencies of the repeats, else of the cold waves, and the phase; each ratio
    with its interval, so that it never ends at one that was not told apart from 1. A sweep's are found apart,
    one a workload.
    """
    for phase in ("repeat", "cold"):
        points = {
            ratio.concurrency: ratio.ratio
            for ratio in ratios
            if ratio.phase == phase
            and ratio.ratio.known
            and ratio.metric == ("decode_tok_s" if ratio.concurrency == 1 else "steady_tok_s")
        }
        if len(points) > 1:
            return stop_paying(points), phase
    return None, None


def by_place(cells: Sequence[MeasuredCell]) -> dict[Place, dict[int, MeasuredCell]]:
    """Cells by phase, workload and concurrency, then by block."""
    places: dict[Place, dict[int, MeasuredCell]] = {}
    for measured in cells:
        key = measured.cell.key
        places.setdefault((key.phase, key.workload, key.concurrency), {})[key.block] = measured
    return places


def effects_of(
    requests: RequestColumns,
    metric: str,
    mine: Mapping[int, MeasuredCell],
    theirs: Mapping[int, MeasuredCell],
) -> tuple[BootEffect, ...]:
    """The effect of every block whose cells are sound on both sides and tell the metric."""
    sound = [
        block
        for block in mine
        if block in theirs and mine[block].findings.sound and theirs[block].findings.sound
    ]
    found = [boot_effect(requests, metric, mine[block], theirs[block]) for block in sound]
    return tuple(effect for effect in found if effect is not None)


def _ratio(
    requests: RequestColumns,
    metric: Metric,
    place: Place,
    mine: dict[int, MeasuredCell],
    theirs: dict[int, MeasuredCell],
    baseline_drafts: bool,
    level: Level | None,
) -> Ratio:
    blocks = [block for block in mine if block in theirs]
    effects = effects_of(requests, metric, mine, theirs)
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
    if not effects:
        if any(mine[block].findings.sound and theirs[block].findings.sound for block in blocks):
            return replace(refused, ratio=Reading.absent("one side did not measure it"))
        return refused
    inference = infer_of(effects, level)
    value = math.exp(float(np.mean([effect.log for effect in effects])))
    unit = "s" if metric == "ttft_s" else "tok/s"
    above = math.exp(float(np.mean([effect.above for effect in effects])))
    below = math.exp(float(np.mean([effect.below for effect in effects])))
    note = "geometric mean over the pairs" if metric in PER_REQUEST else None
    ratio = Reading.of(
        value, "ratio", "computed", low=inference.low, high=inference.high, note=inference.level
    )
    length = _length([mine[effect.block] for effect in effects if effect.block in mine])
    return Ratio(
        metric,
        *place,
        ratio,
        Reading.of(above, unit, "client", note=note),
        Reading.of(below, unit, "client", note=note),
        inference.level,
        length,
        _rho(metric, length, ratio, baseline_drafts),
        inference=inference,
        boots=tuple((effect.block, math.exp(effect.log)) for effect in effects),
    )


def infer_of(effects: Sequence[BootEffect], level: Level | None) -> Inference:
    """The inference at 95 %, or over boots at the level given."""
    if level is None or len(effects) < 2:
        return infer(effects)
    return infer(effects, level.confidence, level.words)


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
