"""Acceptance from each source, in order, and refused where an identity breaks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from kvantage.analysis.acceptance import Acceptance, emitted_per_step
from kvantage.analysis.analyse import analyse
from kvantage.analysis.identities import accepted_within_drafted, emitted_covers, histogram_fits
from kvantage.core import LogReadings, Reading, Speculation
from tests.analysis.builder import Request, StudyBuilder, drafting, short

MTP = Speculation(method="mtp", drafts=3)
NGRAM = Speculation(method="ngram", drafts=5)
COUNTERS = {
    "drafts": 70.0,
    "drafted_tokens": 210.0,
    "accepted_tokens": 112.0,
    "generation_tokens": 195.0,
}


def acceptance(requests: list[Request], speculation: Speculation = MTP, **cell: Any) -> Acceptance:
    builder = StudyBuilder().arm("arm", speculation)
    builder.cell("arm", "short", "code", 1, requests, **cell)
    return analyse(builder.data()).arms[0].cells[0].acceptance


def test_requests_come_first() -> None:
    found = acceptance(drafting(short([20.0, 20.0]), 3, 2.5), counters=COUNTERS)
    assert found.per_drafting_step.source == "request"
    assert found.per_drafting_step.value == pytest.approx(64 / 26)
    assert found.per_decode_step.value == pytest.approx(64 / 26)
    assert found.rate.value == pytest.approx(38 / 78)
    assert found.highest_length.source == "request"


def test_counters_come_second() -> None:
    found = acceptance(short([20.0, 20.0], told=False), counters=COUNTERS, positions=(56.0, 35.0, 21.0))
    assert found.per_drafting_step.source == "counter delta"
    assert found.per_drafting_step.value == pytest.approx(2.6)
    assert [share.value for share in found.per_position] == [0.8, 0.5, 0.3]
    assert 1 + sum(share.value or 0 for share in found.per_position) == pytest.approx(2.6)
    assert "1 warm-up requests are inside" in (found.per_drafting_step.note or "")


def test_log_windows_come_third_and_tell_the_highest() -> None:
    windows = ({"acceptance_length": 2.0, "draft_acceptance_rate": 0.4}, {"acceptance_length": 3.0})
    found = acceptance(short([20.0, 20.0], told=False), log=LogReadings({}, windows))
    assert found.per_drafting_step.source == "log window"
    assert found.per_drafting_step.value == pytest.approx(2.5)
    assert found.highest_length.value == 3.0
    assert found.highest_rate.value == 0.4
    assert not found.per_decode_step.known


def test_a_gauge_comes_last() -> None:
    readings = {"acceptance_length": Reading.of(2.2, "tokens/step", "gauge")}
    found = acceptance(short([20.0, 20.0], told=False), log=LogReadings(readings))
    assert found.per_drafting_step.source == "gauge"


def test_steps_without_a_draft_are_counted() -> None:
    """Of 40 steps 10 drafted and accepted 24: 3.4 tokens a drafting step, 1.6 a step."""
    requests = short([20.0, 20.0], told=False)
    requests = [replace(each, steps=10, accepted=24, drafted=50) for each in requests]
    found = acceptance(requests, NGRAM)
    assert found.per_drafting_step.value == pytest.approx(3.4)
    assert found.per_decode_step.value == pytest.approx(64 / 40)
    assert found.length == found.per_decode_step


def test_histograms_give_positions() -> None:
    requests = [replace(each, histogram=(10, 6, 6, 4)) for each in drafting(short([20.0, 20.0]), 3, 2.5)]
    requests = [replace(each, accepted=30, steps=26) for each in requests]
    found = acceptance(requests)
    assert [share.value for share in found.per_position] == pytest.approx([16 / 26, 10 / 26, 4 / 26])
    assert found.per_drafting_step.value == pytest.approx(1 + sum(s.value or 0 for s in found.per_position))


def test_a_histogram_that_does_not_sum_is_refused() -> None:
    requests = [replace(each, histogram=(1, 1)) for each in drafting(short([20.0, 20.0]), 3, 2.5)]
    found = acceptance(requests)
    assert found.per_position == ()
    assert found.refused[0].startswith("request: the acceptance histogram holds 4 steps")


def test_impossible_counts_are_refused_and_the_next_source_serves() -> None:
    requests = [replace(each, accepted=90) for each in drafting(short([20.0, 20.0]), 3, 2.5)]
    found = acceptance(requests, counters=COUNTERS)
    assert found.per_drafting_step.source == "counter delta"
    assert found.refused[0] == "request: 180 accepted drafts of 156 proposed is impossible"


def test_merged_chunks_do_not_lengthen_a_step() -> None:
    requests = [replace(each, sizes=(1, *(8,) * 8)) for each in drafting(short([20.0, 20.0]), 3, 2.5)]
    found = acceptance(requests)
    assert found.per_decode_step.value == pytest.approx(64 / 26)
    assert found.per_decode_step.source == "request"
    assert found.refused == ("chunks: one carried 8 tokens, more than a step's 4",)


def test_split_chunks_do_not_shorten_a_step() -> None:
    requests = [replace(each, sizes=(1,) * 65) for each in drafting(short([20.0, 20.0]), 3, 2.5)]
    found = acceptance(requests)
    assert found.per_decode_step.value == pytest.approx(64 / 26)
    assert found.refused[0].startswith("chunks: 1.00 tokens a chunk, fewer than")


def test_a_control_has_none() -> None:
    found = acceptance(short([20.0, 20.0]), Speculation())
    assert found.length.missing == "nothing drafts in this arm"


@given(
    steps=some.integers(1, 500),
    drafting_steps=some.integers(0, 500),
    accepted=some.integers(0, 2000),
    requests=some.integers(1, 20),
)
def test_emitted_per_step_inverts_the_identity(
    steps: int, drafting_steps: int, accepted: int, requests: int
) -> None:
    """output = requests (prefill) + steps + accepted, whatever share of the steps drafted."""
    output = requests + steps + accepted
    assert emitted_per_step(output, accepted, requests) == pytest.approx((steps + accepted) / steps)
    assert emitted_covers(accepted, min(steps, drafting_steps), output, 0) is None


def test_identities() -> None:
    assert histogram_fits((3, 2, 1), 6, 4) is None
    assert histogram_fits((3, 2, 1), None, None) is None
    assert "the server counts 5" in (histogram_fits((3, 2, 1), 6, 5) or "")
    assert accepted_within_drafted(3, 3) is None
    assert accepted_within_drafted(4, 3) is not None
    assert emitted_covers(10, 5, 14, 0) is not None
    assert emitted_covers(10, 5, 14, 1) is None
