"""`kvantage init`: what it writes loads, says what it means, and is asked for in a terminal."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from kvantage.cli import invoke as run
from kvantage.cli.sketch import DRAFTS, NEEDS_DRAFT, Answers, Drafter, refusals, sketch
from kvantage.core import ExitCode
from kvantage.engines.vocabulary import ENGINES, SPECULATION
from kvantage.planner.machine import hardware_names
from kvantage.study import load_study
from kvantage.study.load import study_from_text
from tests.cli.terminal import KVANTAGE, Terminal
from tests.study.base import ROOT

NANO = ROOT / "src" / "kvantage" / "nano"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("hardware", [*hardware_names(), None])
def test_every_sketch_loads_and_has_no_doubt(engine: str, hardware: str | None, tmp_path: Path) -> None:
    drafters = [
        Drafter(method, DRAFTS[method], "org/drafter" if method in NEEDS_DRAFT else None)
        for method in ("ngram", "draft_model", "eagle3", "mtp", "dflash")
        if SPECULATION[method].get(engine)
    ]
    answers = Answers("org/model", engine, hardware, drafters)
    if refusals(answers):
        assert (hardware, engine != "sglang") == ("two-gb10", True)
        return
    study = study_from_text(sketch(answers, "0"), folder=tmp_path, paths_must_exist=False)
    assert study.warnings() == ()
    assert study.arm_names == ("none", *(one.method for one in drafters))
    assert study.engine.name == engine
    assert study.policy is not None


@given(model=some.text(some.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp")), min_size=1, max_size=60))
def test_any_name_of_a_model_is_written_as_it_is(model: str) -> None:
    name = f"org/{model.strip() or 'x'}"
    text = sketch(Answers(name, "vllm"), "0")
    if "${" in name or "package:" in name:
        return
    study = study_from_text(text, folder=Path("/nowhere"), paths_must_exist=False)
    assert study.model.path == name


def test_by_flags_without_a_question(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.yaml"
    words = ["init", str(path), "--model", "Qwen/Qwen3-8B", "--engine", "vllm", "--hardware", "h100", "--yes"]
    words += ["--drafters", "ngram,eagle3:org/eagle:3,mtp", "--documents", "100k", "--at", "1,8"]
    assert run(words) == 0, capsys.readouterr().err
    study = load_study(path)
    assert study.arm_names == ("none", "ngram", "eagle3", "mtp")
    assert study.arms["eagle3"].speculation.draft == "org/eagle"
    assert study.phases.cold is not None
    assert study.phases.cold.concurrency == (1, 8)
    assert study.common.context_length == 131_072
    shown = capsys.readouterr().out
    assert f"kvantage run {path} --dry-run" in shown
    assert f"kvantage plan {path} --hardware h100" in shown
    assert run(words) == ExitCode.USAGE
    assert "this file is there already" in capsys.readouterr().err
    assert run([*words, "--force"]) == 0


def test_a_local_model_is_looked_at_and_its_study_dry_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(NANO / "mla", tmp_path / "models" / "mla")
    (tmp_path / "studies").mkdir()
    monkeypatch.chdir(tmp_path)
    words = [
        "init",
        "studies/a.yaml",
        "--model",
        "models/mla",
        "--engine",
        "vllm",
        "--documents",
        "1000",
        "--yes",
    ]
    assert run(words) == 0, capsys.readouterr().err
    study = load_study("studies/a.yaml")
    assert "model: ../models/mla\n" in Path("studies/a.yaml").read_text()
    assert "mtp" in study.arm_names, "the model has an MTP head"
    assert run(["check", "studies/a.yaml"]) == 0
    too_long = ["init", "studies/b.yaml", *words[2:6], "--documents", "200k", "--yes"]
    assert run(too_long) == ExitCode.USAGE
    assert "do not fit: the model's context is" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--drafters", "eagle3"], "eagle3 needs a drafter"),
        (["--drafters", "medusa"], "`medusa` is not a way of drafting"),
        (["--drafters", "ngram:org/x:3"], "ngram has no drafter of its own"),
        (["--hardware", "h1000"], "there is no `h1000`"),
        (["--hardware", "two-gb10"], "starts it on one machine only"),
        (["--documents", "128K"], "--documents"),
        (["--at", "0"], "write numbers of requests"),
    ],
)
def test_what_cannot_be_is_said(
    more: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["init", str(tmp_path / "a.yaml"), "--model", "a/b", "--engine", "vllm", "--yes", *more]
    assert run(words) == ExitCode.USAGE
    assert said in capsys.readouterr().err
    assert not (tmp_path / "a.yaml").exists()


def test_nobody_to_ask(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init", str(tmp_path / "a.yaml"), "--yes"]) == ExitCode.USAGE
    assert "--model and --engine must be given" in capsys.readouterr().err


def test_in_a_terminal_it_asks(tmp_path: Path) -> None:
    with Terminal((*KVANTAGE, "init"), 90, 30, tmp_path) as terminal:
        for question, answer in [
            ("Engine", b"vllm\n"),
            ("Model", b"org/model\n"),
            ("Hardware", b"h200\n"),
            ("Drafters [", b"eagle3\n"),  # refused, and asked again
            ("eagle3 needs a drafter", b"ngram,eagle3:org/eagle\n"),
            ("Long prompts", b"\n"),
            ("Requests at once", b"1,4\n"),
        ]:
            assert terminal.shows(question, 20), terminal.everything()
            terminal.press(answer)
        assert terminal.ends(20) == 0, terminal.everything()
    assert load_study(tmp_path / "study.yaml").arm_names == ("none", "ngram", "eagle3")
