"""Exactness on the real vLLM: honest arms, and every way of being wrong, each called what it is."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from kvantage.analysis import analyse
from kvantage.analysis.exactness.judge import ArmExactness, Exactness
from kvantage.ledger import read_study
from kvantage.report import report, report_schema
from tests.real.exact.arms import HONEST, dead, mended, silent, study, wrong

ROOT = Path(__file__).parents[2]
there = bool(os.environ.get("VLLM_PYTHON")) or importlib.util.find_spec("vllm") is not None
pytestmark = [pytest.mark.skipif(not there, reason="vLLM is not installed (`make engine`)")]

PROMPTS = [
    # the first is sampled from: its eighth token is open, until a draft model is believed unseen
    {
        "id": "code",
        "prompt": "Write a Python class `Stack`. A last-in, first-out collection with push and pop.",
    },
    {
        "id": "queue",
        "prompt": "Write a Python class `QueueTests`. Unit tests of a queue: put, get and empty.",
    },
    {"id": "prose", "prompt": 'Write a passage that begins with these words: "The evening was fine"'},
    {"id": "sum", "prompt": "What is 34 + 25? Answer with the number only."},
]


def run(file: Path, out: Path, code: int = 0) -> Exactness:
    """The command as a person runs it; its report obeys the schema."""
    words = [sys.executable, "-m", "kvantage", "run", str(file), "--out", str(out), "--plain"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=1700, check=False)
    assert done.returncode == code, done.stdout[-3000:] + done.stderr[-3000:]
    findings = analyse(read_study(out))
    plain = json.loads(json.dumps(report(findings)))
    jsonschema.validate(plain, report_schema())
    assert findings.exactness is not None
    assert set(plain["exactness"]["arms"]) == {arm.arm for arm in findings.exactness.arms}
    return findings.exactness


def of(found: Exactness, arm: str) -> ArmExactness:
    judged = found.of(arm)
    assert judged is not None
    return judged


@pytest.mark.engine
@pytest.mark.timeout(600)
def test_an_honest_drafter_is_bit_identical_and_wrong_and_dead_ones_are_called_so(
    tmp_path: Path,
) -> None:
    """float32, four prompts: the proofs below in short. The control is last, so that its one boot scores."""
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text("".join(json.dumps(each) + "\n" for each in PROMPTS))
    arms: dict[str, Any] = {
        "dflash": mended("dflash"),
        "wrong": wrong(0.02, sampled=1.0),
        "dead": dead(tmp_path),
        "none": {},
    }
    small = {"output_tokens": 96, "concurrency": 2, "samples": 60, "prefixes": 1, "tasks": 1}
    file = study(tmp_path / "small.yaml", arms, "fp32", prompts=str(prompts), **small)
    found = run(file, tmp_path / "run")
    assert of(found, "dflash").words.startswith("bit-identical on 4 prompts, ")
    assert of(found, "wrong").words.startswith("differs: structural at prompt ")
    assert of(found, "wrong").worst[0].cls == "structural"
    assert any(each.p_holm < 0.01 for each in of(found, "wrong").sampling)
    assert all(each.p_holm > 0.01 for each in of(found, "dflash").sampling)
    assert of(found, "dead").words.startswith("void: dead drafter (acceptance length 1.00")
    assert found.floor is not None
    assert found.floor.gap == 0
    assert all(not each.faulty for each in found.control_streams)


@pytest.mark.proof
@pytest.mark.timeout(1800)
def test_in_float32_every_arm_is_bit_identical(tmp_path: Path) -> None:
    file = study(tmp_path / "float32.yaml", dict(HONEST), "fp32", samples=0, tasks=8)
    found = run(file, tmp_path / "run")
    for arm in ("ngram", "draft_model", "dflash"):
        assert of(found, arm).words.startswith("bit-identical on 20 prompts, "), of(found, arm)


@pytest.mark.proof
@pytest.mark.timeout(1800)
def test_in_bf16_flips_are_near_ties_and_real_changes_are_structural(tmp_path: Path) -> None:
    arms = {
        **HONEST,
        "fp8_kv": {"kv_dtype": "fp8_e5m2"},
        "wrong": wrong(0.01, 1),
        "dead": dead(tmp_path),
        "silent": silent(),
    }
    file = study(tmp_path / "bf16.yaml", arms, samples=0, tasks=8)
    found = run(file, tmp_path / "run")
    honest = {"bit-identical", "consistent with the off-vs-off floor", "near-tie flips only"}
    for arm in ("ngram", "draft_model", "dflash"):
        assert of(found, arm).cls in honest, of(found, arm)
    for arm in ("fp8_kv", "wrong"):
        assert of(found, arm).cls == "differs", of(found, arm)
    assert of(found, "dead").words.startswith("void: dead drafter")
    assert of(found, "silent").words.startswith("void: speculation is on, and no draft was counted")


@pytest.mark.proof
@pytest.mark.timeout(1800)
def test_at_a_temperature_an_honest_rule_passes_and_two_wrong_ones_do_not(tmp_path: Path) -> None:
    """`as_built` has the CPU build's own fault (0.32.0), which nobody planted."""
    arms = {
        "none": {},
        "ngram": HONEST["ngram"],
        "honest": mended("draft_model"),
        "wrong": wrong(0, 1, sampled=1.0),
        "as_built": HONEST["draft_model"],
    }
    file = study(tmp_path / "sampled.yaml", arms, "fp32", samples=200, prefixes=4, tasks=0, output_tokens=64)
    found = run(file, tmp_path / "run")
    for arm in ("ngram", "honest"):
        assert of(found, arm).cls == "bit-identical", of(found, arm)
    for arm in ("wrong", "as_built"):
        assert of(found, arm).detail.startswith("sampled: at "), of(found, arm)


def bench(script: str, *words: str | Path) -> str:
    """A script of benchmarks/exactness; what it prints."""
    path = ROOT / "benchmarks" / "exactness" / script
    done = subprocess.run(
        [sys.executable, str(path), *map(str, words)],
        capture_output=True,
        text=True,
        timeout=1700,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.proof
@pytest.mark.timeout(1800)
def test_one_wrong_token_in_a_thousand_is_caught_by_the_shipped_prompts(tmp_path: Path) -> None:
    bench("detection.py", tmp_path, "wrong", "0", "0.001")
    bench("detection.py", tmp_path, "control")
    honest, lossy = json.loads(bench("detection.py", tmp_path, "judge"))
    assert honest["called_different"] == 0, honest
    assert lossy["called_different"] >= 3, lossy


@pytest.mark.proof
@pytest.mark.timeout(1800)
def test_a_server_is_seldom_called_different_from_itself(tmp_path: Path) -> None:
    bench("false_alarms.py", tmp_path, "ask")
    told = json.loads(bench("false_alarms.py", tmp_path, "judge"))
    assert told["called_different"]["low"] <= 0.05, told
