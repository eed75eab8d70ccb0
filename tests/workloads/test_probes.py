"""Probes: a fixed set, and judges that take the right answer and no other."""

import json
import struct
import zlib
from typing import Any

import pytest

from kvantage.workloads.picture import COLOURS, SHAPES, draw
from kvantage.workloads.probes import Probe, probes


def right(probe: Probe) -> tuple[str, list[dict[str, Any]]]:
    if probe.kind == "arithmetic":
        return f"{probe.expected}", []
    if probe.kind == "json":
        return json.dumps(probe.expected), []
    if probe.kind == "tool":
        arguments = json.dumps(probe.expected["arguments"])
        return "", [{"function": {"name": probe.expected["name"], "arguments": arguments}}]
    return "A " + " ".join(probe.expected) + ".", []


def test_the_set_is_fixed_and_right_answers_pass() -> None:
    made = probes()
    assert made == probes()
    assert {p.kind for p in made} == {"arithmetic", "json", "tool", "image"}
    assert len({p.id for p in made}) == len(made)
    for probe in made:
        text, calls = right(probe)
        assert probe.judge(text, calls, "stop").passed, probe


def test_wrong_answers_fail_and_say_why() -> None:
    by_kind = {p.kind: p for p in probes()}
    assert by_kind["arithmetic"].judge("It is 1.").status == "fail"
    assert by_kind["arithmetic"].judge("no idea").why.startswith("no number")
    assert by_kind["json"].judge("{").why.startswith("not JSON")
    changed = {**by_kind["json"].expected, "extra": 1}
    assert by_kind["json"].judge(json.dumps(changed)).status == "fail"
    assert by_kind["json"].judge(f"```json\n{json.dumps(by_kind['json'].expected)}\n```").passed
    tool = by_kind["tool"]
    _, calls = right(tool)
    assert tool.judge("", calls + calls).status == "fail"
    calls[0]["function"]["name"] = "other"
    assert "called other" in tool.judge("", calls).why
    assert tool.judge("I would call a tool.").status == "fail"
    assert by_kind["image"].judge("a purple star").status == "fail"


def test_an_empty_answer_is_void_only_when_the_budget_ran_out() -> None:
    for probe in probes():
        assert probe.judge("", None, "length").status == "void"
        assert probe.judge(None, [], "stop").status == "fail"


@pytest.mark.parametrize("shape", SHAPES)
def test_pictures_are_png_with_the_colour_in_the_middle(shape: str) -> None:
    png = draw(shape, "red", 64)
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    size = struct.unpack(">I", png[33:37])[0]
    rows = zlib.decompress(png[41 : 41 + size])
    assert len(rows) == 64 * (1 + 3 * 64)
    middle = 32 * (1 + 3 * 64) + 1 + 3 * 32
    assert tuple(rows[middle : middle + 3]) == COLOURS["red"]
    assert rows[1:4] == b"\xff\xff\xff"


def test_an_unknown_picture_is_refused() -> None:
    with pytest.raises(ValueError, match="can't draw"):
        draw("star", "red")
