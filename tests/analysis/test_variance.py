"""Noise by level, what more of each would buy, shapes, and the least difference told apart."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some
from scipy import stats

from kvantage.analysis.boot_noise import sd_of_range
from kvantage.analysis.bootstrap import bootstrap_interval
from kvantage.analysis.effect import BootEffect
from kvantage.analysis.inference import infer
from kvantage.analysis.shape import look_at, two_modes
from kvantage.analysis.stats import detectable, holm, minimum_detectable_ratio, p_value, t_interval
from kvantage.analysis.variance import split_variance

PROMPTS, REPEATS = 12, 4


def effects(
    boots: int,
    sd_boot: float,
    sd_prompt: float,
    sd_repeat: float,
    seed: int = 1,
    nested: bool = False,
    mean: float = 0.1,
) -> list[BootEffect]:
    rng = np.random.default_rng(seed)
    own = rng.normal(0, sd_prompt, PROMPTS)
    made = []
    for block in range(boots):
        if nested:
            own = rng.normal(0, sd_prompt, PROMPTS)
        logs = mean + rng.normal(0, sd_boot) + np.repeat(own, REPEATS)
        logs = logs + rng.normal(0, sd_repeat, logs.size)
        salt = f"{block}:" if nested else ""
        names = np.repeat([f"{salt}prompt {place}" for place in range(PROMPTS)], REPEATS)
        made.append(BootEffect(block, float(logs.mean()), 0.0, 0.0, logs, names, True))
    return made


def test_the_split_finds_what_was_put_in() -> None:
    found = [split_variance(effects(6, 0.03, 0.08, 0.02, seed)) for seed in range(60)]
    told = [each for each in found if each is not None]
    assert len(told) == 60
    assert np.sqrt(np.mean([each.boot**2 for each in told])) == pytest.approx(0.03, rel=0.15)
    assert np.sqrt(np.mean([(each.prompt or 0) ** 2 for each in told])) == pytest.approx(0.08, rel=0.15)
    assert np.mean([each.repeat for each in told]) == pytest.approx(0.02, rel=0.1)
    assert not told[0].mixed


def test_prompts_of_each_boot_are_not_told_from_repeats() -> None:
    found = split_variance(effects(6, 0.03, 0.08, 0.02, nested=True))
    assert found is not None
    assert found.mixed
    assert found.prompt is None
    assert found.repeat == pytest.approx(math.hypot(0.08, 0.02), rel=0.2)


def test_one_boot_splits_nothing() -> None:
    assert split_variance(effects(1, 0.03, 0.08, 0.02)) is None


def test_where_boots_differ_a_boot_buys_more_and_where_requests_do_requests() -> None:
    loud = split_variance(effects(3, 0.05, 0.02, 0.02))
    assert loud is not None
    assert loud.advice.startswith("a fourth boot buys more than 100 more requests")
    noisy = split_variance(effects(8, 0.0, 0.0, 0.5, seed=3))
    assert noisy is not None
    assert "100 more requests buy more than a ninth boot" in noisy.advice


def test_two_modes_are_seen_and_their_median_is_not_their_mean() -> None:
    rng = np.random.default_rng(2)
    logs = np.concatenate((rng.normal(math.log(1.079), 0.004, 12), rng.normal(math.log(0.9), 0.004, 8)))
    shape = look_at(logs)
    assert shape.modes is not None
    assert shape.modes == pytest.approx((0.9, 1.079), rel=0.01)
    assert shape.upper_share == pytest.approx(0.6)
    assert shape.median > 1.06
    assert shape.mean < 1.01
    assert "two modes, 0.90x and 1.08x (60 % in the upper)" in shape.words[0]


def test_one_mode_is_rarely_taken_for_two() -> None:
    rng = np.random.default_rng(3)
    for number in (8, 20, 100):
        wrong = sum(two_modes(rng.normal(0, 1, number)) is not None for _ in range(500))
        assert wrong <= 14, number
    assert two_modes(rng.uniform(0, 1, 2000)) is None


def test_a_drift_over_the_run_is_seen_and_chance_is_not() -> None:
    rng = np.random.default_rng(4)
    noise = rng.normal(0, 0.01, 40)
    run = noise + np.linspace(0, math.log(0.9), 40)
    shape = look_at(run, run)
    assert shape.drift == pytest.approx(0.9, abs=0.02)
    assert "the ratio drifted by" in " ".join(shape.words)
    assert sum(look_at(values, values).drift is not None for values in rng.normal(0, 0.1, (300, 20))) <= 10


def test_values_far_out_are_counted_and_kept() -> None:
    values = np.array([0.0, 0.01, -0.01, 0.02, -0.02, 0.01, 0.0, -0.01, 0.9])
    shape = look_at(values)
    assert shape.outliers == 1
    assert shape.mean == pytest.approx(math.exp(values.mean()))


@pytest.mark.parametrize(("number", "sd"), [(3, 0.02), (6, 0.1), (20, 0.05)])
def test_the_least_difference_is_found_in_four_of_five_studies(number: int, sd: float) -> None:
    true = detectable(sd, number)
    rng = np.random.default_rng(5)
    values = true + rng.normal(0, sd, (4000, number))
    told = [abs(t) > stats.t.ppf(0.975, number - 1) for t in stats.ttest_1samp(values, 0, axis=1).statistic]
    assert np.mean(told) == pytest.approx(0.8, abs=0.02)


def test_the_least_ratio_before_a_study() -> None:
    assert math.isinf(minimum_detectable_ratio(1, 0.02))
    three, six = (minimum_detectable_ratio(boots, 0.0189) for boots in (3, 6))
    assert three == pytest.approx(math.exp(detectable(0.0189 * math.sqrt(2), 3)))
    assert 1 < six < three
    assert minimum_detectable_ratio(3, 0.0, 0.1, 10_000) < 1.01
    assert sd_of_range(92, 111) == pytest.approx(0.1109, abs=0.0001)


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx((0.03, 0.06, 0.06))
    assert holm([]) == ()
    assert holm([0.6, 0.7]) == (1.0, 1.0)


@given(some.lists(some.floats(0, 1), min_size=1, max_size=12))
def test_holm_keeps_order_and_never_helps(values: list[float]) -> None:
    adjusted = holm(values)
    assert all(after >= before for before, after in zip(values, adjusted, strict=True))
    order = sorted(range(len(values)), key=lambda place: values[place])
    assert all(adjusted[a] <= adjusted[b] for a, b in itertools.pairwise(order))


@given(some.lists(some.floats(-5, 5, width=16), min_size=3, max_size=12, unique=True))
def test_p_values_are_scipys_and_agree_with_the_interval(values: list[float]) -> None:
    p = p_value(values)
    assert p == pytest.approx(stats.ttest_1samp(values, 0).pvalue, rel=1e-6, abs=1e-12)
    found = t_interval(values)
    assert found.low is not None
    assert found.high is not None
    if abs(p - 0.05) > 1e-6:
        assert (p < 0.05) is (found.low > 0 or found.high < 0)


def test_the_rule_chooses_t_with_few_boots_and_the_bootstrap_with_ten() -> None:
    few, many = infer(effects(9, 0.02, 0.05, 0.01)), infer(effects(10, 0.02, 0.05, 0.01))
    assert few.method == "t over boots"
    assert many.method == "hierarchical bootstrap"
    assert "hierarchical bootstrap over 10 boots" in many.level
    assert few.low is not None
    assert many.low is not None
    assert many.high is not None
    assert many.low < math.exp(0.1) * 1.02
    assert many.high / many.low == pytest.approx((few.high or 0) / few.low, rel=0.5)


def test_the_bootstrap_counts_noise_once() -> None:
    """Boots that differ by nothing but their requests: as wide as a t interval, not the root of two wider."""
    ratios = []
    for seed in range(40):
        made = effects(12, 0.0, 0.05, 0.05, seed)
        low, high = bootstrap_interval(made)
        half = t_interval([each.log for each in made]).half
        assert half is not None
        ratios.append((high - low) / 2 / half)
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.05)


def test_a_bootstrap_needs_boots() -> None:
    with pytest.raises(ValueError, match="at least three boots"):
        bootstrap_interval(effects(2, 0.02, 0.05, 0.01))
    with pytest.raises(ValueError, match="nothing to infer from"):
        infer([])


def test_one_boot_has_a_published_noise_beside_it() -> None:
    found = infer(effects(1, 0.0, 0.0, 0.01))
    assert found.method == "t within one boot"
    assert found.with_prior.low is not None
    assert found.low is not None
    assert found.with_prior.low < found.low
    assert "published" in (found.with_prior.note or "")
