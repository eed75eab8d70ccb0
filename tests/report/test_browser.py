"""report.html in a real browser: from file://, both widths, both themes, by keyboard, and harmless."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from kvantage.analysis import analyse
from kvantage.report import write_html
from kvantage.report.escape import spelled
from tests.report.chromium import THEMES, WIDTHS, browser, opened
from tests.report.studies import EVIL, bare, everything, hostile

__all__ = ["browser"]

pytestmark = pytest.mark.browser
ROOT = Path(__file__).parents[2]
GALLERY = sorted((ROOT / "docs" / "results").glob("*/*.html"))
MARKS = ", ".join(
    f".plot svg .mark-{mark}" for mark in ("rect path", "symbol path", "line path", "rule line", "text text")
)


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A page with every section, one whose every text is hostile, one of next to nothing."""
    folder = tmp_path_factory.mktemp("pages")
    paths = {name: folder / f"{name}.html" for name in ("every", "hostile", "bare")}
    write_html(everything(), paths["every"])
    write_html(hostile(), paths["hostile"])
    write_html(analyse(bare().data()), paths["bare"])
    return paths


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_it_opens_and_draws_everything(
    browser: Browser, pages: dict[str, Path], width: int, theme: str
) -> None:
    with opened(browser, pages["every"], width, theme) as look:
        look.settle()
        assert look.complaints == []
        assert look.requests == [pages["every"].as_uri()]
        page = look.page
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (
            "the page scrolls sideways"
        )
        charts = page.locator("figure.chart")
        assert charts.count() >= 20
        for place in range(charts.count()):
            assert charts.nth(place).locator(MARKS).count(), charts.nth(place).get_attribute("id")
        grounds = {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 23, 27)"}
        expect(page.locator("html")).to_have_css("background-color", grounds[theme])
        if folder := os.environ.get("KVANTAGE_SCREENSHOTS"):
            page.screenshot(path=Path(folder) / f"every-{width}-{theme}.png", full_page=True)


def test_a_study_without_any_interval_draws_too(browser: Browser, pages: dict[str, Path]) -> None:
    with opened(browser, pages["bare"], 390) as look:
        look.settle()
        assert look.complaints == []


@pytest.mark.parametrize("path", GALLERY, ids=lambda path: path.parent.name)
def test_every_page_of_the_gallery_opens(browser: Browser, path: Path) -> None:
    with opened(browser, path, 390) as look:
        look.settle()
        assert look.complaints == []
        assert look.requests == [path.resolve().as_uri()]
        assert (
            look.page.locator("figure.chart .plot svg").count() == look.page.locator("figure.chart").count()
        )


@pytest.mark.parametrize(("width", "theme"), [(1440, "light"), (390, "dark")])
def test_axe_finds_no_serious_fault(browser: Browser, pages: dict[str, Path], width: int, theme: str) -> None:
    with opened(browser, pages["every"], width, theme) as look:
        look.settle(unfold=False)
        assert serious(look.page) == []
        look.settle()
        # Of what is unfolded the colours are the same, and looking at thousands of cells takes a minute.
        assert serious(look.page, {"color-contrast": {"enabled": False}}) == []


def serious(page: Page, rules: dict[str, Any] | None = None) -> list[str]:
    """The faults that axe-core calls serious or critical."""
    found = Axe().run(page, options={"rules": rules or {}, "resultTypes": ["violations"]}).response
    return [
        f"{each['id']}: {each['nodes'][0]['html'][:200]}"
        for each in found["violations"]
        if each["impact"] in ("serious", "critical")
    ]


def test_the_answer_stands_above_the_fold(browser: Browser, pages: dict[str, Path]) -> None:
    """Arm, cost, speed and certainty without scrolling, at both widths."""
    for width in WIDTHS:
        with opened(browser, pages["every"], width) as look:
            box = look.page.locator(".answer").bounding_box()
            assert box is not None
            assert box["y"] + box["height"] < 900
            expect(look.page.locator(".answer .headline")).to_have_text("Serve with mtp")
            expect(look.page.locator(".answer dd").nth(0)).to_contain_text("-6.1 %")
            expect(look.page.locator(".answer dd").nth(2)).to_contain_text("1.42 to 1.57")


def test_the_keyboard_reaches_everything(browser: Browser, pages: dict[str, Path]) -> None:
    with opened(browser, pages["every"]) as look:
        page = look.page
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        reachable = (
            "[...document.querySelectorAll('a[href], button, summary, [tabindex=\"0\"]')]"
            ".filter((it) => it.checkVisibility()).length"
        )
        seen = set()
        for _ in range(page.evaluate(reachable) + 5):
            page.keyboard.press("Tab")
            seen.add(
                page.evaluate(
                    "(() => { const it = document.activeElement; it.dataset.seen ??= String(Math.random());"
                    " return it.dataset.seen; })()"
                )
            )
        assert len(seen) >= page.evaluate(reachable) - 1
        fold = page.locator("details.data summary").first
        fold.focus()
        page.keyboard.press("Enter")
        expect(page.locator("details.data").first.locator("table")).to_be_visible()


def test_a_chart_hands_out_its_data(browser: Browser, pages: dict[str, Path], tmp_path: Path) -> None:
    with opened(browser, pages["hostile"], accept_downloads=True) as look:
        figure = look.page.locator("figure#pool-cost")
        figure.locator("details.data").evaluate("(it) => (it.open = true)")
        with look.page.expect_download() as download:
            figure.locator("button.download").click()
        path = tmp_path / download.value.suggested_filename
        download.value.save_as(path)
    assert path.name == "pool-cost.csv"
    head, *rows = list(csv.reader(io.StringIO(path.read_text(encoding="utf-8"))))
    assert "change (% of the control's pool)" in head
    assert rows[0][head.index("arm")] == spelled(EVIL)


def test_a_name_is_no_formula(browser: Browser, pages: dict[str, Path]) -> None:
    """A spreadsheet that opens the data calls nothing."""
    with opened(browser, pages["every"]) as look:
        figure = look.page.locator("figure#pool-cost")
        figure.evaluate(
            "(it) => { const data = it.querySelector('script'); data.textContent = "
            "JSON.stringify({...JSON.parse(data.textContent), rows: [{arm: '=1+1', change: -2}]}); }"
        )
        figure.locator("details.data").evaluate("(it) => (it.open = true)")
        with look.page.expect_download() as download:
            figure.locator("button.download").click()
        assert "'=1+1,-2" in Path(download.value.path()).read_text(encoding="utf-8")


def test_the_table_is_copied(browser: Browser, pages: dict[str, Path]) -> None:
    with opened(browser, pages["every"], permissions=["clipboard-read", "clipboard-write"]) as look:
        button = look.page.locator("#paste button.copy").last
        button.click()
        expect(button).to_contain_text("Copied")
        copied = look.page.evaluate("navigator.clipboard.readText()")
        assert "| Arm | KV pool (tokens) |" in copied


def test_markup_from_anywhere_changes_nothing(browser: Browser, pages: dict[str, Path]) -> None:
    with opened(browser, pages["hostile"], 390) as look, opened(browser, pages["every"], 390) as plain:
        for each in (look, plain):
            each.settle()
        assert look.complaints == []
        assert look.requests == [pages["hostile"].as_uri()]
        assert look.page.title() == f"{spelled(EVIL).rsplit('/')[-1]}: 3 arms on toy"
        count = "(tag) => document.querySelectorAll(tag).length"
        for tag in (
            "script",
            "style",
            "img",
            "iframe",
            "object",
            "embed",
            "link",
            "form",
            "figure",
            "section",
        ):
            assert look.page.evaluate(count, tag) == plain.page.evaluate(count, tag), tag
        handlers = "[...it.attributes].some((attribute) => attribute.name.startsWith('on'))"
        assert not look.page.evaluate(f"[...document.querySelectorAll('*')].some((it) => {handlers})")
        expect(look.page.locator(".answer .headline")).to_be_visible()
        expect(look.page.locator(".answer .headline")).to_contain_text("</script><img src=x")
        assert "\u202e" not in look.page.content()


def test_a_tooltip_shows_text(browser: Browser, pages: dict[str, Path]) -> None:
    with opened(browser, pages["hostile"]) as look:
        look.settle(unfold=False)
        bar = look.page.locator("#pool-cost .plot svg .mark-rect path").first
        bar.scroll_into_view_if_needed()
        bar.hover()
        tip = look.page.locator(".tip")
        expect(tip).to_be_visible()
        expect(tip).to_contain_text("</script><img src=x")
        assert tip.locator("img").count() == 0
        assert look.complaints == []


@pytest.fixture
def printed(browser: Browser, pages: dict[str, Path], tmp_path: Path) -> Iterator[bytes]:
    with opened(browser, pages["every"], theme="dark") as look:
        look.settle(unfold=False)
        yield look.page.pdf(format="A4")


def test_it_prints_on_white(printed: bytes) -> None:
    """Of a dark page too; and the printout is not one long blank."""
    assert printed.startswith(b"%PDF")
    assert 3 <= printed.count(b"/Type /Page\n") <= 60
