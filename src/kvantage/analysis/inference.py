"""From boots to one ratio: its interval, at which level it is replicated, and what it can and cannot tell."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from kvantage.analysis.boot_noise import AUTOTUNED, PINNED
from kvantage.analysis.bootstrap import bootstrap_interval
from kvantage.analysis.effect import BootEffect
from kvantage.analysis.shape import Shape, look_at
from kvantage.analysis.stats import CONFIDENCE, POWER, detectable, judge, p_value, ratio_interval, t_quantile
from kvantage.analysis.variance import Split, split_variance
from kvantage.core.reading import Reading

ENOUGH_BOOTS = 10
"""From this many boots on the hierarchical bootstrap is taken; below, a t interval over the boots."""

BOOT_NOTE = "boot effects are not in it"

Method = Literal["t over boots", "hierarchical bootstrap", "t within one boot", "none"]
Side = Literal["above", "below", "inconclusive"]


@dataclass(frozen=True)
class Inference:
    """What is known of one ratio, beside its value.

    method       how the interval was taken; `none` where there is none
    level        the same in words, with the level of replication: it is printed with every interval
    confidence   of the interval
    low, high    its ends, as ratios; None where there is none
    p            two-sided p that the ratio is 1, by Student's t at the interval's level of replication
    holm         the same adjusted over the `family` arms that were compared with one baseline (Holm)
    detectable   the smallest ratio above 1 that this design, with the noise that it saw, would have told from
                 1 in four of five studies
    with_prior   with one boot: the interval with a published boot noise added; `note` says whose
    split        the noise by boot, prompt and repeat, where there are boots to tell
    shape        of the paired requests
    """

    method: Method
    level: str
    confidence: float
    boots: int
    requests: int
    low: float | None
    high: float | None
    p: float | None
    holm: float | None
    family: int
    detectable: Reading
    with_prior: Reading
    split: Split | None
    shape: Shape | None

    @property
    def side(self) -> Side:
        """On which side of 1 the ratio is, for certain: the interval and Holm's p must both say so."""
        side = judge(self.low, self.high)
        if side == "inconclusive" or (self.holm is not None and self.holm > 1 - self.confidence):
            return "inconclusive"
        return "above" if side == "above" else "below"

    def inverted(self) -> Inference:
        """The same of the baseline over the arm."""
        low = None if self.high is None else 1 / self.high
        high = None if self.low is None else 1 / self.low
        gone = Reading.absent("told of the arm over its baseline")
        return replace(self, low=low, high=high, with_prior=gone, shape=None)


def infer(effects: Sequence[BootEffect], confidence: float = CONFIDENCE, looked: str = "") -> Inference:
    """The inference from the effects of at least one block.

    With two boots or more the boots' log-ratios are the values: Student's t for fewer than ten of them, the
    hierarchical bootstrap from ten on. With one boot, a t interval over its paired requests, which holds
    nothing of what varies between boots. `looked` is said after the level where the confidence is that of a
    study that was looked at as it went. Raises ValueError without an effect.
    """
    if not effects:
        raise ValueError("nothing to infer from")
    if len(effects) == 1:
        return _within(effects[0], confidence)
    logs = np.array([effect.log for effect in effects])
    number = len(logs)
    share = f"{confidence * 100:.4g} %"
    if number < ENOUGH_BOOTS:
        interval = ratio_interval(logs, confidence)
        low, high = interval.low, interval.high
        method: Method = "t over boots"
        level = f"{share} t interval over {number} boots of each arm, paired by block"
    else:
        ends = bootstrap_interval(effects, confidence)
        low, high = math.exp(ends[0]), math.exp(ends[1])
        method = "hierarchical bootstrap"
        level = f"{share} hierarchical bootstrap over {number} boots of each arm, paired by block"
    sd = float(logs.std(ddof=1))
    found = math.exp(min(700.0, detectable(sd, number, confidence)))
    return Inference(
        method,
        f"{level}{looked}",
        confidence,
        number,
        sum(effect.requests.size for effect in effects),
        low,
        high,
        p_value(logs),
        None,
        1,
        Reading.of(found, "ratio", "computed", note=f"power {POWER:.0%}, {number} boots"),
        Reading.absent("boots were repeated: their noise is in the interval"),
        split_variance(effects),
        _shape(effects),
    )


def _within(effect: BootEffect, confidence: float) -> Inference:
    number = effect.requests.size
    if number < 2:
        gone = Reading.absent("no interval to start from")
        level = f"one boot, {number} pair of requests: no interval; {BOOT_NOTE}"
        return Inference(
            "none",
            level,
            confidence,
            1,
            number,
            None,
            None,
            None,
            None,
            1,
            gone,
            gone,
            None,
            _shape([effect]),
        )
    centred = effect.requests - effect.requests.mean() + effect.log
    interval = ratio_interval(centred, confidence)
    level = f"{confidence * 100:.4g} % t interval within one boot over {number} paired requests; {BOOT_NOTE}"
    found = math.exp(min(700.0, detectable(interval.sd or 0.0, number, confidence)))
    assert interval.low is not None
    assert interval.high is not None
    return Inference(
        "t within one boot",
        level,
        confidence,
        1,
        number,
        interval.low,
        interval.high,
        p_value(centred),
        None,
        1,
        Reading.of(found, "ratio", "computed", note=f"power {POWER:.0%}, within this boot"),
        with_boot_noise(effect.log, interval.low, interval.high, confidence),
        None,
        _shape([effect]),
    )


def with_boot_noise(log: float, low: float, high: float, confidence: float = CONFIDENCE) -> Reading:
    """A one-boot interval with the smaller published boot noise added, as ratios.

    Variances add: the half-width within the boot, and z sqrt(2) sd for two arms' boots.
    """
    z = t_quantile(10**6, confidence)
    inside = (math.log(high) - math.log(low)) / 2
    half = math.hypot(inside, z * math.sqrt(2) * PINNED.sd)
    loud = math.exp(z * math.sqrt(2) * AUTOTUNED.sd)
    return Reading.of(
        math.exp(log),
        "ratio",
        "computed",
        low=math.exp(log - half),
        high=math.exp(log + half),
        note=(
            f"if boots vary as little as published ones with pinned kernels ({PINNED.words}); with those of "
            f"autotuned ones ({AUTOTUNED.words}), two boots of one arm may lie {loud:.2f}-fold apart. "
            f"Source: {PINNED.source}"
        ),
    )


def adjusted(inferences: Sequence[Inference], adjusted_p: Sequence[float]) -> list[Inference]:
    """The same inferences with Holm's p-values over their family."""
    return [
        replace(each, holm=p, family=len(inferences)) for each, p in zip(inferences, adjusted_p, strict=True)
    ]


def _shape(effects: Sequence[BootEffect]) -> Shape | None:
    """Of all boots' requests, each boot about the common middle: what boots add is not a mode of it."""
    parts = [effect.requests - effect.requests.mean() for effect in effects if effect.requests.size]
    if not parts:
        return None
    middle = float(np.mean([effect.log for effect in effects]))
    same = len({part.size for part in parts}) == 1
    return look_at(np.concatenate(parts) + middle, np.mean(parts, axis=0) if same else parts[0])
