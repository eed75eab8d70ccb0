"""report.html as text: one file, nothing remote, nothing executable but ours; and what a section promises."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvantage.analysis import analyse
from kvantage.analysis.front import on_front
from kvantage.report import report_html
from kvantage.report.blocks import Figure, figures, slug
from kvantage.report.charts.drawing import specification, write_pictures
from kvantage.report.charts.theme import ARMS, GROUND, PARTS, colour_places, filled
from kvantage.report.html import read_sections
from kvantage.report.html.places import levels
from kvantage.report.html.sections import SECTIONS
from kvantage.report.summary import summary_markdown
from tests.analysis.builder import StudyBuilder, two_arms
from tests.report.studies import EVIL, every_phase, everything, hostile


class Tags(HTMLParser):
    """Every tag with its attributes, and the text of the scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.inside: dict[str, list[str]] = {"script": [], "style": []}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] in self.inside and self.cdata_elem:
            self.inside[self.tags[-1][0]].append(data)


@pytest.fixture(scope="module")
def page() -> str:
    return report_html(everything())


def drawn() -> list[Figure]:
    return list(_figures(everything()))


def test_it_is_one_file_that_reaches_nothing(page: str) -> None:
    tags = Tags(page).tags
    for tag, attributes in tags:
        assert not {"src", "srcset", "background", "action", "onload", "onerror"} & attributes.keys(), tag
        assert (attributes.get("href") or "#").startswith("#"), attributes
        assert "style" not in attributes, tag
        assert tag not in ("link", "base", "iframe", "object", "embed", "img")


def test_its_policy_allows_these_scripts_and_no_other(page: str) -> None:
    found = Tags(page)
    meta = next(attributes for tag, attributes in found.tags if tag == "meta" and "http-equiv" in attributes)
    policy = str(meta["content"])
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    for kind in ("script", "style"):
        texts = re.findall(rf"<{kind}>(.*?)</{kind}>", page, re.DOTALL)
        assert len(texts) == {"script": 2, "style": 1}[kind]
        for text in texts:
            digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
            assert f"'sha256-{digest}'" in policy


def test_the_shipped_size(page: str) -> None:
    assert len(page.encode()) < 3 * 1024**2


def test_hostile_text_is_text(page: str) -> None:
    text = report_html(hostile())
    allowed = {tag for tag, _ in Tags(page).tags}
    assert {tag for tag, _ in Tags(text).tags} <= allowed
    ours = re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)
    assert "<img" not in ours
    assert "\u202e" not in text
    payloads = re.findall(r'<script type="application/json">(.*?)</script>', text, re.DOTALL)
    assert len(payloads) == len(list(_figures(hostile())))
    for payload in payloads:
        assert "<" not in payload
        json.loads(payload)


def _figures(findings: Any) -> Iterator[Figure]:
    for section in read_sections(findings):
        yield from figures(section.blocks)


@given(st.text(max_size=80))
def test_no_name_breaks_a_page(name: str) -> None:
    """Whatever an arm is called, its figure's name is a file's name, and two names stay two."""
    assert re.fullmatch(r"wave-[a-z0-9_-]*", slug("wave", name) + "")
    assert slug("wave", name) != slug("wave", name + "x")


@pytest.mark.parametrize("builder", [StudyBuilder({}), StudyBuilder().arm("none"), two_arms()])
def test_what_did_not_run_is_absent(builder: StudyBuilder) -> None:
    names = [section.name for section in read_sections(analyse(builder.data()))]
    assert "first-tokens" not in names
    assert "sweep" not in names
    assert names[-2:] == ["limits", "paste"]
    assert report_html(analyse(builder.data())).endswith("</html>\n")


def test_every_phase_has_its_section() -> None:
    sections = read_sections(everything())
    assert len(sections) == len(SECTIONS)
    assert len({section.name for section in sections}) == len(sections)


def test_names_are_anchors_and_each_is_there_once(page: str) -> None:
    ids = [attributes["id"] for _, attributes in Tags(page).tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    for _, attributes in Tags(page).tags:
        if (attributes.get("href") or "").startswith("#"):
            assert str(attributes["href"])[1:] in ids


def _axes(spec: Any) -> Iterator[str]:
    """The titles of every axis of numbers."""
    if isinstance(spec, list):
        for each in spec:
            yield from _axes(each)
    elif isinstance(spec, dict):
        for channel in ("x", "y"):
            encoded = spec.get("encoding", {}).get(channel, {})
            if encoded.get("type") == "quantitative" and "title" in encoded:
                yield encoded["title"]
        for value in spec.values():
            yield from _axes(value)


def test_every_axis_of_numbers_says_its_unit() -> None:
    for figure in drawn():
        titles = list(_axes(specification(figure)))
        assert titles, figure.name
        for title in titles:
            assert re.search(r"\(.+\)$|sessions of", title), (figure.name, title)


def test_every_figure_has_words_and_rows() -> None:
    for figure in drawn():
        assert len(figure.title.split()) > 3, "it says what to see"
        assert len(figure.alt) > len("a chart")
        numbers = {name for row in figure.rows for name, value in row.items() if isinstance(value, float)}
        assert numbers & set(figure.units), "a number has a unit"


def test_colours_are_told_from_the_ground() -> None:
    """3:1 at least (WCAG 2.2, 1.4.11), in both themes; what is free may be faint."""
    for theme, ground in GROUND.items():
        for colour in (*ARMS[theme], *PARTS[theme][:3]):
            assert _contrast(colour, ground) >= 3, (theme, colour)


def _contrast(one: str, other: str) -> float:
    """WCAG's ratio of relative luminances."""

    def luminance(colour: str) -> float:
        parts = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
        red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    lights = sorted((luminance(one), luminance(other)))
    return (lights[1] + 0.05) / (lights[0] + 0.05)


def test_an_arm_keeps_its_colour_and_the_control_has_the_first() -> None:
    assert colour_places("none", ["mtp", "none", "dflash"]) == {"none": 0, "mtp": 1, "dflash": 2}
    many = colour_places("none", [f"arm{n}" for n in range(20)])
    assert 0 not in [place for arm, place in many.items() if arm != "none"]


def test_a_picture_names_no_variable(tmp_path: Path) -> None:
    chosen = [each for each in drawn() if each.name in ("pool-cost", "pareto-front")]
    paths = write_pictures(chosen, tmp_path / "charts")
    assert sorted(path.name for path in paths) == sorted(
        f"{each.name}.{ending}" for each in chosen for ending in ("svg", "png")
    )
    for path in paths:
        content = path.read_bytes()
        if path.suffix == ".png":
            assert content.startswith(b"\x89PNG")
        else:
            assert b"var(--" not in content
            assert b"mtp" in content


def test_colours_are_filled_in_and_nothing_else() -> None:
    spec = {"color": "var(--arm-1)", "domain": ["var(--arm-99)", "x"], "title": "var(--ink) is ink"}
    assert filled(spec, "light") == {**spec, "color": ARMS["light"][1]}


def test_the_front() -> None:
    assert on_front([(4, 1), (2, 2), (1, 1)]) == [True, True, False]
    assert on_front([(1, 1), (1, 1)]) == [True, True]
    assert on_front([(1, 2), (1, 1)]) == [True, False]
    assert on_front([]) == []


@given(st.lists(st.tuples(st.floats(0, 9), st.floats(0, 9)), min_size=1, max_size=12))
def test_what_is_not_on_the_front_is_beaten_by_what_is(points: list[tuple[float, float]]) -> None:
    front = on_front(points)
    assert any(front)
    best = [point for point, on in zip(points, front, strict=True) if on]
    for (x, y), on in zip(points, front, strict=True):
        if not on:
            assert any(a >= x and b >= y and (a, b) != (x, y) for a, b in best)


def test_levels_that_differ_in_numbers_are_said_once() -> None:
    told = ["95 % over 4 requests", "95 % over 15 requests", "no interval", "95 % over 4 requests"]
    assert levels(told) == "95 % over 4 to 15 requests; or no interval"
    assert levels([]) == ""


def test_the_summary_pastes_and_is_harmless() -> None:
    text = summary_markdown(analyse(every_phase().data()))
    assert "| Arm | KV pool (tokens) |" in text
    assert "Made up, to try the page." in text
    assert EVIL not in summary_markdown(hostile())
    assert "<img" not in summary_markdown(hostile())
