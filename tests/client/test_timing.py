"""Times as the method defines them."""

from __future__ import annotations

import json
from array import array
from pathlib import Path

import pytest

from kvantage.client import Exchange, StreamReading, chunk_gaps, decode_rate, record, time_stream
from kvantage.core import ChunkTimes, RequestKey, Usage

MS = 1_000_000
CASES = {
    case["id"]: case
    for case in map(json.loads, (Path(__file__).parents[1] / "data" / "cases.jsonl").read_text().splitlines())
}


def steps(count: int, step_ms: float) -> list[int]:
    return [round(place * step_ms * MS) for place in range(count)]


def test_the_first_chunks_tokens_are_not_in_the_rate() -> None:
    # 32 tokens, six a chunk, 100 ms a step: 26 tokens in five steps
    rate, first, guessed = decode_rate(steps(6, 100), [6, 6, 6, 6, 6, 2])
    assert rate == pytest.approx(26 / 0.5)
    assert (first, guessed) == (6, False)
    biased = 31 / 0.5
    assert biased / rate == pytest.approx(1.19, abs=0.01)


def test_chunks_are_never_counted_as_tokens() -> None:
    assert decode_rate(steps(6, 100), [-1] * 6) == (None, None, False)
    rate, first, guessed = decode_rate(steps(6, 100), [-1] * 6, output_tokens=31)
    assert rate == pytest.approx(30 / 0.5)
    assert (first, guessed) == (1, True)


def test_the_servers_count_serves_where_later_chunks_tell_nothing() -> None:
    rate, first, guessed = decode_rate(steps(3, 100), [4, -1, -1], output_tokens=10)
    assert rate == pytest.approx(6 / 0.2)
    assert (first, guessed) == (4, False)


@pytest.mark.parametrize(
    ("times", "tokens", "output"),
    [
        ([], [], 5),
        ([1], [3], 3),
        ([1, 1], [1, 1], None),
        (steps(2, 10), [3, 0], None),
        (steps(2, 10), [-1, -1], 1),
    ],
)
def test_there_is_no_rate_where_none_can_be_told(
    times: list[int], tokens: list[int], output: int | None
) -> None:
    assert decode_rate(times, tokens, output)[0] is None


def test_itl_per_token_times_rate_is_one_and_per_chunk_is_not() -> None:
    case = CASES["sse-itl-inflated"]
    step_ms = case["input"]["median_itl_ms"]
    per_chunk = case["expected"]["inflation"]
    tokens = [1] + [3] * 200 + [2] * 164  # 2.55 tokens a chunk, as the published row's own figures say
    times = steps(len(tokens), step_ms)
    timing = time_stream(
        Exchange(0, 0, 0, times[-1]),
        StreamReading("ok", chunks=ChunkTimes(array("q", times), array("i", tokens))),
    )
    assert timing.decode_tok_s == pytest.approx(case["input"]["output_tps"], rel=0.01)
    assert timing.itl_s is not None
    assert timing.itl_s * 1e3 == pytest.approx(case["expected"]["expected_ms_per_token"], rel=0.01)
    assert timing.itl_s * timing.decode_tok_s == pytest.approx(1)
    assert float(timing.gaps_s.mean()) * timing.decode_tok_s == pytest.approx(per_chunk, rel=0.01)


def test_no_peak_lies_below_the_mean() -> None:
    tokens, times = [1, 4, 1, 6, 2], steps(5, 30)
    rate, _, _ = decode_rate(times, tokens)
    assert rate is not None
    peak = max(count / gap for count, gap in zip(tokens[1:], chunk_gaps(times), strict=True))
    assert peak >= rate
    for given, expected in zip(
        CASES["sse-peak-below-mean"]["input"], CASES["sse-peak-below-mean"]["expected"], strict=True
    ):
        assert given["peak_tps"] / given["mean_tps"] == pytest.approx(expected["ratio"], abs=0.001)
        assert (given["peak_tps"] < given["mean_tps"]) == expected["impossible"]


def test_first_tokens_count_from_the_send_and_from_the_intention() -> None:
    exchange = Exchange(intended_ns=10 * MS, begun_ns=12 * MS, sent_ns=13 * MS, end_ns=99 * MS)
    reading = StreamReading("ok", first_ns=33 * MS, first_content_ns=63 * MS)
    timing = time_stream(exchange, reading)
    assert timing.ttft_s == pytest.approx(0.020)
    assert timing.ttft_content_s == pytest.approx(0.050)
    assert timing.intended_ttft_s == pytest.approx(0.023)
    assert exchange.send_delay_ns == 2 * MS
    assert timing.decode_tok_s is None
    assert timing.gaps_s.size == 0


KEY = RequestKey("a", "f", 0, "short", "code", 1, "c", 0, 0, 0, "p")


def test_a_record_holds_what_was_seen_and_what_was_counted() -> None:
    exchange = Exchange(0, 1, 2, 50, http_status=200, lag_ns=7)
    reading = StreamReading(
        "ok",
        first_ns=9,
        first_content_ns=11,
        chunks=ChunkTimes(array("q", [9, 11]), array("i", [1, 2])),
        content="x",
        reasoning="y",
        token_ids=(1, 2, 3),
        finish_reason="stop",
        final={"usage": {"prompt_tokens": 4}},
    )
    made = record(
        KEY, exchange, Usage(prompt_tokens=4, output_tokens=3), reading=reading, expected_cached=(0, 16)
    )
    assert (made.status, made.error, made.sent_ns, made.first_ns, made.end_ns) == ("ok", None, 2, 9, 50)
    assert (made.prompt_tokens, made.output_tokens, made.cached_tokens) == (4, 3, None)
    assert (made.content, made.reasoning, made.token_ids, made.finish_reason) == ("x", "y", (1, 2, 3), "stop")
    assert (made.client_lag_ns, made.expected_cached, made.raw_usage) == (7, (0, 16), {"prompt_tokens": 4})


def test_a_record_of_a_failure_says_why_and_counts_nothing() -> None:
    made = record(KEY, Exchange(0, 5, 5, 5, error="h refused the connection: nothing listens there"))
    assert (made.status, made.error) == ("failed", "h refused the connection: nothing listens there")
    assert (made.output_tokens, made.first_ns, len(made.chunks)) == (None, None, 0)
