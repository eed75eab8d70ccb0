"""Predicted beside measured: what was told first counts, errors are signed, what is missing says why."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from kvantage.analysis import analyse
from kvantage.analysis.findings import Findings
from kvantage.analysis.foretold import NOT_TOLD, held
from kvantage.cli.foresight import keep_errors
from kvantage.core import Reading
from kvantage.planner import history
from kvantage.report.foretold import brief_foresight, foresight_sentences, pools_foretold, speeds_foretold
from kvantage.report.html import report_html
from kvantage.report.html.sections import foretold as section
from kvantage.report.json import report, report_schema
from kvantage.report.markdown import report_markdown

from .builder import two_arms

BEFORE = {"speed": {"predictions": 12, "median": 0.11, "largest": 0.4}}


def predicted(value: float, unit: str, low: float | None = None, high: float | None = None) -> dict[str, Any]:
    return Reading.of(value, unit, "predicted", low=low, high=high).to_json()


def told(pool: float, code: float, low: float, high: float) -> dict[str, Any]:
    def cell(phase: str, workload: str, streams: int, rate: dict[str, Any]) -> dict[str, Any]:
        return {"phase": phase, "workload": workload, "concurrency": streams, "tok_s": rate}

    return {
        "hardware": "a machine of the tests",
        "calibrated_by": None,
        "pool": predicted(pool, "tokens", pool * 0.9, pool * 1.1),
        "bytes_a_token": {"missing": "not one figure here"},
        "sessions": [{"tokens": 1000, "held": predicted(pool / 1000, "sessions")}],
        "acceptance": predicted(2.4, "tokens/step", 2.0, 3.0),
        "cells": [
            cell("short", "code", 1, predicted(code, "tok/s", low, high)),
            cell("repeat", "documents", 4, predicted(20, "tok/s", 5, 40)),
            cell("short", "songs", 1, predicted(20, "tok/s", 5, 40)),
        ],
    }


def findings(**changes: Any) -> Findings:
    data = two_arms().data()
    prints = {arm.name: arm.fingerprint() for arm in data.arms}
    base = {"kind": "prediction", "at": "2026-11-30", "machine": "a cpu x 2", "before": BEFORE}
    events = [
        {**base, "arm": "none", "fingerprint": prints["none"], "prediction": told(9900, 18, 15, 25)},
        {**base, "arm": "mtp", "fingerprint": prints["mtp"], "prediction": told(8500, 45, 40, 50)},
        # a later one, told when the study was gone on with, changes nothing
        {**base, "arm": "none", "fingerprint": prints["none"], "prediction": told(1, 1, 1, 1)},
        {**base, "arm": "none", "fingerprint": "another", "prediction": told(2, 2, 2, 2)},
    ]
    return analyse(replace(data, events=(*data.events, *events), **changes))


def test_pools_and_speeds_with_their_errors() -> None:
    none, mtp = findings().foresight.arms
    (pool,) = none.find("pool")
    assert pool.predicted.value == 9900
    assert pool.error.value == pytest.approx(100 * (9900 / (pool.measured.value or 0) - 1))
    assert pool.within is (pool.predicted.low <= pool.measured.value <= pool.predicted.high)
    code, crowded, songs = none.find("speed")
    assert code.error.value == pytest.approx(-10, abs=1)
    assert code.within is True
    assert code.measured.unit == "tok/s"
    assert crowded.measured.known
    assert songs.measured.missing
    assert songs.error.missing == songs.measured.missing
    far, evicted, _ = mtp.find("speed")
    assert far.error.value == pytest.approx(50, abs=3)
    assert far.within is False
    assert evicted.measured.missing  # a void cell is no speed
    length = mtp.find("acceptance")[0]
    assert length.predicted.value == 2.4
    assert length.measured.value == pytest.approx(2.5, abs=0.05)
    assert mtp.find("bytes")[0].error.missing == "not one figure here"
    assert none.find("sessions")[0].measured.value == pytest.approx((pool.measured.value or 0) / 1000)


def test_the_planners_own_error_here_and_before() -> None:
    foresight = findings().foresight
    here = {one.kind: one for one in foresight.here}
    assert here["pool"].predictions == 2
    assert here["speed"].predictions == 3
    assert here["speed"].largest.value == pytest.approx(50, abs=3)
    (before,) = foresight.before
    assert (before.kind, before.predictions, before.median.value) == ("speed", 12, pytest.approx(11))


def test_every_report_shows_it() -> None:
    found = findings()
    page = report(found)
    jsonschema.validate(page, report_schema())
    rows = page["predicted"]["arms"]["none"]["rows"]
    assert {row["kind"] for row in rows} == {"pool", "bytes", "sessions", "speed", "acceptance"}
    assert page["predicted"]["error_before"]["speed"]["median_percent"]["value"] == pytest.approx(11)
    text = report_markdown(found)
    assert "## Pools: predicted before the first boot" in text
    assert "## Speeds: predicted before the first boot" in text
    assert "Over the last runs here before it: speed 11.0 % in the median" in text
    assert pools_foretold(found).rows
    assert len(speeds_foretold(found).rows) == 6
    assert any("off by" in line for line in brief_foresight(found))
    shown = section.section(found)
    assert shown is not None
    assert any(block.kind == "figure" for block in shown.blocks)
    page_text = report_html(found)
    assert "Predicted, and measured" in page_text
    assert "2 of 3 measured speeds lie in the range that was predicted" in page_text


def test_a_study_of_which_nothing_was_told_says_so() -> None:
    found = analyse(two_arms().data())
    assert [arm.missing for arm in found.foresight.arms] == [NOT_TOLD, NOT_TOLD]
    assert section.section(found) is None
    assert "predicted before the first boot" not in report_markdown(found)
    jsonschema.validate(report(found), report_schema())


def test_an_arm_that_cannot_be_planned_says_why() -> None:
    data = two_arms().data()
    event = {
        "kind": "prediction",
        "fingerprint": data.arms[1].fingerprint(),
        "prediction": {"missing": "the planner does not know Mamba9", "hardware": "a machine"},
    }
    found = analyse(replace(data, events=(event,)))
    assert found.foresight.arms[1].missing == "the planner does not know Mamba9"
    assert any(
        "nothing was predicted: the planner does not know Mamba9" in s for s in foresight_sentences(found)
    )
    assert "does not know Mamba9" in report_markdown(found)


def test_nothing_is_divided_by_zero() -> None:
    row = held("pool", "KV pool", Reading.of(5, "tokens", "predicted"), Reading.of(0, "tokens", "config"))
    assert row.error.missing


def test_a_run_is_kept_for_the_planners_own_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    keep_errors(findings(simulated=True), tmp_path)
    assert not history.file().exists()
    keep_errors(findings(), tmp_path)
    keep_errors(findings(), tmp_path)  # reported again: the same run, the same rows
    lines = [json.loads(line) for line in history.file().read_text().splitlines()]
    assert len(lines) == 5
    known = history.read_history("a cpu x 2")
    assert known.errors("toy")["speed"]["predictions"] == 3
    speed = known.speed("toy", findings().study.model, "mtp", None, 3)
    assert speed is not None
    assert speed.acceptance == pytest.approx(2.5, abs=0.05)
