"""How fast a report.html opens in Chromium, and how large it is: studies of 20 and of 2,000 cells, made up.

    .venv/bin/python benchmarks/open_report.py

Times are the median of five fresh browsers, from navigation to: the page parsed and laid out (`load`), the
first screen's charts drawn, every chart that is not folded away drawn. It needs Chromium
(scripts/install-chromium).
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from playwright.sync_api import Browser, sync_playwright
from tests.analysis.builder import STUDY, StudyBuilder, drafting, short, wave
from tests.report.chromium import FLAGS, executable

from kvantage.analysis import analyse
from kvantage.core import Speculation
from kvantage.report import report_html

LIMITS = {20: (1.0, 3.0), 2000: (3.0, 15.0)}
"""Cells: seconds to open, MiB."""
ROUNDS = 5
STATE = """() => {
    const drawn = (it) => ['drawn', 'failed'].includes(it.dataset.state);
    const charts = [...document.querySelectorAll('figure.chart')].filter((it) => it.offsetParent !== null);
    const seen = charts.filter((it) => it.getBoundingClientRect().top < innerHeight);
    return [seen.every(drawn), charts.every(drawn), performance.timing.loadEventEnd > 0];
}"""


def study(arms: int, boots: int, concurrencies: tuple[int, ...]) -> StudyBuilder:
    """Each arm: `boots` boots of two short cells, and a cold wave and its repeat at each concurrency."""
    phases = {**STUDY["phases"], "cold": {**STUDY["phases"]["cold"], "concurrency": list(concurrencies)}}
    builder = StudyBuilder({**STUDY, "phases": phases, "notice": "Made up, to time the page."})
    for number in range(arms):
        name = "none" if number == 0 else f"arm-{number}"
        drafter = None if number == 0 else Speculation(method="mtp", drafts=3)
        for block in range(boots):
            builder.arm(name, drafter, pool=90_000 - 500 * number, block=block)
            rate = 20.0 + number + 0.1 * block
            for workload in ("code", "prose"):
                made = short([rate, rate * 1.01, rate * 0.99], workload)
                made = made if number == 0 else drafting(made, 3, 2.5)
                builder.cell(name, "short", workload, 1, made, block=block)
            for concurrency in concurrencies:
                chain = f"waves@{concurrency}"
                for phase, cached in (("cold", 0), ("repeat", 1984)):
                    expected = (0, 16) if phase == "cold" else (1968, 1984)
                    made = wave(rate, concurrency, 65, cached=cached, expected=expected, prompt=2000)
                    made = made if number == 0 else drafting(made, 3, 2.5)
                    builder.cell(name, phase, "documents", concurrency, made, block=block, chain=chain)
    return builder


def opening(browser: Browser, path: Path) -> tuple[float, float, float]:
    """Seconds to load, to the first screen drawn, to everything drawn."""
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    started = time.perf_counter()
    page.goto(path.as_uri(), wait_until="commit")
    marks = [0.0, 0.0, 0.0]
    while not all(marks):
        seen, every, loaded = page.evaluate(STATE)
        now = time.perf_counter() - started
        for place, done in enumerate((loaded, loaded and seen, loaded and every)):
            if done and not marks[place]:
                marks[place] = now
        page.wait_for_timeout(10)
    page.close()
    return marks[0], marks[1], marks[2]


def main() -> int:
    """Print a row a study; 1 where a limit is passed."""
    path = executable()
    if path is None:
        print("no Chromium: scripts/install-chromium", file=sys.stderr)
        return 2
    slow = False
    print(f"{'cells':>6} {'charts':>7} {'MiB':>6} {'write s':>8} {'load s':>8} {'first s':>8} {'all s':>8}")
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        for builder in (study(2, 1, (1, 2, 3, 4)), study(10, 10, (1, 2, 3, 4, 5, 6, 7, 8, 9))):
            findings = analyse(builder.data())
            report_html(findings)
            started = time.perf_counter()
            text = report_html(findings)
            written = time.perf_counter() - started
            cells = sum(len(arm.cells) for arm in findings.arms)
            file = Path(folder) / f"{cells}.html"
            file.write_text(text, encoding="utf-8")
            times = []
            for _ in range(ROUNDS):
                browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
                times.append(opening(browser, file))
                browser.close()
            load, first, every = (statistics.median(column) for column in zip(*times, strict=True))
            size = file.stat().st_size / 1024**2
            charts = text.count('<figure class="chart"')
            took = " ".join(f"{seconds:>8.2f}" for seconds in (load, first, every))
            print(f"{cells:>6} {charts:>7} {size:>6.1f} {written:>8.1f} {took}")
            seconds, mebibytes = LIMITS[cells]
            slow |= first > seconds or size > mebibytes
    return int(slow)


if __name__ == "__main__":
    sys.exit(main())
