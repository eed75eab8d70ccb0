"""The whole: attempts, rechecks, probes, arms that failed, and the cost of many requests."""

from __future__ import annotations

import ast
import time
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kvantage.analysis
from kvantage.analysis.analyse import analyse
from kvantage.analysis.cells import ranges
from kvantage.core import Speculation
from kvantage.core.columns import RequestColumns, StudyData, number_words
from tests.analysis.builder import Request, StudyBuilder, drafting, short, two_arms, wave

MTP = Speculation(method="mtp", drafts=3)


def test_only_the_last_whole_attempt_counts() -> None:
    builder = StudyBuilder().arm("none")
    builder.cell("none", "cold", "documents", 1, wave(99.0, 1, 33), chain="w", attempt=0, complete=False)
    builder.cell("none", "cold", "documents", 1, wave(15.0, 1, 33), chain="w", attempt=1)
    builder.cell("none", "cold", "documents", 1, wave(77.0, 1, 33), chain="w", attempt=2, complete=False)
    cell = analyse(builder.data()).arm("none").cells[0]
    assert cell.speed.decode.value == pytest.approx(15.0)
    assert cell.requests.value == 1
    assert "2 attempts broken off and not used" in cell.notes


def test_a_chain_counts_whole_or_not_at_all() -> None:
    """The cold wave finished, its repeat did not: the attempt's cold wave is not used either."""
    builder = StudyBuilder().arm("none")
    builder.cell("none", "cold", "documents", 1, wave(99.0, 1, 33), chain="w", attempt=0)
    builder.cell("none", "repeat", "documents", 1, wave(99.0, 1, 65), chain="w", attempt=0, complete=False)
    builder.cell("none", "cold", "documents", 1, wave(15.0, 1, 33), chain="w", attempt=1)
    warm = wave(16.0, 1, 65, cached=1984, expected=(1968, 1984))
    builder.cell("none", "repeat", "documents", 1, warm, chain="w", attempt=1)
    cold, repeat = analyse(builder.data()).arm("none").cells
    assert cold.speed.decode.value == pytest.approx(15.0)
    assert repeat.speed.decode.value == pytest.approx(16.0)


def test_void_cells_are_averaged_nowhere() -> None:
    builder = StudyBuilder()
    for block in (0, 1):
        builder.arm("none", block=block)
        builder.cell("none", "short", "code", 1, short([20.0, 20.0], lag_s=float(block)), block=block)
    found = analyse(builder.data())
    assert [cell.ok for cell in found.arm("none").cells] == [True, False]
    assert found.verdict.figure.value == pytest.approx(20.0)
    assert found.verdict.figure.note == "geometric mean of 2"
    assert "1 of 2 cells are void and are averaged nowhere." in found.limits


def test_the_control_looked_at_again() -> None:
    builder = two_arms()
    slower = [replace(each, rate=each.rate * 0.9) for each in short([20.0, 20.2, 19.8])]
    builder.cell("none", "recheck", "code", 1, slower, chain="recheck:later")
    found = analyse(builder.data())
    assert all(cell.key.phase != "recheck" for cell in found.arm("none").cells)
    (drift,) = found.drift
    assert drift.ratio.ratio.value == pytest.approx(0.9)
    assert drift.moved
    assert any("It drifted" in limit for limit in found.limits)


def test_a_steady_control_has_not_drifted() -> None:
    builder = two_arms()
    builder.cell("none", "recheck", "code", 1, short([20.01, 20.19, 19.8]), chain="recheck:later")
    (drift,) = analyse(builder.data()).drift
    assert not drift.moved
    assert drift.words.endswith("no drift seen.")


def test_a_recheck_of_nothing_is_no_proof() -> None:
    builder = two_arms()
    builder.cell("none", "recheck", "code", 1, short([10.0, 30.0, 19.0]), chain="recheck:later")
    assert "too uncertain" in analyse(builder.data()).drift[0].words


def test_probes_are_counted_and_compared_with_the_control() -> None:
    mtp = analyse(two_arms().data()).arm("mtp")
    first = mtp.probes[0]
    assert (first.asked.value, first.passed.value, first.failed.value, first.void.value) == (2, 1, 1, 0)
    assert first.agree.value == 1
    assert first.failures == ("arithmetic-0: fail, 41 instead of 42",)
    assert [probe.concurrency for probe in mtp.probes] == [1, 4]


def test_tool_calls_agree_by_name_and_arguments() -> None:
    builder = StudyBuilder().arm("none").arm("mtp", MTP)
    for name in ("none", "mtp"):
        call = {"id": f"call-{name}", "function": {"name": "f", "arguments": '{"a": 1}'}}
        checks: dict[str, Any] = {"status": "pass", "why": "f", "answer": [call]}
        builder.cell(name, "probes", "tool", 1, [Request(output=3, content="", checks=checks)])
    probe = analyse(builder.data()).arm("mtp").probes[0]
    assert probe.agree.value == 1


def test_void_and_unjudged_probes_are_neither_passed_nor_failed() -> None:
    builder = StudyBuilder().arm("none")
    checks = ({"status": "void", "why": "empty answer"}, {})
    requests = [Request(prompt_id=str(n), output=3, checks=each) for n, each in enumerate(checks)]
    builder.cell("none", "probes", "json", 1, requests)
    probe = analyse(builder.data()).arm("none").probes[0]
    assert (probe.passed.value, probe.failed.value, probe.void.value) == (0, 0, 2)


def test_secrets_recalled() -> None:
    recall = analyse(two_arms().data()).arm("none").recall
    assert [(each.concurrency, each.recalled.value, each.asked.value) for each in recall] == [
        (1, 2, 2),
        (2, 4, 4),
        (4, 4, 8),
    ]


def test_an_arm_that_was_never_started() -> None:
    builder = two_arms()
    builder.boots = [boot for boot in builder.boots if boot.arm != "mtp"]
    builder.windows = [window for window in builder.windows if window.key.arm != "mtp"]
    builder.rows = [row for row in builder.rows if row[0].arm != "mtp"]
    arm = analyse(builder.data()).arm("mtp")
    assert (arm.status, arm.reason) == ("not measured", "it was never started")


def test_an_arm_that_died_halfway_keeps_what_it_finished() -> None:
    builder = two_arms()
    builder.boots[-1] = replace(builder.boots[-1], status="failed", reason="the server died")
    arm = analyse(builder.data()).arm("mtp")
    assert (arm.status, arm.reason) == ("partial", "the server died")
    assert any(cell.ok for cell in arm.cells)


def test_an_empty_study() -> None:
    found = analyse(StudyBuilder({}).data())
    assert found.arms == ()
    assert found.verdict.status == "no policy"


def test_a_simulated_study_says_so_first() -> None:
    builder = two_arms()
    builder.simulated = True
    found = analyse(builder.data())
    assert found.notice is not None
    assert found.notice.startswith("SIMULATED")
    assert any("simulated" in limit for limit in found.limits)


def test_what_happened_is_told_once_an_arm() -> None:
    data = replace(
        two_arms().data(),
        events=(
            {"at": "t", "kind": "warning", "arm": "mtp", "text": "page size was changed"},
            {"at": "u", "kind": "warning", "arm": "mtp", "text": "page size was changed"},
            {"at": "v", "kind": "cache", "arm": "none", "words": "a repeat hit 512 tokens"},
            {"at": "w", "kind": "ready"},
        ),
    )
    found = analyse(data).events
    assert [(each.kind, each.arm, each.text) for each in found] == [
        ("warning", "mtp", "page size was changed"),
        ("cache", "none", "a repeat hit 512 tokens"),
    ]


def test_ranges_and_codes() -> None:
    starts, counts = np.array([5, 0, 9], dtype=np.int64), np.array([2, 0, 3], dtype=np.int64)
    assert ranges(starts, counts).tolist() == [5, 6, 9, 10, 11]
    assert number_words(np.array(["b", "a", "b"])).tolist() == [0, 1, 0]


def test_analysis_does_no_io_and_names_no_engine() -> None:
    for path in Path(kvantage.analysis.__file__).parent.glob("*.py"):
        text = path.read_text(encoding="utf-8")
        for name in ("vllm", "sglang", "llamacpp", "llama.cpp"):
            assert name not in text.lower(), path
        called = {
            node.func.id
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        assert not called & {"open", "print"}, path


def _many(data: StudyData, times: int) -> StudyData:
    """The study's requests, `times` over, as further repeats of the same windows."""
    old, changed = data.requests, {}
    number, chunks = len(old), len(old.chunk_ns)
    for field in fields(RequestColumns):
        value = getattr(old, field.name)
        changed[field.name] = value * times if isinstance(value, tuple) else np.tile(value, times)
    shift = np.repeat(np.arange(times, dtype=np.int64), number)
    changed["repeat"] = changed["repeat"] + 10 * shift
    hours = 3_600_000_000_000
    for name in ("intended_ns", "sent_ns", "first_ns", "first_content_ns", "end_ns"):
        changed[name] = changed[name] + hours * shift
    changed["chunk_ns"] = changed["chunk_ns"] + hours * np.repeat(np.arange(times, dtype=np.int64), chunks)
    offsets = old.chunk_offsets[:-1][None, :] + chunks * np.arange(times, dtype=np.int64)[:, None]
    changed["chunk_offsets"] = np.append(offsets.ravel(), chunks * times)
    windows = tuple(replace(window, delta=None) for window in data.windows)
    return replace(data, requests=RequestColumns(**changed), windows=windows)


def test_ten_thousand_requests_take_no_time() -> None:
    data = two_arms().data()
    many = _many(data, 10_000 // len(data.requests))
    started = time.process_time()
    found = analyse(many)
    assert time.process_time() - started < 2.0
    one = analyse(data)
    for arm, same in zip(found.arms, one.arms, strict=True):
        for cell, small in zip(arm.cells, same.cells, strict=True):
            if small.speed.decode.known:
                assert cell.speed.decode.value == pytest.approx(small.speed.decode.value, rel=1e-6)
                assert cell.speed.steady.value == pytest.approx(small.speed.steady.value, rel=1e-3)


def test_drafting_builder_obeys_its_own_identities() -> None:
    for request in drafting([Request(output=65)], 3, 2.5):
        assert sum(request.chunks) == 65
        assert len(request.chunks) - 1 == request.steps
