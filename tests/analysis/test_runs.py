"""Two runs beside each other: a planted regression is found, two runs of the same thing are silent."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from kvantage.analysis.runs import Change, ClassChange, RunComparison, compare_runs
from kvantage.analysis.unpaired import compare_boots
from kvantage.ledger import read_study
from kvantage.report.runs import conclusion
from tests.ledgers import STUDY, write_run

BOTH = {"none": 1.0, "mtp": 1.5}


def compared(tmp_path: Path, margin: float = 0.03, **after: object) -> RunComparison:
    before = write_run(tmp_path / "before", BOTH, seed=1)
    gains = after.pop("gains", BOTH)
    later = write_run(tmp_path / "after", gains, **{"seed": 2, **after})  # type: ignore[arg-type]
    return compare_runs(read_study(before), read_study(later), margin=margin)


def of(found: RunComparison, arm: str, metric: str = "decode_tok_s") -> Change:
    return next(each for each in found.changes if (each.arm, each.metric) == (arm, metric))


def test_a_planted_regression_of_five_percent_is_found(tmp_path: Path) -> None:
    found = compared(tmp_path, gains={"none": 1.0, "mtp": 1.5 * 0.95})
    assert [each.arm for each in found.regressions] == ["mtp"]
    change = of(found, "mtp")
    assert change.ratio.value == pytest.approx(0.95, abs=0.015)
    assert change.level == "Welch's t over 3 and 3 boots"
    assert change.holm is not None
    assert change.holm < 0.05
    assert of(found, "none").kind == "no change seen"


def test_two_runs_of_the_same_thing_are_silent(tmp_path: Path) -> None:
    found = compared(tmp_path)
    assert {each.kind for each in found.changes} == {"no change seen"}
    assert found.configured == ()
    assert found.asked == ()


def test_a_regression_within_the_margin_is_told_and_is_none(tmp_path: Path) -> None:
    found = compared(tmp_path, margin=0.1, gains={"none": 1.0, "mtp": 1.5 * 0.95})
    assert found.regressions == ()
    assert of(found, "mtp").kind == "worse"


def test_a_faster_arm_and_a_smaller_pool(tmp_path: Path) -> None:
    found = compared(tmp_path, gains={"none": 1.0, "mtp": 1.7}, pools={"mtp": 8000.0})
    assert of(found, "mtp").kind == "improved"
    pool = of(found, "mtp", "kv_pool_tokens")
    assert pool.kind == "regressed"
    assert pool.gain.value == pytest.approx(-1 / 9)


def test_versions_and_machines_that_differ_are_named(tmp_path: Path) -> None:
    found = compared(tmp_path, version="1.1", hardware="another machine")
    told = {(each.where, each.what): (each.before, each.after) for each in found.configured}
    assert told[("every arm", "hardware.gpu")] == ("a machine", "another machine")
    assert ("toy 1.0", "toy 1.1") in told.values()


def test_other_work_is_refused_and_more_of_it_is_not(tmp_path: Path) -> None:
    short = STUDY["phases"]["short"]
    longer = {"phases": {"short": {**short, "output_tokens": 128}}}
    found = compared(tmp_path, study=longer)
    assert "asked otherwise" in (of(found, "mtp").ratio.missing or "")
    assert [(each.where, each.what, each.before, each.after) for each in found.asked] == [
        ("short", "output_tokens", "65", "128")
    ]
    more = write_run(tmp_path / "more", BOTH, study={"phases": {"short": {**short, "repeats": 5}}}, seed=3)
    again = compare_runs(read_study(tmp_path / "before"), read_study(more))
    assert of(again, "mtp").ratio.known
    assert of(again, "mtp").kind == "no change seen"


def test_one_boot_in_each_run_tells_only_what_is_beyond_published_noise(tmp_path: Path) -> None:
    before = write_run(tmp_path / "before", BOTH, boots=1)
    after = write_run(tmp_path / "after", {"none": 0.5, "mtp": 1.4}, boots=1, seed=2)
    found = compare_runs(read_study(before), read_study(after))
    assert found.single
    assert [each.arm for each in found.regressions] == ["none"]
    assert of(found, "mtp").kind == "no change seen"


def test_an_arm_of_one_run_alone_is_named(tmp_path: Path) -> None:
    found = compared(tmp_path, gains={"none": 1.0})
    assert found.only_before == ("mtp",)
    assert found.only_after == ()


def test_welch_is_scipys() -> None:
    rng = np.random.default_rng(3)
    before, after = rng.normal(0, 0.02, 3), rng.normal(0.05, 0.04, 5)
    found = compare_boots(before.tolist(), after.tolist(), 0.1, "")
    wanted = stats.ttest_ind(after, before, equal_var=False)
    assert found.p == pytest.approx(wanted.pvalue)
    low, high = wanted.confidence_interval(0.95)
    assert np.log(found.interval()) == pytest.approx([low, high])


def test_a_side_of_one_boot_takes_the_others_noise() -> None:
    found = compare_boots([0.0], [0.0, 0.02, 0.04], 0.1, "")
    assert found.error == pytest.approx(0.02 * np.sqrt(1 + 1 / 3))
    assert found.degrees == 2


def test_equal_runs_are_rarely_called_changed() -> None:
    """400 pairs of runs of three boots each: 5 % may be told apart; more than 34 would be 1 in 1,000."""
    rng = np.random.default_rng(4)
    wrong = sum(
        compare_boots(rng.normal(0, 0.02, 3).tolist(), rng.normal(0, 0.02, 3).tolist(), 0, "").p < 0.05
        for _ in range(400)
    )
    assert wrong <= 34


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        ("bit-identical", "near-tie flips only", "regressed"),
        ("differs", "near-tie flips only", "improved"),
        ("differs", "differs", "no change seen"),
        ("bit-identical", "void", "refused"),
    ],
)
def test_answers_that_fall_into_a_worse_class_are_a_regression(
    tmp_path: Path, before: str, after: str, kind: str
) -> None:
    change = ClassChange("mtp", before, after)  # type: ignore[arg-type]
    assert change.kind == kind
    found = replace(compared(tmp_path), classes=(change,))
    assert found.regressed is (kind == "regressed")
    assert ("fell from" in conclusion(found)) is (kind == "regressed")
