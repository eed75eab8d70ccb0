"""kvantage in Python: what `import kvantage` costs, a run measured and opened, a plan, and how they look."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import kvantage
from kvantage.api.show import run_html
from kvantage.core import LedgerError, StudyError, UsageError
from kvantage.study import load_study
from tests.cli.simulated import MODEL, study
from tests.report.test_report import EVIL, full


def test_importing_kvantage_imports_nothing_heavy() -> None:
    script = (
        "import sys, kvantage\n"
        "heavy = {'numpy', 'pydantic', 'polars', 'rich', 'asyncio', 'click'} & set(sys.modules)\n"
        "assert {'open_run', 'run_study', 'plan'} <= set(dir(kvantage))\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = kvantage.nothing


class Told:
    def __init__(self) -> None:
        self.kinds: list[str] = []

    def on(self, kind: str, **_: Any) -> None:
        self.kinds.append(kind)


async def test_a_study_is_measured_inside_an_event_loop_and_opened(tmp_path: Path) -> None:
    told = Told()
    path = study(tmp_path, output_tokens=48)
    await asyncio.sleep(0)  # a notebook's loop is at work here
    run = kvantage.run_study(path, tmp_path / "out", arms=["ngram"], phases=["short"], observer=told)
    assert {"plan", "boot", "ready", "cell", "request", "stopped"} <= set(told.kinds)
    assert {arm.name for arm in run.findings.arms if arm.boots} == {"none", "ngram"}
    assert {file.name for file in (tmp_path / "out").glob("report.*")} == {
        "report.html",
        "report.json",
        "report.md",
    }
    again = kvantage.open_run(str(tmp_path / "out"))
    assert again.requests.height == 6
    assert again.boots["simulated"].to_list() == [True, True]
    assert set(again.facts["source"].drop_nulls()) >= {"config"}
    assert again.settings.filter(name="simulated").height == 2
    assert again.chunks.height > 0
    assert again.windows.height == again.cells.height == 2
    assert again.counters.height > 0
    assert "SIMULATED" in again._repr_html_()
    with pytest.raises(LedgerError, match="holds a study already"):
        kvantage.run_study(path, tmp_path / "out")


def test_errors_come_before_anything_is_started(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="no such file"):
        kvantage.run_study(tmp_path / "none.yaml", tmp_path / "out")
    with pytest.raises(UsageError, match="there is no arm `mpt`"):
        kvantage.run_study(study(tmp_path), tmp_path / "out", arms=["mpt"])
    with pytest.raises(LedgerError, match="there is no study here"):
        kvantage.open_run(tmp_path)
    assert not (tmp_path / "out").exists()


def test_a_plan_of_a_model_and_of_a_study(tmp_path: Path) -> None:
    planned = kvantage.plan(str(MODEL), hardware="h100", arms="none,ngram:5", kv_dtype="fp8")
    assert list(planned.arms) == ["none", "ngram-5"]
    pool = planned.arms["none"].pool
    assert pool is not None
    assert pool.tokens().source == "predicted"
    assert planned.to_json()["arms"]
    shown = planned._repr_html_()
    assert "Predicted; nothing of it is measured." in shown
    of_study = kvantage.plan(load_study(study(tmp_path)))
    assert list(of_study.arms) == ["none", "ngram"]
    with pytest.raises(UsageError, match="a study says its own"):
        kvantage.plan(study(tmp_path), arms="none")
    with pytest.raises(UsageError, match="no such setting"):
        kvantage.plan(str(MODEL), arms="none", kv_type="fp8")


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        assert all(name == "style" for name, _ in attrs), (tag, attrs)


def test_what_a_server_says_does_nothing_in_a_notebook() -> None:
    from kvantage.analysis import analyse

    builder = full()
    builder.study["notice"] = EVIL
    builder.arm(EVIL[:40], pool=100)
    page = run_html(analyse(builder.data()), f"runs/{EVIL}")
    tags = Tags()
    tags.feed(page)
    assert tags.seen <= {
        "div",
        "h4",
        "p",
        "b",
        "small",
        "table",
        "caption",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
    }
    assert "onerror=alert" in page
    assert "\x1b" not in page
