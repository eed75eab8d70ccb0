"""Ratios with their baselines, their intervals, and their refusals."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some
from scipy import stats

from kvantage.analysis.analyse import analyse
from kvantage.analysis.compare import Ratio
from kvantage.analysis.crossover import find_crossover
from kvantage.analysis.findings import Findings
from kvantage.analysis.stats import judge, ratio_interval, t_interval
from kvantage.core import Speculation
from tests.analysis.builder import StudyBuilder, drafting, short, two_arms, wave

MTP = Speculation(method="mtp", drafts=3)


def ratio(found: Findings, *place: object) -> Ratio:
    chosen = found.comparisons[0].ratio(*place)  # type: ignore[arg-type]
    assert chosen is not None
    return chosen


def test_pairs_by_prompt_and_their_interval() -> None:
    off, on = [14.0, 16.0, 20.0], [28.0, 30.0, 44.0]
    builder = StudyBuilder().arm("none").arm("mtp", MTP)
    builder.cell("none", "short", "code", 1, short(off))
    builder.cell("mtp", "short", "code", 1, drafting(short(on), 3, 2.5))
    made = ratio(analyse(builder.data()), "decode_tok_s", "short", "code")
    logs = np.log(np.array(on) / np.array(off))
    half = stats.t.ppf(0.975, 2) * logs.std(ddof=1) / math.sqrt(3)
    assert made.ratio.value == pytest.approx(math.exp(logs.mean()))
    assert made.ratio.low == pytest.approx(math.exp(logs.mean() - half))
    assert made.ratio.high == pytest.approx(math.exp(logs.mean() + half))
    assert made.replication == (
        "95 % t interval within one boot over 3 paired requests; boot effects are not in it"
    )
    assert made.value.value is not None
    assert made.baseline.value is not None
    assert made.value.value / made.baseline.value == pytest.approx(made.ratio.value)


def test_only_the_same_prompts_are_paired() -> None:
    builder = StudyBuilder().arm("none").arm("mtp", MTP)
    builder.cell("none", "short", "code", 1, short([10.0, 20.0, 30.0]))
    builder.cell("mtp", "short", "code", 1, drafting(short([20.0, 40.0]), 3, 2.5))
    made = ratio(analyse(builder.data()), "decode_tok_s", "short", "code")
    assert made.ratio.value == pytest.approx(2.0)
    assert "over 2 paired requests" in made.replication


def test_one_pair_has_no_interval() -> None:
    made = ratio(analyse(two_arms().data()), "decode_tok_s", "repeat", None, 1)
    assert made.ratio.known
    assert made.ratio.low is None
    assert made.replication.startswith("one boot, 1 pair of requests: no interval")


def test_rho_is_length_over_speed_up() -> None:
    made = ratio(analyse(two_arms().data()), "decode_tok_s", "short", "code")
    assert made.acceptance_length.value is not None
    assert made.ratio.value is not None
    assert made.rho.value == pytest.approx(made.acceptance_length.value / made.ratio.value)


def test_a_baseline_that_speculates_gives_no_rho() -> None:
    builder = two_arms().arm("ngram", Speculation(method="ngram", drafts=5))
    builder.cell("ngram", "short", "code", 1, drafting(short([22.0, 22.0, 22.0]), 5, 1.5))
    pair = analyse(builder.data()).comparisons[-1]
    assert (pair.arm, pair.baseline, pair.against_control) == ("ngram", "mtp", False)
    made = pair.ratio("decode_tok_s", "short", "code")
    assert made is not None
    assert made.rho.missing == "the baseline speculates too"


def test_a_void_side_refuses_and_is_named() -> None:
    made = ratio(analyse(two_arms().data()), "steady_tok_s", "repeat", None, 4)
    assert made.ratio.missing is not None
    assert made.ratio.missing.startswith("refused: mtp is void (cache_warm: 4 of 4")
    assert made.void_arms == ("mtp",)
    assert not made.value.known


def test_a_void_control_refuses_too() -> None:
    builder = StudyBuilder().arm("none").arm("mtp", MTP)
    builder.cell("none", "short", "code", 1, short([20.0, 20.0]), counters={"preemptions": 1.0})
    builder.cell("mtp", "short", "code", 1, drafting(short([30.0, 30.0]), 3, 2.5))
    made = ratio(analyse(builder.data()), "decode_tok_s", "short", "code")
    assert "refused: none is void (no_retraction" in (made.ratio.missing or "")


def test_boots_are_the_unit_once_there_are_two() -> None:
    builder = StudyBuilder()
    for block, factor in enumerate((1.5, 1.7, 1.6)):
        builder.arm("none", block=block).arm("mtp", MTP, block=block)
        builder.cell("none", "short", "code", 1, short([20.0, 21.0]), block=block)
        rates = [20.0 * factor, 21.0 * factor]
        builder.cell("mtp", "short", "code", 1, drafting(short(rates), 3, 2.5), block=block)
    made = ratio(analyse(builder.data()), "decode_tok_s", "short", "code")
    wanted = ratio_interval(np.log([1.5, 1.7, 1.6]))
    assert made.ratio.value == pytest.approx(wanted.mean)
    assert made.ratio.low == pytest.approx(wanted.low)
    assert made.replication == "95 % t interval over 3 boots of each arm, paired by block"


def test_a_void_boot_leaves_the_sound_ones() -> None:
    builder = StudyBuilder()
    for block in (0, 1):
        builder.arm("none", block=block).arm("mtp", MTP, block=block)
        builder.cell("none", "short", "code", 1, short([20.0, 20.0]), block=block)
        late = {"lag_s": 1.0} if block else {}
        rate = 90.0 if block else 30.0
        builder.cell("mtp", "short", "code", 1, drafting(short([rate, rate], **late), 3, 2.5), block=block)
    made = ratio(analyse(builder.data()), "decode_tok_s", "short", "code")
    assert made.ratio.value == pytest.approx(1.5)


def test_aggregates_carry_the_spread_of_their_streams() -> None:
    builder = StudyBuilder().arm("none").arm("mtp", MTP)
    warm = {"cached": 1984, "expected": (1968, 1984)}
    builder.cell("none", "repeat", "documents", 2, wave(10.0, 2, 65, **warm))  # type: ignore[arg-type]
    uneven = [
        replace(each, rate=14.0 + 2 * each.stream)
        for each in wave(14.0, 2, 65, **warm)  # type: ignore[arg-type]
    ]
    builder.cell("mtp", "repeat", "documents", 2, drafting(uneven, 3, 2.5))
    made = ratio(analyse(builder.data()), "steady_tok_s", "repeat", None, 2)
    assert made.ratio.value == pytest.approx(1.5, rel=0.02)
    assert made.ratio.low is not None
    assert made.ratio.low < made.ratio.value < (made.ratio.high or 0)


def test_inverting_twice_changes_nothing() -> None:
    made = ratio(analyse(two_arms().data()), "decode_tok_s", "short", "code")
    there = made.inverted()
    assert there.ratio.value == pytest.approx(1 / (made.ratio.value or 0))
    assert (there.ratio.low or 0) < (there.ratio.high or 0)
    back = there.inverted().ratio
    assert (back.value, back.low, back.high) == pytest.approx(
        (made.ratio.value, made.ratio.low, made.ratio.high)
    )


def test_what_the_servers_resolved_otherwise_is_listed() -> None:
    builder = StudyBuilder()
    builder.arm("none", resolved={"cache": {"block": 16}, "eager": True})
    builder.arm("mtp", MTP, resolved={"cache": {"block": 32}, "eager": True, "spec": "mtp"})
    differs = analyse(builder.data()).comparisons[0].differs
    assert [(each.setting, each.arm, each.baseline) for each in differs] == [
        ("cache.block", "32", "16"),
        ("spec", "mtp", "not told"),
    ]


@given(some.lists(some.floats(0.2, 5.0), min_size=2, max_size=20))
def test_ratio_intervals_hold_their_mean_and_invert(ratios: list[float]) -> None:
    logs = np.log(np.array(ratios))
    there, back = ratio_interval(logs), ratio_interval(-logs)
    assert there.low is not None
    assert there.high is not None
    assert there.low <= there.mean * (1 + 1e-12)
    assert there.mean <= there.high * (1 + 1e-12)
    assert back.mean == pytest.approx(1 / there.mean)
    assert back.low == pytest.approx(1 / there.high)


@given(some.lists(some.floats(-100, 100, width=16), min_size=3, max_size=20, unique=True))
def test_t_intervals_are_scipys(values: list[float]) -> None:
    found = t_interval(values)
    wanted = stats.t.interval(0.95, len(values) - 1, np.mean(values), stats.sem(values))
    assert (found.low, found.high) == pytest.approx(wanted, rel=1e-6, abs=1e-9)


@given(
    some.lists(some.floats(0.3, 3.0), min_size=1, max_size=6),
)
def test_a_crossover_lies_between_its_ends(ratios: list[float]) -> None:
    places = [2**n for n in range(len(ratios))]
    found = find_crossover(places, ratios)
    assert found is not None
    if found.between is not None:
        assert found.low is not None
        assert found.high is not None
        assert found.low * (1 - 1e-9) <= found.between <= found.high * (1 + 1e-9)
    assert (found.high is None) is all(ratio >= 1 for ratio in ratios)


def test_no_interval_decides_nothing() -> None:
    assert judge(None, None) == "inconclusive"
    assert judge(0.9, 1.1) == "inconclusive"
    assert judge(1.01, 1.1) == "above"
    assert judge(0.8, 0.99) == "below"
