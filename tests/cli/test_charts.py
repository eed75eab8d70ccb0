"""`kvantage report DIR --charts DIR` on a run of the whole tool against the simulated engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvantage.cli import invoke
from kvantage.core import ExitCode
from tests.cli.simulated import study


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("charts")
    out = folder / "out"
    asked = study(folder, output_tokens=24, speed=20)
    assert invoke(["run", str(asked), "--out", str(out), "--plain"]) == ExitCode.OK
    return out


def test_a_run_writes_the_page_and_marks_it_simulated(run: Path) -> None:
    text = (run / "report.html").read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert "SIMULATED: figures come from a simulator" in text
    assert 'id="waves"' in text
    assert 'id="exactness"' not in text


def test_charts_are_written_as_svg_and_png(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    charts = run / "charts"
    capsys.readouterr()
    assert invoke(["report", str(run), "--charts", str(charts)]) == ExitCode.OK
    names = {path.name for path in charts.iterdir()}
    assert {"pool-by-part.svg", "pool-by-part.png"} <= names
    assert f"{charts}: {len(names) // 2} charts, {len(names)} files" in capsys.readouterr().out


def test_a_folder_that_cannot_be_written_is_said(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    taken = run / "taken"
    taken.write_text("a file", encoding="utf-8")
    assert invoke(["report", str(run), "--charts", str(taken / "charts")]) == ExitCode.STORAGE
    said = capsys.readouterr().err
    assert "the charts cannot be written: Not a directory" in said
    assert "--charts DIR" in said
