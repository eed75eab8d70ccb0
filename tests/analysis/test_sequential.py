"""Looks at a study that may stop: what is decided, what is not, and how often that is wrong."""

from __future__ import annotations

import numpy as np
import pytest

from kvantage.analysis.analyse import analyse
from kvantage.analysis.sequential import look
from kvantage.analysis.spending import Spending
from kvantage.analysis.stats import t_quantile
from tests.analysis.boots import MTP, booted
from tests.analysis.builder import STUDY, StudyBuilder, drafting, short

UNTIL = {"margin": 0.03, "confidence": 0.95, "max_boots": 6, "max_hours": None}


def test_the_error_is_spent_whole_and_no_more() -> None:
    spending = Spending(6, 0.95)
    assert [spending.spent(boots) for boots in (2, 3, 6)] == pytest.approx([0, 0.0125, 0.05])
    levels = [spending.alpha(boots) for boots in range(2, 8)]
    assert levels[0] == 0
    assert levels[1:5] == pytest.approx([0.0120, 0.0131, 0.0182, 0.0261], abs=0.0001)
    assert levels[5] == levels[4]
    assert spending.level(4).words == "; look 2 of 4, which together keep 95 %"


def test_a_single_look_has_all_the_error() -> None:
    assert Spending(3, 0.9).alpha(3) == pytest.approx(0.1, rel=0.02)
    assert Spending(3, 0.9).level(3).words == ""


@pytest.mark.parametrize(("last", "error"), [(6, 0.05), (4, 0.05), (6, 0.05 / 6)])
def test_looks_at_equal_arms_are_wrong_no_oftener_than_declared(last: int, error: float) -> None:
    """200,000 sequences of boots of equal arms, of another seed than the levels'."""
    draws = np.random.default_rng(7).standard_normal((200_000, last))
    spending = Spending(last, 1 - error)
    wrong = np.zeros(len(draws), dtype=bool)
    for boots in range(3, last + 1):
        seen = draws[:, :boots]
        half = t_quantile(boots - 1, spending.level(boots).confidence) * seen.std(axis=1, ddof=1)
        wrong |= np.abs(seen.mean(axis=1)) > half / np.sqrt(boots)
    assert 0.8 * error < wrong.mean() < error * 1.02


def test_nothing_is_decided_before_three_boots() -> None:
    found = look(booted({"none": 1.0, "mtp": 2.0}, 2, sd_boot=0.01, until=UNTIL).data(), 2)
    assert not found.decided
    assert found.undecided == ("after 2 of at least 3 boots an arm",)
    assert found.out == ()


def test_a_clear_winner_is_decided_at_the_first_look() -> None:
    found = look(booted({"none": 1.0, "mtp": 1.5}, 3, sd_boot=0.01, until=UNTIL).data(), 3)
    assert found.decided
    assert found.out == ("none",)
    assert found.words.startswith("After 3 boots an arm 'mtp' leads; 'none' is out: behind 'mtp'")


def test_one_sound_boot_decides_nothing() -> None:
    builder = booted({"none": 1.0}, 3, until=UNTIL)
    for block in range(3):
        builder.arm("mtp", MTP, block=block)
        late = {"lag_s": 1.0} if block else {}
        made = drafting(short([40.0, 40.1, 39.9], **late), 3, 2.5)
        builder.cell("mtp", "short", "code", 1, made, block=block)
    found = look(builder.data(), 3)
    assert not found.decided
    assert found.out == ()


def test_noise_is_not_decided() -> None:
    found = look(booted({"none": 1.0, "mtp": 1.02}, 3, sd_boot=0.05, until=UNTIL).data(), 3)
    assert not found.decided
    assert found.out == ()
    assert len(found.undecided) == 1
    assert "not decided" in found.words


def test_arms_within_the_margin_are_tied_and_that_is_a_decision() -> None:
    found = look(booted({"none": 1.0, "mtp": 1.001}, 6, sd_boot=0.002, until=UNTIL).data(), 6)
    assert found.decided
    assert found.out == ()
    assert "tied within 3 %" in found.words


def test_an_arm_that_holds_too_little_is_out_and_knocks_nobody_out() -> None:
    pools = {"mtp": [4000.0]}
    found = look(booted({"none": 1.0, "mtp": 2.0}, 3, sd_boot=0.01, pools=pools, until=UNTIL).data(), 3)
    assert found.decided
    assert found.out == ("mtp",)
    assert "holds 1 of the 4 sessions" in found.words


def test_the_smallest_pool_of_all_boots_counts() -> None:
    pools = {"mtp": [9000.0, 8000.0, 9000.0]}
    found = look(booted({"none": 1.0, "mtp": 2.0}, 3, sd_boot=0.01, pools=pools, until=UNTIL).data(), 3)
    assert found.out == ("mtp",)


def test_without_a_policy_each_arm_is_held_against_the_control() -> None:
    builder = booted({"none": 1.0, "mtp": 1.5, "ngram": 1.01}, 3, sd_boot=0.01, until=UNTIL, policy=None)
    found = look(builder.data(), 3)
    assert found.undecided == ("'ngram' against 'none'",)
    assert found.out == ()


def test_an_empty_study_is_not_decided() -> None:
    assert not look(StudyBuilder({**STUDY, "until": UNTIL}).arm("none").data(), 3).decided


def test_the_report_of_a_study_that_was_looked_at_has_the_looks_intervals() -> None:
    found = analyse(booted({"none": 1.0, "mtp": 1.5}, 3, sd_boot=0.02, until=UNTIL).data())
    ratio = found.comparisons[0].ratio("decode_tok_s", "short", "code")
    assert ratio is not None
    assert ratio.replication == (
        "98.8 % t interval over 3 boots of each arm, paired by block; look 1 of 4, which together keep 95 %"
    )


@pytest.mark.parametrize("arms", [2, 4])
def test_equal_arms_are_rarely_told_apart(arms: int) -> None:
    """60 studies of equal arms at their last look: 1.25 % may be told apart; the benchmark has thousands."""
    gains = {"none": 1.0, **{f"a{place}": 1.0 for place in range(arms - 1)}}
    wrong = 0
    for seed in range(60):
        data = booted(gains, 6, sd_boot=0.03, requests=1, seed=seed, until=UNTIL).data()
        wrong += bool(look(data, 6).out)
    assert wrong <= 4


def test_a_boot_that_only_closed_the_study_is_no_look() -> None:
    builder = booted({"none": 1.0, "mtp": 1.5}, 3, sd_boot=0.02, until=UNTIL)
    builder.arm("none", block=3)
    ratio = analyse(builder.data()).comparisons[0].ratio("decode_tok_s", "short", "code")
    assert ratio is not None
    assert "look 1 of 4" in ratio.replication


def test_one_boot_and_a_closing_one_say_that_boots_are_not_in_it() -> None:
    builder = booted({"none": 1.0, "mtp": 1.5}, 1)
    builder.arm("none", block=1)
    assert analyse(builder.data()).limits[0].startswith("Each arm was started once.")
