"""Constraints of a policy: kept, broken, not certain, not known; and what they make of a verdict."""

from __future__ import annotations

from typing import Any

import pytest

from kvantage.analysis.analyse import analyse
from kvantage.analysis.asked import Policy, Term, read_policy
from kvantage.analysis.capacity import read_pool
from kvantage.analysis.constraints import Evidence, Kept, keep
from kvantage.analysis.decide import Verdict
from kvantage.core import Facts, Reading
from tests.analysis.boots import MTP, booted
from tests.analysis.builder import STUDY, StudyBuilder, drafting, short, two_arms

CODE = {"phase": "short", "workload": "code"}


def verdict_of(policy: dict[str, Any], boots: int = 3, gain: float = 1.5, **more: Any) -> Verdict:
    builder = booted(
        {"none": 1.0, "mtp": gain}, boots, 0.01, 0.01, policy={"maximise": CODE, **policy}, **more
    )
    return analyse(builder.data()).verdict


def kept(verdict: Verdict, arm: str, name: str) -> Kept:
    standing = next(each for each in verdict.standings if each.arm == arm)
    return next(each for each in standing.kept if each.name == name)


def test_a_floor_that_only_the_faster_arm_reaches() -> None:
    verdict = verdict_of({"min_user_speed": {"tok_s": 25.0}})
    assert (verdict.status, verdict.arm) == ("recommended", "mtp")
    found = kept(verdict, "mtp", "min_user_speed")
    assert found.state == "kept"
    assert found.margin.value == pytest.approx(5, abs=0.5)
    assert "95 % t interval over 3 boots" in found.words
    assert kept(verdict, "none", "min_user_speed").state == "broken"
    assert verdict.ruled_out[0].arm == "none"
    assert any("asking for more than" in flip and "tok/s a user" in flip for flip in verdict.flips)


def test_a_floor_within_the_noise_is_not_certain_and_so_is_the_verdict() -> None:
    verdict = verdict_of({"min_user_speed": {"tok_s": 29.9}}, boots=2)
    assert kept(verdict, "mtp", "min_user_speed").state == "not certain"
    assert verdict.status == "undecided"
    assert verdict.doubts
    assert "not for certain" in verdict.sentences[0]


def test_a_first_token_that_takes_too_long() -> None:
    verdict = verdict_of({"max_ttft": {"time": "100ms"}})
    assert (verdict.status, verdict.arm) == ("none", None)
    found = kept(verdict, "mtp", "max_ttft")
    assert (found.state, found.found.value) == ("broken", pytest.approx(0.2))
    assert found.margin.value == pytest.approx(-0.1)


def test_a_constraint_elsewhere_than_the_objective() -> None:
    policy = {
        "maximise": CODE,
        "min_user_speed": {"tok_s": 5.0, "phase": "repeat", "concurrency": 2},
        "max_ttft": {"time": "2s", "phase": "cold"},
    }
    verdict = analyse(two_arms({**STUDY, "policy": policy}).data()).verdict
    assert kept(verdict, "mtp", "min_user_speed").words.startswith(
        "at least 5.00 tok/s a user on repeats at two streams: 24.0"
    )
    assert "cold documents at one stream" in kept(verdict, "mtp", "max_ttft").words


def test_a_void_place_of_a_constraint_bars() -> None:
    policy = {"maximise": CODE, "min_user_speed": {"tok_s": 5.0, "phase": "repeat", "concurrency": 4}}
    verdict = analyse(two_arms({**STUDY, "policy": policy}).data()).verdict
    found = kept(verdict, "mtp", "min_user_speed")
    assert found.state == "not known"
    assert "is void (cache_warm" in found.words
    assert verdict.arm == "none"


def policy_of(**more: Any) -> Policy:
    policy = read_policy({**STUDY, "policy": {"maximise": CODE, **more}})
    assert policy is not None
    return policy


def pool_of(*tokens: float) -> Any:
    booted = [
        Facts(
            "toy",
            "1",
            {
                "kv_pool_tokens": Reading.of(value, "tokens", "gauge"),
                "kv_block_tokens": Reading.of(16, "tokens", "config"),
            },
            {},
            {},
        )
        for value in tokens
    ]
    return read_pool(booted, booted, False)


@pytest.mark.parametrize(
    ("pool", "boots", "state", "whole"),
    [
        ((8400.0,), 1, "not certain", 4),
        ((9000.0,), 1, "kept", 4),
        ((8400.0, 8390.0), 2, "kept", 4),
        ((8400.0, 8300.0), 2, "broken", 3),
        ((8000.0,), 1, "broken", 3),
    ],
)
def test_sessions_by_the_smallest_pool(pool: tuple[float, ...], boots: int, state: str, whole: int) -> None:
    policy = policy_of(min_sessions={"count": 4, "tokens": 2080})
    found = keep(policy, Evidence(pool_of(*pool), boots=boots))[0]
    assert (found.state, found.found.value) == (state, whole)
    if state != "broken":
        assert "computed, not admitted yet" in found.words


@pytest.mark.parametrize(
    ("found", "allowed", "state"),
    [
        ("bit-identical", "near-tie flips only", "kept"),
        ("near-tie flips only", "near-tie flips only", "kept"),
        ("differs", "near-tie flips only", "broken"),
        ("near-tie flips only", "bit-identical", "broken"),
        ("void", "differs", "not known"),
        (None, "differs", "not known"),
    ],
)
def test_exactness_by_class(found: str | None, allowed: str, state: str) -> None:
    kept = keep(policy_of(worst_exactness=allowed), Evidence(pool_of(9000.0), exactness=found))[0]
    assert kept.state == state
    assert (kept.found_class, kept.wanted_class) == (found, allowed)


def test_the_control_keeps_exactness_by_what_it_is() -> None:
    evidence = Evidence(pool_of(9000.0), control=True)
    assert keep(policy_of(worst_exactness="bit-identical"), evidence)[0].state == "kept"


def test_weights_rank_by_their_geometric_mean() -> None:
    def study(weights: dict[str, float]) -> Verdict:
        policy = {"maximise": {"phase": "short"}, "weights": weights}
        return analyse(two_arms({**STUDY, "policy": policy}).data()).verdict

    # mtp is at 1.5x on code and at 0.9x on prose
    code, prose = study({"code": 3, "prose": 1}), study({"code": 1, "prose": 19})
    assert code.arm == "mtp"
    assert code.margin.value == pytest.approx(1.5**0.75 * 0.9**0.25, rel=0.01)
    assert prose.arm == "none"
    assert code.objective == "weighted steady decode rate on code (3) and prose (1) at one stream"


def test_a_weighted_workload_that_is_void_leaves_no_figure() -> None:
    policy = {"maximise": {"phase": "short"}, "weights": {"code": 1, "prose": 1}}
    builder = StudyBuilder({**STUDY, "policy": policy}).arm("none").arm("mtp", MTP)
    for workload in ("code", "prose"):
        builder.cell("none", "short", workload, 1, short([20.0, 20.1, 19.9], workload))
        late = {"lag_s": 1.0} if workload == "prose" else {}
        made = drafting(short([30.0, 30.1, 29.9], workload, **late), 3, 2.5)
        builder.cell("mtp", "short", workload, 1, made)
    verdict = analyse(builder.data()).verdict
    assert verdict.arm == "none"
    assert verdict.ruled_out[0].why.startswith("prose: its cell is void (client_on_time")


def test_the_nearest_rival_on_each_axis() -> None:
    pools = {"none": [20_000.0], "mtp": [9000.0], "ngram": [9500.0]}
    builder = booted({"none": 1.0, "mtp": 1.5, "ngram": 1.2}, 3, 0.01, pools=pools)
    verdict = analyse(builder.data()).verdict
    assert [(each.axis, each.arm) for each in verdict.rivals] == [
        ("steady decode rate on code at one stream", "ngram"),
        ("the KV pool in tokens", "ngram"),
    ]
    assert verdict.rivals[1].ratio.value == pytest.approx(9500 / 9000)


def test_arms_within_the_margin_are_equal_and_others_inconclusive() -> None:
    same = analyse(booted({"none": 1.0, "mtp": 1.001}, 9, 0.002).data()).verdict
    assert (same.status, same.tied, same.inconclusive) == ("tie", (same.runner_up,), ())
    assert "their ratio lies within 3 % of 1" in same.sentences[0]
    noisy = analyse(booted({"none": 1.0, "mtp": 1.02}, 3, 0.05).data()).verdict
    assert noisy.status == "tie"
    assert noisy.inconclusive == noisy.tied
    assert "so it is inconclusive" in noisy.sentences[0]


def test_a_place_left_open_is_that_of_the_objective() -> None:
    policy = policy_of(min_user_speed={"tok_s": 3.0})
    assert policy.floor is not None
    assert policy.floor.place == Term("short", "code", 1)


def test_a_study_of_boots_tells_the_pools_interval() -> None:
    pools = {"none": [9000.0, 9100.0, 9050.0], "mtp": [8000.0, 8200.0, 8010.0]}
    found = analyse(booted({"none": 1.0, "mtp": 1.5}, 3, 0.01, pools=pools).data())
    ratio = found.comparisons[0].pool_tokens
    assert ratio.low is not None
    assert ratio.high is not None
    assert ratio.low < 0.893 < ratio.high
    assert ratio.note == "95 % t interval over 3 boots of each arm, paired by block"


def test_an_arm_does_not_lead_because_its_slow_boots_were_void() -> None:
    """`mtp` is 1.1 times as fast in each block; its boots of the fast half of the night are void."""
    builder = StudyBuilder({**STUDY, "policy": {"maximise": CODE}})
    for block, speed in enumerate((40.0, 40.2, 20.0, 20.1, 19.9)):
        builder.arm("none", block=block).arm("mtp", MTP, block=block)
        builder.cell("none", "short", "code", 1, short([speed] * 3), block=block)
        late = {"lag_s": 1.0} if block < 2 else {}
        gain = 1.1 + 0.001 * block
        made = drafting(short([speed * gain] * 3, **late), 3, 2.5)
        builder.cell("mtp", "short", "code", 1, made, block=block)
    verdict = analyse(builder.data()).verdict
    assert verdict.arm == "mtp"
    assert verdict.figure.value == pytest.approx(22, rel=0.01)
    assert verdict.margin.value == pytest.approx(1.103, rel=0.001)
    assert verdict.rivals[0].ratio.value == pytest.approx(1 / 1.103, rel=0.001)
