"""Exactness asked of a simulated engine: the whole phase runs, and nothing is concluded from it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvantage.cli import invoke as run
from kvantage.ledger import read_study
from tests.sim.test_study_run import MODEL

STUDY = f"""
model: {MODEL}
engine: {{name: sim, like: vllm, hardware: h100, speed: 20, acceptance: {{ngram: 2.2}}}}
common: {{context_length: 32768, max_running_requests: 4, pool_tokens: 20000}}
control: none
arms: {{none: {{}}, ngram: {{speculation: {{ngram: 3}}}}}}
phases:
  exactness: {{output_tokens: 64, concurrency: 2, samples: 6, prefixes: 1, tasks: 1}}
"""


def test_a_simulated_engine_says_nothing_of_exactness(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study, out = tmp_path / "study.yaml", tmp_path / "out"
    study.write_text(STUDY)
    assert run(["run", str(study), "--out", str(out), "--plain"]) == 0, capsys.readouterr().err
    told = json.loads((out / "report.json").read_text())["exactness"]
    assert told["arms"]["ngram"]["class"] == "void"
    assert told["arms"]["ngram"]["words"].startswith("void: simulated")
    assert "no model ran" in told["floor"]["missing"]
    page = (out / "report.md").read_text()
    assert "## Exactness: the matrix" in page
    assert "void: simulated" in page
    held = read_study(out).exactness
    kinds = {each.kind for each in held.answers}
    assert kinds == {"greedy", "stream", "sampling", "tasks", "across"}
    by_arm = {
        arm: sum(a.arm == arm and a.kind == "greedy" for a in held.answers) for arm in ("none", "ngram")
    }
    assert by_arm == {"none": 80, "ngram": 80}  # twenty prompts, twice, alone and two at once
    assert run(["run", str(study), "--out", str(out), "--plain", "--resume"]) == 0
    assert len(read_study(out).exactness.answers) == len(held.answers)  # nothing is asked again
