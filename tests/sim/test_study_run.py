"""`kvantage run` on a simulated engine, from the study file to the report: the whole tool, and its mark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvantage.cli import invoke as run

MODEL = Path(__file__).parents[1] / "data" / "configs" / "qwen3-8b"
STUDY = f"""
model: {MODEL}
engine: {{name: sim, like: vllm, hardware: h100, speed: 2, acceptance: {{ngram: 2.2}}}}
common: {{context_length: 32768, max_running_requests: 4, pool_tokens: 20000}}
control: none
arms: {{none: {{}}, ngram: {{speculation: {{ngram: 3}}}}}}
phases:
  short: {{prompts: {{code: builtin}}, warmup: 1, repeats: 1, output_tokens: 24}}
  cold: {{document_tokens: 1000, concurrency: [1, 2], output_tokens: 16}}
  repeat: {{output_tokens: 24}}
"""


def test_a_simulated_study_from_file_to_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study, out = tmp_path / "study.yaml", tmp_path / "out"
    study.write_text(STUDY)
    assert run(["run", str(study), "--out", str(out), "--plain"]) == 0, capsys.readouterr().err
    report = json.loads((out / "report.json").read_text())
    assert report["simulated"] is True
    assert "SIMULATED" in (out / "report.md").read_text()
    for name in ("none", "ngram"):
        arm = report["arms"][name]
        assert arm["engine_version"] == "like vllm 0.33.0"
        assert arm["kv_pool"]["tokens"]["value"] == 20000
        cells = {(cell["phase"], cell["concurrency"]): cell for cell in arm["cells"]}
        assert {("short", 1), ("cold", 1), ("cold", 2), ("repeat", 1), ("repeat", 2)} <= set(cells)
        warm = cells["repeat", 2]
        assert warm["cached_tokens"]["value"] > 1900
    told = report["predicted"]["arms"]["ngram"]
    assert told["hardware"] == "the study's own: one H100 SXM (80 GB)"
    by = {row["name"]: row for row in told["rows"] if row["kind"] == "speed"}
    assert by["short code at 1"]["within"] is True  # it was predicted in hurried time, as it ran
    assert run(["plan", str(study), "--against", str(out)]) == 0
    assert "Predicted beside measured" in capsys.readouterr().out
