"""`kvantage plan`: what it prints, what it refuses, and the study of the write-up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvantage.cli import invoke as run
from kvantage.core import UsageError
from kvantage.planner.arms import parse_arm, parse_arms
from kvantage.planner.checkpoint import read_checkpoint

from .cases import CONFIGS

FLASH = str(CONFIGS / "glm-5.3-flash")
DRAFT = str(CONFIGS / "glm-5.3-flash-dflash2")
TWO_SPEEDS = ("--measured", "none=3", "--measured", "mtp-3=3")
STUDY = Path(__file__).parents[2] / "examples" / "two-gb10-glm-5.3-flash.yaml"


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def said(capsys: pytest.CaptureFixture[str], *argv: str) -> dict[str, Any]:
    assert run(["plan", *argv, "--json"]) == 0
    out = json.loads(capsys.readouterr().out)
    assert isinstance(out, dict)
    return out


def test_a_model_alone(capsys: pytest.CaptureFixture[str]) -> None:
    page = said(capsys, FLASH)
    first = page["kv"][0]
    assert (first["kv_dtype"], first["kv_bytes_per_token"], first["kv_bytes_per_sequence"]) == (
        "bf16",
        11627,
        0,
    )
    assert first["state_bytes"] == 147_619_840
    assert [entry["kv_dtype"] for entry in page["kv"]][:3] == ["bf16", "fp8_e4m3", "fp8_e4m3_raw"]
    assert page["mtp"]["kv"][0]["mtp_kv_bytes_per_token"] == 1057
    assert page["drafters"] == []
    assert run(["plan", FLASH]) == 0
    assert "11,627" in capsys.readouterr().out


def test_a_config_file_and_ranks(capsys: pytest.CaptureFixture[str]) -> None:
    page = said(capsys, str(CONFIGS / "qwen3-8b" / "config.json"), "--tp", "16")
    assert page["kv"][0]["kv_bytes_per_token"] == 147456 // 8  # eight heads: sixteen ranks repeat them
    assert said(capsys, FLASH, "--tp", "2", "--draft", DRAFT)["drafters"][0]["kv"][0] == {
        "kv_dtype": "bf16",
        "draft_kv_bytes_per_token": 16384,
    }


def test_a_drafter_alone(capsys: pytest.CaptureFixture[str]) -> None:
    page = said(capsys, str(CONFIGS / "qwen3-8b-dflash"))
    assert [entry["kv_bytes_per_token"] for entry in page["kv"]] == [20480, 10240]
    assert (page["drafter"]["max_drafts"], page["drafter"]["max_accept_len"]) == (15, 16)
    assert run(["plan", DRAFT]) == 0
    assert "block 8" in capsys.readouterr().out


def test_state_that_is_not_known_is_null_with_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    page = said(capsys, str(CONFIGS / "kimi-k3"))
    assert page["kv"][0]["state_bytes"] is None
    assert "not guessed" in page["state_bytes_missing"]
    assert run(["plan", str(CONFIGS / "kimi-k3")]) == 0
    assert "not known" in capsys.readouterr().out


def test_arms_on_hardware(capsys: pytest.CaptureFixture[str]) -> None:
    arms = f"none,mtp,dflash:{DRAFT}:5:fp8"
    argv = [FLASH, "--hardware", "two-gb10", "--engine", "sglang", "--arms", arms, "--weights", "177.78"]
    page = said(capsys, *argv, "--kv-dtype", "fp8_e4m3", "--max-running", "4")
    assert list(page["arms"]) == ["none", "mtp-3", "dflash-5-fp8"]
    none = page["arms"]["none"]
    assert none["kv_pool"]["tokens"]["source"] == "predicted"
    assert none["kv_pool"]["tokens"]["low"] <= none["kv_pool"]["tokens"]["value"]
    assert page["arms"]["dflash-5-fp8"]["draft_kv_bytes_per_token"]["value"] == 8192
    assert page["arms"]["mtp-3"]["break_even_acceptance_length"]["value"] > 1
    assert page["best"]["arm"] in page["arms"]
    assert all(figure["from"] for figure in page["hardware"]["figures"].values())
    assert run(["plan", *argv]) == 0
    assert "Best:" in capsys.readouterr().out


def test_without_hardware_the_bytes_stand_and_the_rest_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    page = said(capsys, FLASH, "--arms", "none,mtp")
    assert "no hardware" in page["arms"]["none"]["kv_pool"]["tokens"]["missing"]
    assert page["best"]["arm"] is None
    known = said(capsys, FLASH, "--arms", "none", "--engine", "sglang", "--available", "20", "--tp", "2",
                 "--max-running", "48")  # fmt: skip
    assert known["arms"]["none"]["kv_pool"]["tokens"]["value"] == 977_152


def test_an_arm_that_cannot_be_planned_is_refused_by_itself(capsys: pytest.CaptureFixture[str]) -> None:
    page = said(capsys, str(CONFIGS / "qwen3-8b"), "--arms", "none,mtp:2", "--hardware", "h100")
    assert "declares no MTP head" in page["arms"]["mtp-2"]["refused"]
    assert page["best"]["arm"] == "none"
    assert run(["plan", str(CONFIGS / "qwen3-8b"), "--arms", "none,mtp:2", "--hardware", "h100"]) == 0
    assert "cannot be planned" in capsys.readouterr().out


def test_the_write_ups_study(capsys: pytest.CaptureFixture[str]) -> None:
    """No result of the study is put in: the control's pool comes within 1 %, the order is as published."""
    page = said(capsys, str(STUDY), "--hardware", "two-gb10")
    pools = {name: arm["kv_pool"]["tokens"] for name, arm in page["arms"].items()}
    assert pools["none"]["value"] == pytest.approx(1_703_232, rel=0.01)
    assert pools["mtp"]["low"] <= 982_464 <= pools["mtp"]["high"]
    assert pools["dflash-bf16"]["low"] <= 520_192 <= pools["dflash-bf16"]["high"]
    assert pools["dflash-bf16"]["value"] < pools["dflash-fp8"]["value"] < pools["mtp"]["value"]
    assert set(page["arms"]["none"]["sessions"]) == {"130048", "258048", "514048"}


def test_weights_that_do_not_fit_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    page = said(capsys, FLASH, "--hardware", "h100", "--arms", "none")
    assert page["arms"]["none"]["kv_pool"]["tokens"]["value"] == 0
    assert page["best"] == {"arm": None, "reason": "the weights leave no memory for a cache", "hinges": []}
    assert any("would not start" in note for note in page["arms"]["none"]["notes"])


def test_calibration(capsys: pytest.CaptureFixture[str]) -> None:
    argv = [FLASH, "--hardware", "two-gb10", "--engine", "sglang", "--arms", "none,mtp", "--weights", "178"]
    page = said(capsys, *argv, "--measured", "none=14.74", "--measured", "mtp-3=25.75", "--al", "mtp-3=2.68")
    assert page["arms"]["none"]["decode_tok_s"]["1"]["value"] == pytest.approx(14.74, rel=1e-2)
    assert page["arms"]["mtp-3"]["decode_tok_s"]["1"]["value"] == pytest.approx(25.75, rel=1e-2)
    assert page["arms"]["mtp-3"]["break_even_acceptance_length"]["value"] == pytest.approx(1.534, rel=1e-2)


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["nowhere"], "nowhere"),
        (["./nowhere"], "nowhere"),
        (["some/model"], "hub"),
        ([FLASH, "--arms", "none", "--engine", "tensorrt"], "tensorrt"),
        ([FLASH, "--arms", "none", "--hardware", "abacus"], "abacus"),
        ([FLASH, "--arms", "magic:3"], "magic"),
        ([str(STUDY), "--arms", "none"], "a study says its own arms"),
        ([str(STUDY), "--kv-dtype", "bf16"], "--kv-dtype"),
        ([FLASH, "--arms", "none", "--at", "0"], "--at"),
        ([FLASH, "--arms", "none", "--lengths", "many"], "--lengths"),
        ([FLASH, "--arms", "none", "--al", "mtp"], "--al"),
        ([FLASH, "--arms", "none", "--hardware", "h100", "--measured", "mtp=3"], "mtp"),
        ([FLASH, "--arms", "mtp", "--hardware", "h100", "--measured", "mtp-3=3"], "without speculation"),
        ([FLASH, "--arms", "none,mtp", "--hardware", "h100", *TWO_SPEEDS], "--al"),
    ],
)
def test_what_is_wrong_is_said(capsys: pytest.CaptureFixture[str], argv: list[str], words: str) -> None:
    assert run(["plan", *argv]) == 2
    assert words in capsys.readouterr().err


def test_an_unknown_architecture_is_refused_by_name(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text(
        '{"architectures": ["TesseractForCausalLM"], "model_type": "tesseract"}'
    )
    assert run(["plan", str(tmp_path)]) == 2
    assert "TesseractForCausalLM" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["{", "[]", "\xff"])
def test_a_config_that_is_not_one(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(UsageError, match=r"config\.json"):
        read_checkpoint(str(tmp_path))


def test_arms_as_they_are_typed() -> None:
    speculation, drafter = parse_arm(f"dflash:{DRAFT}:5:fp8")
    assert (speculation.drafts, speculation.draft_kv_dtype, speculation.draft) == (5, "fp8_e4m3", DRAFT)
    assert drafter is not None
    assert parse_arm(f"dflash:{DRAFT}")[0].drafts == 7
    assert parse_arm("nextn")[0].method == "mtp"
    assert [name for name, _, _ in parse_arms("mtp:3,mtp:3")] == ["mtp-3", "mtp-3-2"]
    for wrong in ("none:3", "mtp:x:3", "dflash", "dflash:5", "none,,mtp"):
        with pytest.raises(UsageError):
            parse_arms(wrong)


def test_known_models_are_read_without_a_network() -> None:
    found = read_checkpoint("zai-org/GLM-5.3-Flash")
    assert found.note is not None
    assert "hub" in found.note


def test_rates_by_position_are_an_acceptance_length(capsys: pytest.CaptureFixture[str]) -> None:
    asked = (FLASH, "--hardware", "two-gb10", "--arms", "none,mtp:4")
    page = said(capsys, *asked, "--al", "mtp-4=0.718,0.492,0.396,0.315")
    assert page["arms"]["mtp-4"]["acceptance_length"]["value"] == pytest.approx(2.921)
    for wrong, words in (
        ("mtp-4=0.5,x", "RATE"),
        ("mtp-4=0.5,0.6", "cannot rise"),
        ("mtp-4=1.5,0.2", "between"),
    ):
        assert run(["plan", *asked, "--al", wrong]) == 2
        assert words in capsys.readouterr().err
