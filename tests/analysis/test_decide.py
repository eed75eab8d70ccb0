"""Verdicts: who wins, who may not, and what would flip it."""

from __future__ import annotations

from typing import Any

import pytest

from kvantage.analysis.analyse import analyse
from kvantage.analysis.decide import Verdict
from kvantage.core import Speculation
from tests.analysis.builder import STUDY, StudyBuilder, drafting, short, two_arms, wave

MTP = Speculation(method="mtp", drafts=3)


def study_of(
    rates: dict[str, list[float]], pools: dict[str, float | None] | None = None, **policy: Any
) -> StudyBuilder:
    wanted = {**STUDY["policy"], **policy}
    builder = StudyBuilder({**STUDY, "policy": wanted})
    for name, values in rates.items():
        builder.arm(name, None if name == "none" else MTP, pool=(pools or {}).get(name, 9000))
        requests = short(values)
        builder.cell(name, "short", "code", 1, requests if name == "none" else drafting(requests, 3, 2.5))
    return builder


def verdict_of(
    rates: dict[str, list[float]], pools: dict[str, float | None] | None = None, **policy: Any
) -> Verdict:
    return analyse(study_of(rates, pools, **policy).data()).verdict


STEADY = [20.0, 20.2, 19.8]
FAST = [30.0, 30.4, 29.7]
FASTER = [33.0, 33.3, 32.8]


def test_the_fastest_that_fits_wins() -> None:
    verdict = verdict_of({"none": STEADY, "mtp": FAST, "big": FASTER}, {"big": 4000})
    assert (verdict.status, verdict.arm, verdict.runner_up) == ("recommended", "mtp", "none")
    assert [(each.arm, each.why) for each in verdict.ruled_out] == [
        ("big", "holds 1 of the 4 sessions of 2,065 tokens (pool 4,000 tokens)")
    ]
    assert verdict.margin.value == pytest.approx(1.5, rel=0.01)
    assert verdict.margin.low is not None
    assert verdict.margin.low > 1.4
    assert any(
        "no more than 1 sessions would give it to 'big' (33.0 tok/s)" in flip for flip in verdict.flips
    )


def test_the_constraint_has_its_margin() -> None:
    verdict = verdict_of({"none": STEADY, "mtp": FAST}, {"mtp": 12_500})
    constraint = verdict.constraint
    assert constraint is not None
    assert (constraint.held.value, constraint.quotient.value) == (6, 6.1)
    assert constraint.margin.value == 2
    assert constraint.spare_tokens.value == 12_500 - 4 * 2080
    assert constraint.admission == "computed, not admitted yet"
    assert "computed, not admitted yet" in verdict.sentences[0]
    assert any("more than 6 sessions of 2,065 tokens" in flip for flip in verdict.flips)
    assert any("longer than 3,120 tokens" in flip for flip in verdict.flips)


def test_a_roomier_arm_is_named_where_it_would_take_over() -> None:
    verdict = verdict_of({"none": STEADY, "mtp": FAST}, {"none": 20_000, "mtp": 9000})
    assert any("(then 'none')" in flip for flip in verdict.flips)


def test_ties_are_ties() -> None:
    verdict = verdict_of({"none": STEADY, "a": [30.0, 33.0, 31.0], "b": [31.0, 31.5, 32.0]})
    assert verdict.status == "tie"
    assert verdict.arm == "b"
    assert verdict.tied == ("a",)
    assert verdict.sentences[0].startswith("'b' and 'a' tie on steady decode rate on code at one stream")


def test_one_pair_decides_nothing_for_certain() -> None:
    verdict = verdict_of({"none": [20.0], "mtp": [30.0]})
    assert (verdict.status, verdict.arm) == ("undecided", "mtp")
    assert verdict.sentences[0].startswith("'mtp' is ahead, and not for certain: 30.0 tok/s")
    assert "no interval" in verdict.sentences[1]


def test_the_control_can_win() -> None:
    verdict = verdict_of({"none": STEADY, "mtp": [18.0, 18.1, 17.9]})
    assert (verdict.status, verdict.arm) == ("recommended", "none")


def test_a_void_arm_cannot_win() -> None:
    builder = study_of({"none": STEADY})
    builder.arm("mtp", MTP)
    builder.cell("mtp", "short", "code", 1, drafting(short(FAST, lag_s=1.0), 3, 2.5))
    verdict = analyse(builder.data()).verdict
    assert verdict.arm == "none"
    assert verdict.ruled_out[0].why.startswith("its cell is void (client_on_time")


def test_a_failed_arm_cannot_win_and_is_told() -> None:
    builder = study_of({"none": STEADY})
    builder.arm("mtp", MTP, status="failed", reason="out of memory", log_lines=("killed",))
    found = analyse(builder.data())
    assert found.arm("mtp").status == "failed"
    assert found.arm("mtp").log_lines == ("killed",)
    assert found.verdict.ruled_out[0].why == "failed: out of memory"
    assert found.trades[0].effect == "not measured"
    assert any("'mtp' (out of memory)" in limit for limit in found.limits)


def test_an_unknown_pool_cannot_meet_a_constraint() -> None:
    verdict = verdict_of({"none": STEADY, "mtp": FAST}, {"mtp": None})
    assert verdict.arm == "none"
    assert "its pool is not known" in verdict.ruled_out[0].why


def test_without_a_constraint_the_fastest_wins() -> None:
    verdict = verdict_of({"none": STEADY, "mtp": FAST}, {"mtp": None}, min_sessions=None)
    assert verdict.arm == "mtp"
    assert verdict.constraint is None


def test_nobody_can_win() -> None:
    verdict = verdict_of({"none": STEADY, "mtp": FAST}, {"none": 100, "mtp": 100})
    assert (verdict.status, verdict.arm) == ("none", None)
    assert "'none': holds 0 of the 4 sessions" in verdict.sentences[1]


def test_no_policy_no_verdict() -> None:
    builder = two_arms({**STUDY, "policy": None})
    found = analyse(builder.data())
    assert (found.verdict.status, found.verdict.arm) == ("no policy", None)
    assert len(found.trades) == 1


def test_end_to_end_of_the_waves_may_be_maximised() -> None:
    wanted = {"metric": "e2e_tok_s", "phase": "repeat", "workload": None, "concurrency": 2}
    verdict = analyse(two_arms({**STUDY, "policy": {"maximise": wanted}}).data()).verdict
    assert verdict.arm == "mtp"
    assert verdict.objective == "end-to-end rate on repeats at two streams"
    assert verdict.margin.value == pytest.approx(45.35 / 30.95, rel=0.01)


def test_open_fields_of_the_policy_are_filled_in() -> None:
    wanted = {"phase": "repeat", "workload": None, "concurrency": None}
    verdict = analyse(two_arms({**STUDY, "policy": {"maximise": wanted}}).data()).verdict
    assert verdict.objective == "steady decode rate on repeats at one stream"
    builder = StudyBuilder({**STUDY, "policy": {"maximise": {"phase": "cold"}}}).arm("none")
    builder.cell("none", "cold", "documents", 1, wave(15.0, 1, 33))
    assert analyse(builder.data()).verdict.figure.value == pytest.approx(15.0)


def test_an_arm_whose_rivals_are_all_void_has_won_nothing() -> None:
    builder = study_of({"none": STEADY})
    builder.arm("mtp", MTP, pool=9000)
    builder.cell("mtp", "short", "code", 1, short(FAST))  # it drafts nothing: void
    verdict = analyse(builder.data()).verdict
    assert (verdict.status, verdict.arm) == ("undecided", "none")
    assert verdict.sentences[0].startswith("'none' alone has a sound figure: ")
    assert "'mtp' is void there, and may be better or worse" in verdict.sentences[1]
