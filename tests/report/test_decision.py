"""What reports say of intervals, noise and the verdict."""

from __future__ import annotations

import jsonschema
import pytest

from kvantage.analysis import analyse
from kvantage.report import report, report_markdown, report_schema
from tests.analysis.boots import booted
from tests.analysis.builder import two_arms


def test_boots_are_told_with_their_noise_and_what_more_would_buy() -> None:
    found = analyse(booted({"none": 1.0, "mtp": 1.5}, 3, sd_boot=0.03, sd_request=0.01).data())
    text = report_markdown(found)
    assert "95 % t interval over 3 boots of each arm, paired by block" in text
    assert "## What the noise is made of" in text
    assert "a fourth boot buys more than 100 more requests" in text
    assert "## How the arms stand" in text


def test_one_boot_says_that_boots_are_not_in_it_and_what_others_saw() -> None:
    text = report_markdown(analyse(two_arms().data()))
    assert "boot effects are not in it" in text
    assert "one boot tells nothing of boots" in text
    assert "if boots vary as little as published ones with pinned kernels" in text


@pytest.mark.parametrize("boots", [1, 3, 10])
def test_the_new_blocks_obey_the_schema(boots: int) -> None:
    policy = {
        "maximise": {"phase": "short", "workload": "code"},
        "min_sessions": {"count": 4, "tokens": 2065},
        "min_user_speed": {"tok_s": 10.0},
        "max_ttft": {"time": "2s"},
        "worst_exactness": "near-tie flips only",
    }
    builder = booted({"none": 1.0, "mtp": 1.5, "ngram": 1.1}, boots, 0.01, 0.01, policy=policy)
    made = report(analyse(builder.data()))
    jsonschema.validate(made, report_schema(), cls=jsonschema.Draft202012Validator)
    verdict = made["verdict"]
    assert [each["arm"] for each in verdict["standings"]] == ["none", "mtp", "ngram"]
    names = ["min_sessions", "min_user_speed", "max_ttft", "worst_exactness"]
    assert [each["name"] for each in verdict["constraints"]] == names
    inference = made["comparisons"][0]["ratios"][0]["inference"]
    assert inference["boots"]["value"] == boots
    assert inference["method"] == (
        "t within one boot" if boots == 1 else "t over boots" if boots < 10 else "hierarchical bootstrap"
    )
