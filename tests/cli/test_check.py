import json
from pathlib import Path

import pytest

from kvantage.cli import invoke as run
from kvantage.core import ExitCode
from kvantage.study import Study
from tests.study.base import BASE, ROOT


def test_check_says_what_a_study_asks_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", str(ROOT / "examples" / "two-gb10-glm-5.3-flash.yaml")]) == 0
    shown = capsys.readouterr().out
    assert "two-gb10-glm-5.3-flash: incoai/GLM-5.3-Flash-NVFP4-Spark at 53e77dbb on sglang" in shown
    assert "  none         the control" in shown
    assert "  mtp          method mtp, drafts 3, draft_kv_dtype fp8_e4m3" in shown
    assert "  cold         document_tokens 128,000, concurrency 1/2/4, output_tokens 512" in shown
    assert "note:" not in shown


def test_check_gives_the_study_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(BASE)
    assert run(["check", str(path), "--json"]) == 0
    assert Study.from_json(json.loads(capsys.readouterr().out)).arm_names == ("none", "mtp")


def test_check_says_what_is_doubtful(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(BASE.replace("mtp: {speculation: {method: mtp, drafts: 3}}", "same: {}"))
    assert run(["check", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "  same    as the control" in shown
    assert "note: arms `none` and `same` ask for the same thing" in shown


def test_check_refuses_a_wrong_study(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(BASE.replace("drafts", "draughts"))
    assert run(["check", str(path)]) == ExitCode.USAGE
    said = capsys.readouterr().err
    assert said.startswith(f"kvantage: {path}:8: arms.mtp.speculation.draughts: there is no field `draughts`")
    assert run(["check", str(tmp_path / "none.yaml")]) == ExitCode.USAGE
    assert capsys.readouterr().err == f"kvantage: {tmp_path}/none.yaml: there is no such file\n"
