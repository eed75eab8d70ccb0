"""The ladder and the sweep on a simulated engine, whose cache and slots are known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvantage.cli import invoke as run
from tests.sim.test_study_run import MODEL

STUDY = f"""
model: {MODEL}
engine: {{name: sim, like: vllm, hardware: h100, speed: 2, acceptance: {{ngram: 2.2}}}}
common: {{context_length: 32768, max_running_requests: 3, pool_tokens: 20000}}
control: none
arms: {{none: {{}}, ngram: {{speculation: {{ngram: 3}}}}}}
phases:
  ttft: {{lengths: [500, 2k, 8k], documents: 2}}
  sweep: {{prompts: {{code: builtin}}, concurrency: [1, 3, 5], rounds: 3, output_tokens: 24, ttft_limit: 5s}}
"""


def test_a_ladder_and_a_sweep_of_a_server_that_is_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study, out = tmp_path / "study.yaml", tmp_path / "out"
    study.write_text(STUDY)
    assert run(["run", str(study), "--out", str(out), "--plain"]) == 0, capsys.readouterr().err
    report = json.loads((out / "report.json").read_text())
    for ladder in report["ttft"]:
        assert ladder["prefix_reuse_sound"] is True
        assert ladder["cache_check"] != "flagged"
        assert ladder["first_request"]["was_first"] is True
        for length in ladder["lengths"]:
            assert [each["missed_requests"]["value"] for each in length["repeats"]] == [0, 0]
            assert length["uncached"]["cached_tokens"]["value"] == 0
            assert only_late(length["reasons"])
    for sweep in report["sweep"]:
        *sound, beyond = sweep["rows"]
        assert [row["concurrency"] for row in (*sound, beyond)] == [1, 3, 5]
        assert all(row["kind"] == "steady" or only_late([row["why"]]) for row in sound)
        assert beyond["kind"] == "queue" or only_late([beyond["why"]])
        assert "value" not in beyond["steady_ratio"]


def only_late(reasons: list[Any]) -> bool:
    """On a loaded machine the client may be late; nothing else may be wrong."""
    return all(str(reason).startswith("client_on_time") for reason in reasons)
