"""Published figures as files: true to the write-ups, and compared only where that means something."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kvantage.analysis import analyse
from kvantage.analysis.posted import Beside, SheetComparison, Unlike, _alike, compare_sheets
from kvantage.analysis.sheet import Sheet
from kvantage.analysis.sheets import sheet_of_posted, sheet_of_run
from kvantage.core import StudyError
from kvantage.study.posted import Posted, load_posted, posted_from_text
from tests.analysis.builder import two_arms

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "posted"
FOUR, NOTES = FOLDER / "four-arms-two-gb10.yaml", FOLDER / "dflash2-two-gb10.yaml"


def published() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / "tests/data/published.json").read_text(encoding="utf-8"))
    return found


def values(posted: Posted, arm: str, metric: str, phase: str | None, **place: object) -> list[float]:
    return [
        figure.value
        for figure in posted.arms[arm].figures
        if (figure.metric, figure.phase) == (metric, phase)
        and all(getattr(figure, name) == value for name, value in place.items())
    ]


def test_the_four_arms_are_as_published() -> None:
    posted, tables = load_posted(FOUR), published()["four_arms"]
    assert set(posted.arms) == set(tables["arms"])
    for name, row in tables["arms"].items():
        assert values(posted, name, "kv_pool_tokens", None) == [row["kv_pool_tokens"]]
        for workload in ("code", "prose"):
            found = values(posted, name, "tok_s", "short", workload=workload)
            assert found == [row[f"short_{workload}_tok_s"]]
        for number in (1, 2):
            found = values(posted, name, "tok_s", "repeat", concurrency=number)
            assert found == [row["repeat_c1_tok_s" if number == 1 else "repeat_c2_tok_s"]]
        sessions = [figure.value for figure in posted.arms[name].figures if figure.metric == "sessions"]
        assert sessions == list(row["sessions"].values())
    lengths = [figure.value for figure in posted.arms["mtp"].figures if figure.metric == "acceptance_length"]
    assert lengths == [row["length_of_3"] for row in tables["mtp_acceptance"]]
    setup = tables["setup"]
    assert float(posted.configuration["memory_fraction"]) == setup["memory_fraction"]
    assert int(posted.configuration["context_length"]) == setup["context_length"]
    assert posted.protocol.repeats == setup["short"]["measured"]


def test_the_notes_are_as_published() -> None:
    posted, tables = load_posted(NOTES), published()["dflash2"]
    first, final = tables["first_light"], tables["final"]
    for workload in ("code", "prose"):
        told = first["decode_tok_s"][workload]
        figure = next(each for each in posted.arms["dflash-on"].figures if each.workload == workload)
        assert (figure.value, [figure.low, figure.high]) == (told["on"], told["on_range"])
        assert values(posted, "dflash-off", "tok_s", "short", workload=workload) == [told["off"]]
    times = [f.value for f in posted.arms["dflash-final"].figures if f.metric == "ttft_s"]
    assert times == [final["ttft_s"][key] for key in ("4k_uncached", "4k_cached", "16k_uncached")]
    speeds = values(posted, "dflash-final", "tok_s", "sweep")
    assert speeds == [final["concurrency"]["c1_tok_s"], final["concurrency"]["c2_aggregate_tok_s"]]


def both() -> SheetComparison:
    return compare_sheets(sheet_of_posted(load_posted(FOUR)), sheet_of_posted(load_posted(NOTES)))


def one(found: SheetComparison, arm: str, other: str, what: str, kind: str = "figure") -> Beside:
    return next(
        each
        for each in found.figures
        if (each.arm, each.other_arm, each.kind) == (arm, other, kind) and each.what.startswith(what)
    )


def test_two_write_ups_beside_each_other() -> None:
    found = both()
    assert ("dflash-bf16", "dflash-on") in found.arms
    speed = one(found, "dflash-bf16", "dflash-on", "tok/s, short code")
    assert speed.ratio.value == pytest.approx(27.6 / 32.35)
    assert "answers of 512 and 800 tokens" in speed.caveats
    pool = one(found, "dflash-bf16", "dflash-on", "KV pool, tokens")
    assert pool.ratio.missing is not None
    assert pool.ratio.missing.startswith("sized by other settings: memory_fraction, kv_dtype")
    gain = one(found, "dflash-bf16", "dflash-on", "tok/s, short code", "over control")
    assert gain.first.value == pytest.approx(32.35 / 14.74)
    assert gain.second.value == pytest.approx(27.6 / 14.7)
    assert {each.name for each in found.protocol} >= {"streamed", "temperature"}
    assert {each.name for each in found.configuration} >= {"memory_fraction", "kv_dtype", "context_length"}


def test_a_gauges_peak_is_set_beside_no_rate() -> None:
    assert all(each.second.value != 45.5 for each in both().figures)


def run_sheet() -> Sheet:
    return sheet_of_run(analyse(two_arms().data()), "a run")


def test_a_run_on_another_machine_has_its_speeds_refused() -> None:
    found = compare_sheets(run_sheet(), sheet_of_posted(load_posted(FOUR)))
    speeds = [each for each in found.figures if each.what.startswith("tok/s") and each.kind == "figure"]
    assert speeds
    assert all((each.ratio.missing or "").startswith("another ") for each in speeds)
    assert found.arms == (("none", "none"), ("mtp", "mtp"))


def like_the_run(rate: str, value: float) -> Sheet:
    place = "phase: short, workload: code, concurrency: 1, output_tokens: 65"
    text = f"""
title: a post
source: somewhere
model: package:nano/toy
engine: toy
hardware: not said
protocol: {{rate: {rate}}}
control: none
arms:
  none:
    method: none
    figures: [{{metric: tok_s, value: 18, {place}}}]
  mtp:
    method: mtp
    figures: [{{metric: tok_s, value: {value}, {place}}}]
"""
    return sheet_of_posted(posted_from_text(text))


@pytest.mark.parametrize(("rate", "own"), [("steady", 30.0), ("phase_wall", 27.5)])
def test_a_rate_meets_the_runs_rate_of_its_own_definition(rate: str, own: float) -> None:
    found = compare_sheets(run_sheet(), like_the_run(rate, 27.0))
    speeds = [
        each
        for each in found.figures
        if each.arm == "mtp" and each.kind == "figure" and "short code" in each.what
    ]
    assert len(speeds) == 1
    assert speeds[0].first.value == pytest.approx(own, rel=0.02)
    assert speeds[0].ratio.value == pytest.approx(27.0 / own, rel=0.02)


def test_a_rate_of_no_told_definition_is_refused() -> None:
    sheet = like_the_run("steady", 27.0)
    arms = tuple(
        replace(arm, entries=tuple(replace(entry, definition="not said") for entry in arm.entries))
        for arm in sheet.arms
    )
    found = compare_sheets(run_sheet(), replace(sheet, arms=arms))
    speeds = [each for each in found.figures if each.what.startswith("tok/s")]
    assert speeds
    assert all("not said by one of them" in (each.ratio.missing or "") for each in speeds)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("rate: steady", "rate: fast", "protocol.rate: is one of phase_wall, steady, server_gauge"),
        ("concurrency: 1, ", "", "a speed needs a `phase` and a `concurrency`"),
        ("control: none", "control: nobody", "there is no arm `nobody`"),
        ("value: 18", "value: 18, low: 20", "`value` lies between `low` and `high`"),
        ("source: somewhere\n", "", "`source` is missing"),
    ],
)
def test_a_wrong_file_says_where(old: str, new: str, said: str) -> None:
    text = """title: a post
source: somewhere
model: m
engine: toy
hardware: one
protocol: {rate: steady}
control: none
arms:
  none:
    method: none
    figures: [{metric: tok_s, value: 18, phase: short, workload: code, concurrency: 1, output_tokens: 65}]
"""
    assert old in text
    with pytest.raises(StudyError) as caught:
        posted_from_text(text.replace(old, new), "posted.yaml")
    assert "posted.yaml" in str(caught.value)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("first", "second", "alike"),
    [
        ("two GB10 nodes", "1 x NVIDIA GB10, host spark1, cpu Cortex-X925", True),
        ("2 x NVIDIA H200, host a", "one H200", True),
        ("2 x NVIDIA H200, host a", "two GB10 nodes", False),
        ("host vm, cpu AMD EPYC, cores 2", "two GB10 nodes", False),
        ("not said", "two GB10 nodes", False),
    ],
)
def test_machines_are_alike_by_their_devices(first: str, second: str, alike: bool) -> None:
    assert _alike(Unlike("hardware", first, second)) is alike


def test_the_same_stack_in_other_words_is_compared() -> None:
    sheet = sheet_of_posted(load_posted(FOUR))
    words = {"model": "GLM-5.3-Flash-NVFP4-Spark", "hardware": "1 x NVIDIA GB10, host spark1"}
    mine = replace(sheet, name="mine", configuration={**sheet.configuration, **words})
    found = compare_sheets(mine, sheet)
    known = [each for each in found.figures if each.ratio.known]
    assert len(known) > 20
    assert all(each.ratio.value == pytest.approx(1.0) for each in known)
    refused = [each for each in found.figures if not each.ratio.known]
    assert refused
    assert all(each.what.startswith("acceptance length") for each in refused)
