"""Speeds whose truth is given."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from kvantage.analysis.analyse import analyse
from kvantage.analysis.measure import CellFindings
from kvantage.analysis.speed import FIRST_CHUNK_NOTE, busy_spans, most_at_once
from tests.analysis.builder import STUDY, Request, StudyBuilder, short, wave


def measured(
    requests: list[Request], phase: str = "short", concurrency: int = 1, output: int = 65
) -> CellFindings:
    study = {**STUDY, "phases": {**STUDY["phases"], phase: {"output_tokens": output}}}
    builder = StudyBuilder(study).arm("none")
    builder.cell("none", phase, "code", concurrency, requests)
    cell = analyse(builder.data()).arm("none").cells[0]
    assert cell.ok, cell.status
    return cell


@settings(max_examples=25, deadline=None)
@given(rate=some.floats(1.0, 500.0), block=some.integers(1, 9), output=some.integers(20, 90))
def test_long_blocks_gain_nothing(rate: float, block: int, output: int) -> None:
    """(n - 1) / (t_last - t_first) would read +19 % at 32 tokens in chunks of 6."""
    cell = measured(short([rate, rate], output=output, block=block), output=output)
    assert cell.speed.decode.value == pytest.approx(rate, rel=1e-6)
    assert cell.speed.steady.value == pytest.approx(rate, rel=1e-6)


def test_an_untold_first_chunk_is_said() -> None:
    cell = measured(short([20.0, 20.0], block=6, output=32, told=False), output=32)
    assert cell.speed.decode.note == FIRST_CHUNK_NOTE
    assert cell.speed.decode.value == pytest.approx(20.0 * 31 / 26)


def test_the_median_and_not_the_warmup() -> None:
    cell = measured(short([20.0, 30.0, 22.0]))
    assert cell.speed.decode.value == pytest.approx(22.0)
    assert (cell.requests.value, cell.warmups.value) == (3, 1)


def test_end_to_end_holds_prefill_and_steady_does_not() -> None:
    cell = measured(short([20.0, 20.0], ttft_s=3.2))
    assert cell.speed.end_to_end.value == pytest.approx(65 / 6.4)
    assert cell.speed.decode.value == pytest.approx(20.0)
    assert cell.speed.ttft.value == pytest.approx(3.2)
    assert cell.speed.itl_token.value == pytest.approx(0.05)


def test_gaps_of_chunks_and_of_tokens() -> None:
    cell = measured(short([20.0, 20.0], block=4, output=65))
    assert cell.speed.itl_token.value == pytest.approx(0.05)
    assert cell.speed.itl_chunk.value == pytest.approx(61 / 20 / 16)
    assert cell.notes == ()


def test_aggregate_with_the_ramp_cut() -> None:
    requests = [
        replace(each, ttft_s=0.5 + each.stream, rate=10.0 + each.stream) for each in wave(10.0, 3, 65)
    ]
    cell = measured(requests, "cold", 3)
    assert cell.speed.steady.value == pytest.approx(10 + 11 + 12, rel=0.03)
    assert cell.speed.end_to_end.value == pytest.approx(3 * 65 / (2.5 + 64 / 12), rel=0.03)


def test_two_waves_are_not_one() -> None:
    first = wave(10.0, 2, 65)
    second = [
        replace(each, sent_s=100.0, prompt_id=f"{each.prompt_id}b") for each in wave(20.0, 2, 65, repeat=1)
    ]
    cell = measured([*first, *second], "cold", 2)
    assert cell.speed.steady.value == pytest.approx(2 * 2 * 64 / (6.4 + 3.2))
    assert cell.speed.end_to_end.value == pytest.approx(4 * 65 / (6.6 + 3.4))


def test_the_first_of_a_shape_is_left_out_and_shown() -> None:
    requests = short([20.0, 20.0, 20.0, 20.0])[1:]
    requests = [replace(each, ttft_s=2.3, sent_s=100.0 + 10 * place) for place, each in enumerate(requests)]
    requests[0] = replace(requests[0], ttft_s=39.6, sent_s=0.0)
    cell = measured(requests)
    assert cell.speed.ttft.value == pytest.approx(2.3)
    assert len(cell.speed.excluded) == 1
    assert cell.speed.excluded[0].prompt_id == "code-1"
    assert "39.6 s" in cell.speed.excluded[0].why


def test_a_slow_first_of_two_is_kept() -> None:
    requests = [replace(each, sent_s=each.sent_s + 100) for each in short([20.0, 20.0])[1:]]
    requests[0] = replace(requests[0], ttft_s=30.0, sent_s=0.0)
    assert measured(requests).speed.excluded == ()


@given(
    spans=some.lists(
        some.tuples(some.integers(0, 50), some.integers(1, 30)).map(lambda s: (s[0], s[0] + s[1])),
        min_size=1,
        max_size=12,
    ),
    least=some.integers(1, 4),
)
def test_busy_spans_by_counting(spans: list[tuple[int, int]], least: int) -> None:
    starts = np.array([start for start, _ in spans], dtype=np.int64)
    ends = np.array([end for _, end in spans], dtype=np.int64)
    opened, closed = busy_spans(starts, ends, least)
    by_hand = [sum(start <= t < end for start, end in spans) for t in range(100)]
    assert int((closed - opened).sum()) == sum(number >= least for number in by_hand)
    assert most_at_once(starts, ends, np.zeros(len(starts), dtype=np.int64)).tolist() == [max(by_hand)]


@given(
    some.lists(
        some.tuples(some.integers(0, 3), some.integers(0, 50), some.integers(1, 30)), min_size=1, max_size=20
    )
)
def test_most_at_once_by_group(spans: list[tuple[int, int, int]]) -> None:
    groups, starts, lengths = (np.array(each, dtype=np.int64) for each in zip(*spans, strict=True))
    by_hand = [
        max(sum(s <= t < s + length for g, s, length in spans if g == group) for t in range(100))
        for group in sorted(set(groups.tolist()))
    ]
    assert most_at_once(starts, starts + lengths, groups).tolist() == by_hand
