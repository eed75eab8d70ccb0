"""report.html: one file, no network, nothing in it that its text could turn into markup."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from kvantage.analysis.findings import Findings
from kvantage.report.blocks import Figure, Section
from kvantage.report.charts.drawing import runtime, specification
from kvantage.report.charts.theme import ARMS, css_variables
from kvantage.report.escape import spelled
from kvantage.report.html.head import read_head

if TYPE_CHECKING:
    from jinja2 import Template

QUIET = {
    "light": "--quiet:#59626c;--line:#d9dee3;--raised:#f5f7f9;--warn:#8a4b00;--warn-ground:#fff3df;"
    "--bad:#a8261f;--good:#14663f;",
    "dark": "--quiet:#a3acb6;--line:#333a42;--raised:#1d2126;--warn:#ffc46b;--warn-ground:#35270f;"
    "--bad:#ff8f86;--good:#6fdca6;",
}


def read_sections(findings: Findings) -> tuple[Section, ...]:
    """The sections that this study has, in the order of the page: what did not run is absent."""
    from kvantage.report.html.sections import SECTIONS  # brings Altair, which nothing else needs

    made = (section(findings) for section in SECTIONS)
    return tuple(section for section in made if section is not None)


def report_html(findings: Findings) -> str:
    """The text of report.html."""
    from markupsafe import Markup

    sections = read_sections(findings)
    head = read_head(findings, {section.name for section in sections})
    style, script = _style(), f"{_read('page.js')}"
    scripts = (runtime(), script)
    page = _template().render(
        head=head,
        sections=sections,
        policy=_policy(scripts, style),
        style=Markup(style),
        runtime=Markup(scripts[0]),
        script=Markup(scripts[1]),
        payload=_payload,
    )
    return page + "\n"


def _policy(scripts: Sequence[str], style: str) -> str:
    """What the page may do: run these very scripts, use this very style, and reach nothing."""
    allowed = " ".join(_hash(script) for script in scripts)
    return (
        f"default-src 'none'; script-src {allowed}; style-src {_hash(style)}; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _payload(figure: Figure) -> Any:
    """A figure's chart and data as JSON in which no `<` stands, so that no tag can end or begin in it."""
    from markupsafe import Markup

    plain = {
        "spec": specification(figure),
        "rows": [dict(row) for row in figure.rows],
        "units": dict(figure.units),
    }
    text = json.dumps(plain, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return Markup(spelled(text))


@cache
def _style() -> str:
    light, dark = (css_variables(theme) + QUIET[theme] for theme in ("light", "dark"))
    dots = "".join(f".a{place}{{background:var(--arm-{place})}}" for place in range(len(ARMS["light"])))
    scheme = f":root{{color-scheme:light dark;{light}}}"
    scheme += f"@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}"
    return scheme + _read("style.css") + dots


@cache
def _template() -> Template:
    from jinja2 import Environment, StrictUndefined

    made = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=False, finalize=_text)
    return made.from_string(_read("page.html.j2"))


def _text(value: Any) -> Any:
    """Text as it may stand in a page: no control character, whoever wrote it."""
    from markupsafe import Markup

    return spelled(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _read(name: str) -> str:
    return resources.files("kvantage.report.html").joinpath(name).read_text(encoding="utf-8")
