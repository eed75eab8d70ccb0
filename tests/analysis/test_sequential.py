"""Looks at a study that may stop: what is decided, what is not, and how often that is wrong."""

from __future__ import annotations

import pytest

from kvantage.analysis.analyse import analyse
from kvantage.analysis.sequential import look
from kvantage.analysis.spending import Spending
from tests.analysis.boots import booted
from tests.analysis.builder import STUDY, StudyBuilder

UNTIL = {"margin": 0.03, "confidence": 0.95, "max_boots": 6, "max_hours": None}


def test_the_error_is_spent_whole_and_no_more() -> None:
    spending = Spending(6, 0.95)
    assert [spending.alpha(boots) for boots in range(8)] == pytest.approx([0, 0, 0, *[0.0125] * 4, 0])
    assert sum(spending.alpha(boots) for boots in range(20)) == pytest.approx(0.05)
    assert spending.level().confidence == pytest.approx(0.9875)
    assert spending.level().words == "; one of 4 looks that together keep 95 %"


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
        "98.75 % t interval over 3 boots of each arm, paired by block; one of 4 looks that together keep 95 %"
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
