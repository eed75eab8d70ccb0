"""Whatever a log, a dump or an answer is turned into, nothing raises and no number is invented."""

from __future__ import annotations

import json
import re
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kvantage.engines.sglang.boot import read_boot
from kvantage.engines.sglang.lines import logical_lines, read_report
from kvantage.engines.sglang.log import read_log
from kvantage.engines.sglang.metrics import look, snapshot
from kvantage.engines.sglang.usage import read_usage
from tests.engines.cases import capture, case
from tests.engines.sglang.test_facts import METRICS

CAPTURED = [
    line
    for name in ("s-none", "s-dflash-bf16", "s-glm-mtp")
    for line in capture(f"sglang-0.5.17-h200/{name}.log").split("\n")
    if len(line) < 600 and re.search(r"\d", line)
]
LINES = [
    *CAPTURED[:120],
    case("sglang-decode-ep-prefix")[0][0],
    case("sglang-old-line-trailing-comma")[0],
    case("sglang-effective-vs-requested")[0][1],
    *case("sglang-mamba-cap")[0],
    *case("sglang-mla-kv-size")[0],
    *case("sglang-two-kv-pools-swa")[0],
]
NUMBER = re.compile(r"\d+(?:\.\d+)?")


@st.composite
def spoiled(draw: st.DrawFn) -> str:
    """A line cut, mixed with another, in another locale, with strange marks, or with its fields reordered."""
    line = draw(st.sampled_from(LINES))
    way = draw(
        st.sampled_from(["whole", "cut", "head", "join", "locale", "mark", "shuffle", "unknown", "crlf"])
    )
    if way == "cut":
        return line[: draw(st.integers(0, len(line)))]
    if way == "head":
        return line[draw(st.integers(0, len(line))) :]
    if way == "join":
        other = draw(st.sampled_from(LINES))
        return line[: draw(st.integers(0, len(line)))] + other
    if way == "locale":
        return re.sub(r"(\d)\.(\d)", r"\1,\2", line)
    if way == "mark":
        place = draw(st.integers(0, len(line)))
        mark = draw(st.sampled_from(["\u2028", "\x00", "\x1b[31m", "\ufffd", "\r", "\u0660", "\t", "é"]))
        return line[:place] + mark + line[place:]
    if way == "shuffle":
        return ", ".join(draw(st.permutations(line.split(", "))))
    if way == "unknown":
        return line.replace(", ", ", new-field: 7.5, #newer: x, ", 1)
    return line + "\r\n" if way == "crlf" else line


@settings(max_examples=150, deadline=None)
@given(st.lists(spoiled(), max_size=8))
def test_a_spoiled_log(lines: list[str]) -> None:
    read_log(lines)
    for line in logical_lines(lines):
        report = read_report(line)
        if report is not None:
            printed = {float(found) for found in NUMBER.findall(line.text)}
            told = (report.running, report.queue, report.tokens, report.accept_length, report.throughput)
            assert {float(value) for value in told if value is not None} <= printed
    boot = read_boot(logical_lines(lines))
    printed = {float(found) for line in logical_lines(lines) for found in NUMBER.findall(line.text)}
    assert {value for limits in boot.limits.values() for value in limits.values()} <= printed


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(max_size=80), max_size=6))
def test_any_text(lines: list[str]) -> None:
    told = read_log(lines)
    assert not told.windows
    assert set(told.readings) <= {"boot_s"}


@settings(max_examples=120, deadline=None)
@given(st.integers(0, len(METRICS)), st.integers(0, len(METRICS)), st.text(max_size=6))
def test_a_spoiled_dump(start: int, end: int, mark: str) -> None:
    text = METRICS[: min(start, end)] + mark + METRICS[max(start, end) :]
    found = snapshot(text, 1)
    look(text.encode("utf-8", "replace"))
    for value in (*found.counters.values(), *found.gauges.values()):
        assert value >= 0


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from(
    [
        "usage",
        "sglext",
        "meta_info",
        "choices",
        "completion_tokens",
        "prompt_tokens_details",
        "cached_tokens",
        "spec_tokens_details",
        "spec_verify_ct",
        "spec_num_correct_drafts",
        "spec_correct_drafts_histogram",
        "queue_time",
    ]
)


@settings(max_examples=120, deadline=None)
@given(
    st.recursive(
        st.dictionaries(NAMES, JSON, max_size=4),
        lambda inner: st.dictionaries(NAMES, inner | st.lists(inner, max_size=2), max_size=4),
        max_leaves=6,
    )
)
def test_any_answer(answer: dict[str, Any]) -> None:
    usage = read_usage(answer)
    text = json.dumps(answer, default=str)
    for value in (usage.prompt_tokens, usage.output_tokens, usage.spec_steps):
        assert value is None or str(value) in text or value >= 2**53 or f"{float(value)}" in text
