"""The quickstart's own study on the real llama-server: its engine line and its models changed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from kvantage.cli import cli
from kvantage.study import load_study, packaged_study
from tests.engines.llamacpp.real import needs_llama_server

EXAMPLE = Path(__file__).parents[3] / "examples" / "quickstart-llamacpp.yaml"
SMALLER = {"short": {"warmup": 1, "repeats": 2, "output_tokens": 64}, "probes": {"output_tokens": 64}}


def test_the_example_gives_the_quickstarts_work() -> None:
    example, quickstart = (
        load_study(path, paths_must_exist=False) for path in (EXAMPLE, packaged_study("quickstart"))
    )
    assert example.fingerprint() == quickstart.fingerprint()
    assert example.policy == quickstart.policy
    assert set(example.arm_names) == set(quickstart.arm_names) - {"dflash"}
    for name in example.arm_names:
        ours, theirs = example.arm_settings(name), quickstart.arm_settings(name)
        assert ours.settings.pool_bytes == theirs.settings.pool_bytes
        assert ours.speculation.drafts == theirs.speculation.drafts


@pytest.mark.engine
@needs_llama_server
def test_it_runs(tmp_path: Path, toys: Path) -> None:
    """Of fewer and shorter answers, and the longest wave left out."""
    study = yaml.safe_load(EXAMPLE.read_text())
    study["model"], study["arms"]["draft_model"]["speculation"]["draft"] = (
        str(toys / "qwen3"),
        str(toys / "qwen3-draft"),
    )
    cold = {"document_tokens": 1000, "concurrency": [1, 2], "output_tokens": 48}
    study["phases"] = {**SMALLER, "cold": cold, "repeat": {"output_tokens": 48}}
    study.pop("budget", None)  # what fits it would depend on how busy the machine is
    path, out = tmp_path / "study.yaml", tmp_path / "out"
    path.write_text(yaml.safe_dump(study, sort_keys=False))
    result = CliRunner().invoke(cli, ["run", str(path), "--out", str(out), "--plain"])
    assert result.exit_code == 0, result.output
    report = json.loads((out / "report.json").read_text())
    assert set(report["arms"]) == {"none", "ngram", "draft_model"}
    for arm in ("none", "ngram", "draft_model"):
        assert re.search(rf"{arm}#0: ready .*11,776 tokens", result.output)
        assert re.search(rf"{arm}#0: short code at 1: 3 requests", result.output)
        assert re.search(rf"{arm}#0: repeat documents at 2", result.output)
    for name in ("cache_cold", "cache_warm"):
        assert name not in result.output
