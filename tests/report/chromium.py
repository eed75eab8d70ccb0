"""Debian's Chromium, driven by Playwright: one browser for a file of tests, a fresh page for each look."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
DRAWN = """() => [...document.querySelectorAll('figure.chart')]
    .every((figure) => figure.dataset.state === 'drawn' || figure.offsetParent === null)"""
WIDTHS = (390, 1440)
THEMES = ("light", "dark")


def executable() -> str | None:
    """Chromium's path: CHROMIUM, or where a distribution puts it."""
    return os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


@dataclass
class Look:
    """A page as opened from a file, and everything that it complained of or asked the network for."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def settle(self, unfold: bool = True, seconds: float = 20.0) -> None:
        """Unfold everything and wait until every chart is drawn."""
        if unfold:
            self.page.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")
        for _ in range(int(seconds / 0.05)):
            if self.page.evaluate(DRAWN):
                return
            self.page.wait_for_timeout(50)
        states = "[...document.querySelectorAll('figure.chart')].map((it) => `${it.id} ${it.dataset.state}`)"
        raise AssertionError(f"not drawn after {seconds} s: {self.page.evaluate(states)}; {self.complaints}")


@contextmanager
def opened(
    browser: Browser, file: Path, width: int = 1440, theme: str = "light", **context: Any
) -> Iterator[Look]:
    """The page of `file`, by file://."""
    scheme = "dark" if theme == "dark" else "light"
    with browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, **context
    ) as made:
        page = made.new_page()
        look = Look(page)
        page.on("console", lambda said: look.complaints.append(f"{said.type}: {said.text}"))
        page.on("pageerror", lambda error: look.complaints.append(f"error: {error}"))
        page.on("request", lambda asked: look.requests.append(asked.url))
        page.goto(file.resolve().as_uri())
        yield look


@pytest.fixture(scope="module")  # Playwright's loop runs while it is open, and no other test may find one
def browser() -> Iterator[Browser]:
    """Chromium, or a skip that says how to get it."""
    path = executable()
    if path is None:
        pytest.skip("no Chromium here: scripts/install-chromium, or set CHROMIUM=/path/to/chromium")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield launched
        launched.close()
