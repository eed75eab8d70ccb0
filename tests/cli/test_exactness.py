"""`kvantage exactness` where there is nothing to compare: each refusal says what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvantage.cli import invoke as run
from tests.sim.test_study_run import MODEL

STUDY = """
model: {model}
engine: {{name: sim, like: vllm, hardware: h100, speed: 50}}
common: {{context_length: 32768, max_running_requests: 4, pool_tokens: 20000}}
control: none
arms: {{none: {{}}}}
phases: {{{phases}}}
"""
PROMPTS = '{"id": "one", "prompt": "Say something."}\n'


def made(folder: Path, name: str, phases: str) -> Path:
    """The run of a simulated study with these phases."""
    (folder / "mine.jsonl").write_text(PROMPTS)
    study = folder / f"{name}.yaml"
    study.write_text(STUDY.format(model=MODEL, phases=phases))
    assert run(["run", str(study), "--out", str(folder / name), "--plain"]) == 0
    return folder / name


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("nowhere", "http://127.0.0.1:1"), "nowhere is neither the folder of a run nor an address"),
        (("http://127.0.0.1:1", "http://127.0.0.1:2"), "127.0.0.1:1"),
    ],
)
def test_what_is_neither_is_refused(
    given: tuple[str, str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["exactness", *given]) == 2
    assert words in capsys.readouterr().err


def test_runs_must_have_been_asked_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = "samples: 0, tasks: 0, concurrency: 1, prompts: ./mine.jsonl"
    first = made(tmp_path, "first", f"exactness: {{output_tokens: 64, {asked}}}")
    longer = made(tmp_path, "longer", f"exactness: {{output_tokens: 65, {asked}}}")
    without = made(tmp_path, "without", "probes: {output_tokens: 8}")
    capsys.readouterr()
    assert run(["exactness", str(first), str(longer)]) == 2
    assert "`phases.exactness.output_tokens` is 64 and 65" in capsys.readouterr().err
    assert run(["exactness", str(first), str(without)]) == 2
    assert "run B holds no exactness" in capsys.readouterr().err
    assert run(["exactness", str(first), str(first)]) == 5
    assert "void: simulated" in " ".join(capsys.readouterr().out.split())
