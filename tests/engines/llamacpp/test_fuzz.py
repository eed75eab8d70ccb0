"""Whatever a log, a dump or an answer is turned into, nothing raises and no number is invented."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kvantage.engines.llamacpp.help import read_help
from kvantage.engines.llamacpp.lines import read_lines
from kvantage.engines.llamacpp.log import read_log
from kvantage.engines.llamacpp.metrics import look, snapshot
from kvantage.engines.llamacpp.scan import scan
from kvantage.engines.llamacpp.timings import timings_of
from kvantage.engines.llamacpp.usage import read_usage
from tests.engines.cases import capture, case
from tests.engines.sglang.test_fuzz import JSON

LINES = [
    line
    for line in capture("llamacpp-b10434/srv_draft-self.log").split("\n")
    if re.search(r"draft acc|eval time|statistics|kv_cache|n_ctx|n_slots|cached n_tokens|buffer size", line)
][:60] + case("llamacpp-old-rate")[0]
METRICS = capture("llamacpp-b10434/draft-self_metrics.txt")
NUMBER = re.compile(r"\d+(?:\.\d+)?")


@st.composite
def spoiled(draw: st.DrawFn) -> str:
    line = draw(st.sampled_from(LINES))
    way = draw(st.sampled_from(["whole", "cut", "head", "join", "locale", "mark", "crlf"]))
    if way == "cut":
        return line[: draw(st.integers(0, len(line)))]
    if way == "head":
        return line[draw(st.integers(0, len(line))) :]
    if way == "join":
        return line[: draw(st.integers(0, len(line)))] + draw(st.sampled_from(LINES))
    if way == "locale":
        return re.sub(r"(\d)\.(\d)", r"\1,\2", line)
    if way == "mark":
        place = draw(st.integers(0, len(line)))
        return (
            line[:place] + draw(st.sampled_from(["\u2028", "\x00", "\ufffd", "\u0663", "\t"])) + line[place:]
        )
    return line + "\r\n" if way == "crlf" else line


@settings(max_examples=150, deadline=None)
@given(st.lists(spoiled(), max_size=8))
def test_a_spoiled_log(lines: list[str]) -> None:
    read_log(lines)
    printed = {float(found) for line in read_lines(lines) for found in NUMBER.findall(line.text)}
    log = scan(lines)
    for request in log.requests:
        told = (request.accepted, request.drafted, request.length, request.output_tokens, request.tok_s)
        assert {float(value) for value in told if value is not None} <= printed
    assert {float(value) for value in (log.slots, log.slot_context) if value is not None} <= printed
    for statistics in log.statistics.values():
        told_counts = (statistics.gen_drafts, statistics.acc_tokens, statistics.gen_tokens)
        assert {float(value) for value in told_counts if value is not None} <= printed


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(LINES), st.data())
def test_a_cut_line_never_yields_another_number(line: str, data: st.DataObject) -> None:
    whole = {reading.value for reading in read_log([line]).readings.values()}
    cut = read_log([line[: data.draw(st.integers(0, len(line)))]])
    for name, reading in cut.readings.items():
        # A length or a share that lost its end leaves those that need fewer fields.
        assert reading.value in whole or name == "completion_tokens"


@settings(max_examples=100, deadline=None)
@given(st.integers(0, len(METRICS)), st.integers(0, len(METRICS)), st.text(max_size=6))
def test_a_spoiled_dump(start: int, end: int, mark: str) -> None:
    text = METRICS[: min(start, end)] + mark + METRICS[max(start, end) :]
    found = snapshot(text, 1)
    look(text.encode("utf-8", "replace"))
    assert all(value >= 0 for value in found.counters.values())


@settings(max_examples=100, deadline=None)
@given(
    st.dictionaries(st.sampled_from(["usage", "timings", "draft_n", "draft_n_accepted", "predicted_n"]), JSON)
)
def test_any_answer(answer: dict[str, Any]) -> None:
    timings = timings_of(answer)
    assert timings.acceptance_rate is None or 0 <= timings.acceptance_rate <= 1
    usage = read_usage(answer)
    assert usage.accepted_tokens is None or usage.accepted_tokens <= (usage.drafted_tokens or 0)


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=200))
def test_any_help(text: str) -> None:
    assert all(flag.startswith("-") for flag in read_help(text).flags)
