"""The quickstart's ladder and sweep on the real vLLM: the control and a drafter."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from kvantage.study import packaged_study
from tests.real.test_main_job import SCHEMA, run, there

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(not there, reason="vLLM is not installed (`make engine`)"),
    pytest.mark.timeout(600),
]
PHASES = {
    "ttft": {"lengths": [500, 2000, 3500], "documents": 2},
    "sweep": {"prompts": {"code": "builtin"}, "concurrency": [1, 4, 8], "rounds": 3, "output_tokens": 48},
}


def test_hits_queues_and_the_first_request_on_a_real_server(tmp_path: Path) -> None:
    plain = yaml.safe_load(packaged_study("quickstart").read_text())
    arms = {name: plain["arms"][name] for name in ("none", "dflash")}
    wanted = {name: plain[name] for name in ("model", "engine", "common", "control")}
    study = tmp_path / "study.yaml"
    study.write_text(yaml.safe_dump({**wanted, "arms": arms, "phases": PHASES}, sort_keys=False))
    run("run", study, "--out", tmp_path / "out", "--plain")
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    jsonschema.validate(report, json.loads(SCHEMA.read_text()))
    assert [each["arm"] for each in report["ttft"]] == ["none", "dflash"]
    for ladder in report["ttft"]:
        assert ladder["first_request"]["was_first"] is True
        assert ladder["prefix_reuse_sound"] is True
        assert ladder["cache_check"] != "flagged"
        for length in ladder["lengths"]:
            assert length["uncached"]["cached_tokens"]["value"] == 0
    for sweep in report["sweep"]:
        last = sweep["rows"][-1]
        assert last["concurrency"] == 8
        assert last["kind"] == "queue" or "client_on_time" in last["why"]
        assert "value" not in last["steady_ratio"]
