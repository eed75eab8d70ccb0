"""Three boots an arm in ABBA on the real vLLM: a drafter, and the control against itself by another name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml
from scipy.stats import binomtest

from kvantage.analysis import analyse
from kvantage.core.telemetry import MACHINE
from kvantage.ledger import read_study
from tests.real.test_main_job import run, there

pytestmark = [
    pytest.mark.proof,
    pytest.mark.skipif(not there, reason="vLLM is not installed (`make engine`)"),
    pytest.mark.timeout(1200),
]
STUDY = {
    "model": "package:nano/qwen3",
    "engine": "vllm",
    "common": {
        "dtype": "bf16",
        "context_length": 2048,
        "max_running_requests": 4,
        "pool_bytes": "35MiB",
        "eager": True,
    },
    "control": "none",
    "arms": {
        "none": {},
        "again": {"env": {"AGAIN": "yes"}},
        "ngram": {"speculation": {"method": "ngram", "drafts": 5, "options": {"prompt_lookup_max": 4}}},
    },
    "phases": {
        "short": {"warmup": 1, "repeats": 5, "output_tokens": 128},
        "cold": {"document_tokens": 600, "concurrency": [2], "output_tokens": 64, "secrets": 2},
        "repeat": {"output_tokens": 160},
    },
    "policy": {"maximise": {"phase": "short", "workload": "code"}},
    "boots": 3,
    "until": {"max_boots": 3, "margin": 0.03},
}
DECLARED = 0.05


def test_three_boots_an_arm_and_the_control_against_itself(tmp_path: Path) -> None:
    study = tmp_path / "study.yaml"
    study.write_text(yaml.safe_dump(STUDY, sort_keys=False))
    run("run", study, "--out", tmp_path / "out", "--plain")
    data = read_study(tmp_path / "out")

    order = [(boot.arm, boot.block) for boot in data.boots]
    forth = ["none", "again", "ngram"]
    assert order == [(arm, block) for block, arms in enumerate((forth, forth[::-1], forth)) for arm in arms]

    asked = {
        (arm, block): set(
            data.requests.prompt_id[(data.requests.arm == arm) & (data.requests.block == block)]
        )
        for arm, block in order
    }
    for block in range(3):
        assert asked["none", block] == asked["again", block] == asked["ngram", block]
    cold = data.requests.phase == "cold"
    assert (data.requests.cached_tokens[cold] <= data.requests.expected_high[cold]).all()

    looks = [event for event in data.events if event["kind"] == "look"]
    assert [look["number"] for look in looks] == [3]
    assert looks[0]["text"]

    findings = analyse(data)
    same = next(each for each in findings.comparisons if {each.arm, each.baseline} == {"none", "again"})
    told = [ratio for ratio in same.ratios if ratio.inference is not None]
    raised = sum(ratio.side != "inconclusive" for ratio in told)
    print(f"the control against itself: {raised} of {len(told)} ratios told apart from 1")
    if told:
        assert binomtest(raised, len(told)).proportion_ci(0.95, "exact").low <= DECLARED

    assert data.telemetry is not None
    machine = data.telemetry.device == MACHINE
    assert len(set(data.telemetry.boot[machine].tolist())) == len(order)
    assert np.isfinite(data.telemetry.memory_available_bytes[machine]).all()
