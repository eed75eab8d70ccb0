"""Whatever a file holds, it is read or left alone; nothing raises, and every number is finite."""

from __future__ import annotations

import json
import math
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kvantage.inspection.gather import combine, read_text
from kvantage.inspection.show import to_json, to_text
from tests.engines.cases import DATA
from tests.engines.sglang.test_fuzz import JSON

TEXTS = [
    path.read_text(encoding="utf-8")[:6000]
    for path in sorted(DATA.glob("captures/*/*"))
    if not path.name.startswith("help_")
]
NAMES = st.sampled_from(
    [
        "usage",
        "choices",
        "timings",
        "metrics",
        "meta_info",
        "sglext",
        "internal_states",
        "memory_usage",
        "vllm_config",
        "default_generation_settings",
        "architectures",
        "model_type",
        "error",
        "data",
        "object",
        "speculative_decoding",
        "message",
        "delta",
    ]
)
ANSWERS = st.recursive(
    st.dictionaries(NAMES, JSON, max_size=4),
    lambda inner: st.dictionaries(NAMES, inner | st.lists(inner, max_size=2), max_size=4),
    max_leaves=8,
)


def read(text: str) -> None:
    found = combine(read_text("x", text))
    to_text(found)
    for reading, _ in found.values.values():
        assert reading.value is None or math.isfinite(reading.value)
    json.dumps(to_json(found), allow_nan=False)


@settings(max_examples=120, deadline=None)
@given(st.sampled_from(TEXTS), st.integers(0, 6000), st.integers(0, 6000), st.text(max_size=12))
def test_a_spoiled_capture(text: str, start: int, end: int, mark: str) -> None:
    read(text[: min(start, end)] + mark + text[max(start, end) :])


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(TEXTS), st.sampled_from(TEXTS), st.sampled_from(["\r\n", "\u2028", "\r", "\n\n", "\x00"])
)
def test_captures_run_together(one: str, other: str, between: str) -> None:
    read(one.replace("\n", between)[:3000] + other[:3000])


@settings(max_examples=150, deadline=None)
@given(ANSWERS | st.lists(ANSWERS, max_size=3))
def test_any_json(value: Any) -> None:
    read(json.dumps(value))


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.sampled_from(["data:", "data: {}", "{", "[", "vllm:x 1", "# HELP ", "\n", "0.1 data: [1]"]))
)
def test_any_beginning(parts: list[str]) -> None:
    read("\n".join(parts))
