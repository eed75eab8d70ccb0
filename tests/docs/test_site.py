"""The documentation as a site builds strictly and fetches nothing; what it pastes is what is kept."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import nbformat
import pytest
from scripts.run_notebook import NOTEBOOK, executed
from scripts.terminal_outputs import KEPT, MARK

from kvantage.cli import cli
from kvantage.frames import dictionary_markdown
from kvantage.study import reference
from tests.docs.commands import ROOT


class Fetched(HTMLParser):
    """What a page makes a browser fetch by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.urls: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        held = dict(attrs)
        if tag in ("script", "img", "iframe", "source", "audio", "video"):
            self.urls.append(held.get("src") or "")
        if tag == "link" and held.get("rel") in (
            "stylesheet",
            "preload",
            "preconnect",
            "icon",
            "modulepreload",
        ):
            self.urls.append(held.get("href") or "")


@pytest.mark.timeout(300)
def test_the_site_builds_strictly_and_fetches_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    pages = sorted((tmp_path / "site").rglob("*.html"))
    assert len(pages) > 25
    for page in pages:
        text = page.read_text(encoding="utf-8")
        fetched = Fetched()
        fetched.feed(text)
        remote = [url for url in fetched.urls if re.match(r"(https?:)?//", url)]
        assert not remote, f"{page.name}: {remote}"
    names = {page.relative_to(tmp_path / "site").as_posix() for page in pages}
    assert {"python.html", "notebooks/a-run.html", "repository/CONTRIBUTING.html"} <= names
    assert "run_study" in (tmp_path / "site" / "python.html").read_text(encoding="utf-8")


def test_what_a_page_shows_of_a_terminal_is_what_was_kept() -> None:
    shown: dict[str, str] = {}
    for page in (ROOT / "docs").glob("*.md"):
        for match in MARK.finditer(page.read_text(encoding="utf-8")):
            assert match["text"] == (KEPT / match["name"]).read_text(encoding="utf-8"), (
                f"{page.name}: {match['name']}"
            )
            shown[match["name"]] = page.name
    assert set(shown) == {path.name for path in KEPT.iterdir()}
    assert not [path.name for path in KEPT.iterdir() if re.search(r"/(?:work|tmp|root)/", path.read_text())]


def test_every_text_that_is_pasted_says_what_it_is_from() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        text = page.read_text(encoding="utf-8")
        for block in re.finditer(r"^(?P<before>[^\n]*)\n```text\n", text, re.M):
            line = text.count("\n", 0, block.start()) + 2
            assert re.match(r"<!-- (real output|source): .+ -->", block["before"]), f"{page.name}:{line}"


def test_the_page_of_every_field_is_the_schemas() -> None:
    page = (ROOT / "docs" / "study-reference.md").read_text(encoding="utf-8")
    assert page == reference.page(), (
        "write it anew: python -m kvantage.study.reference docs/study-reference.md"
    )


def test_the_data_dictionary_is_on_its_page() -> None:
    assert (ROOT / "docs" / "export.md").read_text(encoding="utf-8").endswith(dictionary_markdown("##"))


def test_every_command_is_on_the_page_of_the_command_line() -> None:
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    assert [name for name in cli.entries if f"| `{name}` |" not in page] == []  # type: ignore[attr-defined]


@pytest.mark.timeout(300)
def test_the_notebook_runs_and_is_kept_as_it_ran(tmp_path: Path) -> None:
    kept = nbformat.read(NOTEBOOK, as_version=4)
    code = [cell for cell in kept.cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in code), "run it: python scripts/run_notebook.py"
    assert all(cell.outputs for cell in code[1:])
    assert not re.search(r"/(?:work|tmp|root)/", NOTEBOOK.read_text())
    again = executed(NOTEBOOK, tmp_path)
    ran = [cell for cell in again.cells if cell.cell_type == "code"]
    assert [len(cell.outputs) for cell in ran] == [len(cell.outputs) for cell in code]
    assert "SIMULATED" in str(ran[2].outputs)
