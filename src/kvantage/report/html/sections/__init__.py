"""The sections of report.html, in the order of the page.

A section is a file with a function `section(findings)` that returns a Section, or None where what it
shows was not measured. It gives plain text and data; the page escapes and draws.
"""

from __future__ import annotations

from collections.abc import Callable

from kvantage.analysis.findings import Findings
from kvantage.report.blocks import Section
from kvantage.report.html.sections import (
    acceptance,
    answers,
    clocks,
    configuration,
    exactness,
    first_tokens,
    foretold,
    front,
    limits,
    method,
    paste,
    pool,
    speeds,
    sweep,
    trade,
    void,
    waves,
)

SECTIONS: tuple[Callable[[Findings], Section | None], ...] = (
    trade.section,
    front.section,
    pool.section,
    speeds.section,
    acceptance.section,
    waves.section,
    first_tokens.section,
    sweep.section,
    answers.section,
    exactness.section,
    configuration.section,
    clocks.section,
    foretold.section,
    void.section,
    method.section,
    limits.section,
    paste.section,
)
