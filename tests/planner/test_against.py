"""A plan held against a report: pools and clean cells side by side, and the planner's own error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvantage.cli import invoke as run

CONFIGS = Path(__file__).parents[1] / "data" / "configs"
STUDY = f"""
model: {CONFIGS / "captured-tiny-cpu"}
engine: vllm
common: {{pool_bytes: 48MiB, context_length: 4096, max_running_requests: 4}}
control: none
arms: {{none: {{}}, ngram: {{speculation: {{ngram: 5}}}}}}
phases: {{short: {{}}, cold: {{document_tokens: 1000, concurrency: [1, 4]}}, repeat: {{}}}}
"""


def cell(phase: str, workload: str, streams: int, tok_s: float | None, **more: Any) -> dict[str, Any]:
    rate = {"missing": "void"} if tok_s is None else {"value": tok_s, "unit": "tok/s", "source": "client"}
    requests = more.pop("requests", streams)
    return {
        "phase": phase,
        "workload": workload,
        "concurrency": streams,
        "status": "void" if tok_s is None else "ok",
        "decode_tok_s": rate,
        "requests": {"value": requests},
        **{name: {"value": value} for name, value in more.items()},
    }


REPORT = {
    "arms": {
        # what vLLM's CPU build did with this very model on two cores, measured by kvantage
        "none": {
            "kv_pool": {"tokens": {"value": 24576}},
            "cells": [
                cell("probes", "json", 1, 100),
                cell("short", "code", 1, 494.05, requests=2, prompt_tokens=71, output_tokens=128),
                cell("short", "prose", 1, 459.68, requests=2, prompt_tokens=172, output_tokens=128),
                cell("cold", "documents", 4, 215.36, prompt_tokens=4334, output_tokens=128),
                cell("repeat", "documents", 1, 374.23, prompt_tokens=1081, output_tokens=64),
                cell("repeat", "documents", 4, 313.58, prompt_tokens=4334, output_tokens=256),
            ],
        },
        "ngram": {
            "kv_pool": {"tokens": {"value": 24576}},
            "cells": [
                cell("short", "code", 1, 800, acceptance_length=2.0, prompt_tokens=35, output_tokens=64),
                cell("short", "prose", 1, None, acceptance_length=1.5),
                cell(
                    "repeat", "documents", 1, 650, acceptance_length=2.2, prompt_tokens=1081, output_tokens=64
                ),
            ],
        },
    }
}


@pytest.fixture(name="files")
def _files(tmp_path: Path) -> tuple[str, str]:
    (tmp_path / "study.yaml").write_text(STUDY)
    (tmp_path / "report.json").write_text(json.dumps(REPORT))
    return str(tmp_path / "study.yaml"), str(tmp_path)


def test_predicted_beside_measured(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["plan", files[0], "--hardware", "cpu", "--against", files[1]]
    assert run([*argv, "--json"]) == 0
    page = json.loads(capsys.readouterr().out)["against"]
    rows = {(row["arm"], row["quantity"]): row for row in page["rows"]}
    assert rows["none", "KV pool"]["error"] == 0
    assert rows["none", "short code at 1"]["calibrates"]
    assert rows["ngram", "short code at 1"]["calibrates"]
    assert ("none", "cold documents at 4") not in rows
    assert ("ngram", "short prose at 1") not in rows
    for key in (
        ("none", "short prose at 1"),
        ("none", "repeat documents at 1"),
        ("none", "repeat documents at 4"),
    ):
        assert abs(rows[key]["error"]) < 0.17  # the generic file fits no one machine
    assert page["error"]["pool_largest"] == 0
    assert page["error"]["speed_median"] < 0.15
    assert run(argv) == 0
    assert "the planner's error, speed: median" in capsys.readouterr().out


@pytest.mark.parametrize(("text", "words"), [("{", "cannot be read"), ("[]", "no report"), ("{}", "no arms")])
def test_a_report_that_is_none(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str], text: str, words: str
) -> None:
    (Path(files[1]) / "report.json").write_text(text)
    assert run(["plan", files[0], "--hardware", "cpu", "--against", files[1]]) == 2
    assert words in capsys.readouterr().err


def test_a_report_without_clean_cells_still_has_its_pools(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    (Path(files[1]) / "report.json").write_text(
        json.dumps({"arms": {"none": {"kv_pool": {"tokens": {"value": 24000}}}}})
    )
    assert run(["plan", files[0], "--hardware", "cpu", "--against", files[1]]) == 0
    assert "+2.4%" in capsys.readouterr().out
    assert run(["plan", str(CONFIGS / "qwen3-8b"), "--against", files[1]]) == 2
