"""The trade of an arm in one sentence: what it costs of the pool, what it buys in speed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kvantage.analysis import wording
from kvantage.analysis.capacity import Pool
from kvantage.analysis.compare import Comparison, Ratio
from kvantage.core.reading import Reading

SAME_POOL = 0.05
"""Percent of the control's pool under which nothing is said to be lost."""


@dataclass(frozen=True)
class Trade:
    """One arm against the control. `effect` is what its speeds say together."""

    arm: str
    baseline: str
    sentence: str
    effect: str
    pool_lost: Reading
    headline: Ratio | None


def weigh(comparison: Comparison, pool: Pool, control: Pool) -> Trade:
    """The trade of an arm from its comparison with the control."""
    lost, cost = _cost(pool, control)
    told = _chosen(comparison.ratios)
    known = [ratio for ratio in told if ratio.ratio.known]
    refused = [ratio for ratio in told if not ratio.ratio.known]
    effect = _effect([_side(ratio) for ratio in known])
    parts = _speeds(known, paid=lost is not None and lost > SAME_POOL)
    if not known:
        parts = [_unmeasured(refused)]
    elif refused:
        parts += _refusals(refused)
    sentence = ", ".join([cost, *parts])
    if effect == "loses":
        paid = lost is not None and lost > SAME_POOL
        sentence += ": it loses on both" if paid else ": it loses"
    return Trade(
        comparison.arm,
        comparison.baseline,
        sentence,
        effect,
        pool.lost_tokens if pool.lost_tokens.known else pool.lost_bytes,
        told[0] if told else None,
    )


def pair_sentence(comparison: Comparison) -> str:
    """One arm against another: its pool and speeds in percent, each of the baseline."""
    parts = []
    pool = comparison.pool_tokens if comparison.pool_tokens.known else comparison.pool_bytes
    if pool.value is not None:
        parts.append(f"pool {(pool.value - 1) * 100:+.0f} %")
    for ratio in _chosen(comparison.ratios):
        if ratio.ratio.value is not None:
            parts.append(f"{_place(ratio)} {(ratio.ratio.value - 1) * 100:+.0f} %")
    told = ", ".join(parts) or "nothing to compare"
    return f"{wording.named(comparison.arm)} against {wording.named(comparison.baseline)}: {told}"


def _cost(pool: Pool, control: Pool) -> tuple[float | None, str]:
    for lost, mine, theirs, unit in (
        (pool.lost_tokens, pool.tokens, control.tokens, "tokens"),
        (pool.lost_bytes, pool.bytes, control.bytes, "bytes"),
    ):
        if lost.value is None or mine.value is None or theirs.value is None:
            continue
        if abs(lost.value) <= SAME_POOL:
            return lost.value, f"costs nothing of the pool ({mine.value:,.0f} {unit})"
        gap = abs(theirs.value - mine.value)
        verb = "costs" if lost.value > 0 else "adds"
        share = wording.percent(abs(lost.value))
        joint = "of" if lost.value > 0 else "to"
        return lost.value, f"{verb} {share} {joint} the pool ({gap:,.0f} {joint} {theirs.value:,.0f} {unit})"
    return None, f"its pool is not known ({pool.tokens.missing or control.tokens.missing})"


def _chosen(ratios: Sequence[Ratio]) -> list[Ratio]:
    """The speeds that a sentence tells: short prompts, then the repeats at each concurrency; of a study that
    has neither, the sweep's, queues left out.
    """
    told = [
        ratio
        for ratio in ratios
        if (ratio.phase == "short" and ratio.metric == "decode_tok_s")
        or (
            ratio.phase == "repeat"
            and ratio.metric == ("decode_tok_s" if ratio.concurrency == 1 else "steady_tok_s")
        )
    ]
    return told or [
        ratio
        for ratio in ratios
        if (ratio.phase, ratio.metric) == ("sweep", "steady_tok_s")
        and "measured a queue" not in (ratio.ratio.missing or "")
    ]


def _place(ratio: Ratio) -> str:
    what = wording.work(ratio.phase, ratio.workload)
    return f"{what} at {wording.streams(ratio.concurrency)}"


def _speeds(ratios: Sequence[Ratio], paid: bool) -> list[str]:
    parts = []
    for number, ratio in enumerate(ratios):
        assert ratio.ratio.value is not None
        side = _side(ratio)
        what = f"{wording.times(ratio.ratio.value)} on {_place(ratio)}"
        if number == 0:
            verb = {"above": "buys", "below": "and is" if paid else "is", "unclear": "is at"}[side]
            what = f"{verb} {what} ({_figures(ratio)})"
        if side == "unclear":
            what += " (not told apart from 1)"
        parts.append(what)
    return parts


def _figures(ratio: Ratio) -> str:
    assert ratio.value.value is not None
    assert ratio.baseline.value is not None
    text = f"{wording.speed(ratio.value.value)} against {wording.speed(ratio.baseline.value)} tok/s"
    if ratio.ratio.low is not None and ratio.ratio.high is not None:
        text += f", interval {ratio.ratio.low:.2f} to {ratio.ratio.high:.2f} {_level(ratio)}"
    return text


def _level(ratio: Ratio) -> str:
    """At which level the interval is replicated, in few words."""
    boots = 1 if ratio.inference is None else ratio.inference.boots
    return "within one boot" if boots < 2 else f"over {boots} boots"


def _side(ratio: Ratio) -> str:
    """'above' or 'below' 1, or 'unclear' where the interval spans it; without one the value tells."""
    reading = ratio.ratio
    assert reading.value is not None
    if reading.low is None or reading.high is None:
        return "above" if reading.value > 1 else "below" if reading.value < 1 else "unclear"
    side = ratio.side
    return "unclear" if side == "inconclusive" else side


def _effect(sides: Sequence[str]) -> str:
    if not sides:
        return "not measured"
    if all(side == "below" for side in sides):
        return "loses"
    if all(side == "above" for side in sides):
        return "wins"
    return "undecided" if all(side == "unclear" for side in sides) else "mixed"


def _refusals(refused: Sequence[Ratio]) -> list[str]:
    """The places without a ratio, by the arms that are void there."""
    places: dict[tuple[str, ...], list[str]] = {}
    for ratio in refused:
        places.setdefault(ratio.void_arms, []).append(_place(ratio))
    told = []
    for arms, where in places.items():
        void = wording.listed([wording.named(arm) for arm in arms])
        told.append(f"no ratio on {wording.listed(where)} ({f'void in {void}' if arms else 'not measured'})")
    return told


def _unmeasured(refused: Sequence[Ratio]) -> str:
    if not refused:
        return "and no speed was measured in both arms"
    return f"and every speed ratio is refused ({(refused[0].ratio.missing or '').removeprefix('refused: ')})"
