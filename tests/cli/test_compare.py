"""`kvantage compare`: its exit codes, its words, its JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvantage.cli import invoke
from tests.ledgers import write_run

ROOT = Path(__file__).parents[2]
BOTH = {"none": 1.0, "mtp": 1.5}


@pytest.fixture
def runs(tmp_path: Path) -> dict[str, str]:
    return {
        "before": str(write_run(tmp_path / "before", BOTH, seed=1)),
        "same": str(write_run(tmp_path / "same", BOTH, seed=2)),
        "slower": str(write_run(tmp_path / "slower", {"none": 1.0, "mtp": 1.5 * 0.95}, seed=3)),
    }


def test_a_planted_regression_exits_with_three(
    runs: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke(["compare", runs["before"], runs["slower"]]) == 3
    said = " ".join(capsys.readouterr().out.split())
    assert "Regressed past 3 %: 'mtp' short code tok/s a user -5." in said


def test_the_same_thing_twice_is_silent(runs: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["compare", runs["before"], runs["same"]]) == 0
    assert "No regression past 3 %" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("margin", ["10%", "0.1", "10 %"])
def test_within_the_margin_is_no_regression(runs: dict[str, str], margin: str) -> None:
    assert invoke(["compare", runs["before"], runs["slower"], "--margin", margin]) == 0


def test_several_runs_are_each_compared_with_the_first(
    runs: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke(["compare", runs["before"], runs["same"], runs["slower"], "--json"]) == 3
    told = json.loads(capsys.readouterr().out)["comparisons"]
    assert [each["after"] for each in told] == [runs["same"], runs["slower"]]
    assert {each["kind"] for each in told[0]["changes"]} == {"no change seen"}
    worse = [each for each in told[1]["changes"] if each["kind"] == "regressed"]
    assert [(each["arm"], each["metric"]) for each in worse] == [("mtp", "decode_tok_s")]
    assert worse[0]["replication"] == "Welch's t over 3 and 3 boots"


def test_write_ups_and_runs_side_by_side(runs: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    posts = [str(path) for path in sorted((ROOT / "examples" / "posted").glob("*.yaml"))]
    assert len(posts) == 2
    assert invoke(["compare", *posts]) == 0
    assert "figures can be compared" in " ".join(capsys.readouterr().out.split())
    assert invoke(["compare", runs["before"], posts[0], "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["comparisons"][0]
    assert told["kind"] == "posted"
    assert any(each["what"] == "engine" for each in told["configuration"])


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["compare", "."], 2, "one run alone"),
        (["compare", "nowhere", "nowhere-else"], 2, "there is no such file or folder"),
        (["compare", ".", "."], 6, "there is no study here"),
        (["compare", "README.md", "README.md"], 2, "neither a run's folder nor a posted.yaml"),
        (["compare", "a", "b", "--margin", "lots"], 2, "is no share: write 3% or 0.03"),
        (["compare", "a", "b", "--margin", "200%"], 2, "is not between 0 and 100 %"),
    ],
)
def test_wrong_words(
    words: list[str],
    code: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(ROOT)
    assert invoke(words) == code
    assert said in capsys.readouterr().err
