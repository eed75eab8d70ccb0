"""The ladder of first tokens on studies of known truth: prefill, repeats, the first request, a cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kvantage.analysis import analyse
from kvantage.analysis.ladder import Ladder
from kvantage.analysis.prefill_check import Point, check_points
from kvantage.core import Speculation
from tests.analysis.builder import STUDY, Request, StudyBuilder
from tests.analysis.test_cases_arithmetic import case

LADDER = {
    **STUDY,
    "phases": {"ttft": {"lengths": [1000, 4000, 16000], "documents": 3, "output_tokens": 4}},
    "policy": None,
}
SPREAD = (1.0, 1.02, 0.98)
START_S = 0.05


def rung(
    length: int,
    seconds: float,
    cached: Sequence[int] | None = None,
    block: int = 16,
    jitter: Sequence[float] = SPREAD,
    **more: Any,
) -> list[Request]:
    """Three documents, each uncached and twice from the cache (what is served at the two repeats)."""
    whole = (length - 1) // block * block
    served = (0, whole, whole) if cached is None else (0, *cached)
    made = []
    for number, times in enumerate(jitter):
        for turn in (0, 1, 2):
            share = 1 - served[turn] / length
            request = Request(
                rate=50.0,
                output=4,
                ttft_s=(START_S + (seconds - START_S) * share) * times,
                sent_s=float(10 * number + turn),
                prompt=length,
                cached=served[turn],
                expected=(0, 64) if turn == 0 else (whole, whole + block),
                prompt_id=f"document-{length}-{number}",
                repeat=turn,
                stream=number,
            )
            for name, value in more.items():
                setattr(request, name, value)
            made.append(request)
    return made


def climb(
    times: dict[int, float], builder: StudyBuilder | None = None, arm: str = "none", **more: Any
) -> StudyBuilder:
    if builder is None:
        builder = StudyBuilder(LADDER)
    spec = None if arm == "none" else Speculation(method="mtp", drafts=3)
    builder.arm(arm, spec, pool=100_000)
    for length, seconds in times.items():
        builder.cell(arm, "ttft", str(length), 1, rung(length, seconds, **more))
    return builder


def ladder(builder: StudyBuilder, arm: str = "none") -> Ladder:
    return next(each for each in analyse(builder.data()).ladders if each.arm == arm)


def linear(tok_s: float) -> dict[int, float]:
    return {length: START_S + length / tok_s for length in (1000, 4000, 16000)}


def test_a_sound_server_passes_with_its_rates() -> None:
    found = ladder(climb(linear(4000)))
    assert [each.length for each in found.rungs] == [1000, 4000, 16000]
    assert [each.prefill.value for each in found.rungs] == pytest.approx([3333, 3810, 3951], rel=0.01)
    assert [each.further.value for each in found.rungs[1:]] == pytest.approx([4000, 4000], rel=0.01)
    assert found.check == "passed"
    assert found.reuse_sound is True
    for each in found.rungs:
        warm = [turn.ttft.value for turn in each.turns[1:]]
        assert warm == pytest.approx([START_S + 16 / 4000] * 2, rel=0.15)
        assert [turn.missed.value for turn in each.turns[1:]] == [0, 0]
        assert each.turns[0].ttft.low is not None


def test_a_prefill_that_slows_down_with_length_passes() -> None:
    assert ladder(climb({1000: 0.3, 4000: 1.4, 16000: 9.0})).check == "passed"


@pytest.mark.parametrize(
    "times",
    [
        {1000: 1.0, 4000: 2.67, 16000: 5.33},
        {1000: 0.30, 4000: 1.05, 16000: 1.1},
        {1000: 0.3, 4000: 0.31, 16000: 0.32},
    ],
)
@pytest.mark.parametrize("cached", [None, (0, 0)])
def test_a_rate_that_rises_with_length_is_flagged(
    times: dict[int, float], cached: tuple[int, int] | None
) -> None:
    builder = climb(times, cached=cached)
    found = ladder(builder)
    assert found.check == "flagged"
    assert found.check_words.startswith("the prefill rate rises with length, as from a cache")
    assert any("are in doubt" in limit for limit in analyse(builder.data()).limits)


def test_noise_is_not_a_cache() -> None:
    """Documents that differ by 30 % hide a rise of that size."""
    times = {1000: 0.3, 4000: 1.05, 16000: 3.6}
    assert ladder(climb(times, jitter=(1.0, 1.3, 0.7))).check == "passed"


def test_a_fixed_start_is_not_a_cache() -> None:
    """Rates of 910, 1,667 and 1,905 tok/s by a start of 0.6 s: each token costs the same."""
    points = [Point(length, 0.6 + length / 2000, 0.02) for length in (1000, 4000, 16000)]
    assert check_points(points)[0] == "passed"
    assert check_points(points[:2])[0] == "not told"
    assert check_points(points[:1])[0] == "not told"


def test_a_device_that_is_not_filled_yet_is_not_a_cache() -> None:
    """500, 1,000 and 2,000 tokens in 12, 12.5 and 15 ms."""
    points = [Point(500, 0.012, 0.0006), Point(1000, 0.0125, 0.0006), Point(2000, 0.015, 0.0008)]
    assert check_points(points)[0] == "passed"
    assert check_points([*points, Point(16000, 0.0155, 0.0008)])[0] == "flagged"


def test_hits_that_the_server_counts_on_first_sends_void_the_rung() -> None:
    builder = StudyBuilder(LADDER).arm("none", pool=100_000)
    requests = rung(4000, 1.0)
    requests[3].cached = 2000
    builder.cell("none", "ttft", "4000", 1, requests)
    found = ladder(builder)
    assert found.rungs[0].status == "void"
    assert found.rungs[0].reasons[0].startswith("cache_cold: 2,000 of 12,000 prompt tokens")
    assert not found.rungs[0].prefill.known
    assert not found.rungs[0].turns[1].ttft.known


def test_a_drafter_that_ends_prefix_reuse_is_seen_and_costs_its_repeats() -> None:
    """The public case: 0 of 55,009 tokens with the drafter, 54,880 without; not void, but the finding."""
    given, wanted = case("vllm-prefix-zero-with-drafter")
    length, served = given["prompt_tokens"], given["without_drafter"]["hits_per_repeat"]
    assert served == wanted["blocks"] * given["block"]
    assert length - served == wanted["tail_tokens"]
    study = {**LADDER, "phases": {"ttft": {"lengths": [length], "documents": 3, "output_tokens": 4}}}
    builder = climb({length: 20.0}, StudyBuilder(study), block=784)
    climb({length: 20.0}, builder, arm="mtp", cached=(0, 0), block=784)
    without, drafter = ladder(builder), ladder(builder, "mtp")
    hits = [turn.cached.value for turn in without.rungs[0].turns[1:]]
    assert hits == [3 * served] * 2
    asked = without.rungs[0].turns[1].asked.value
    assert asked is not None
    assert (hits[0] or 0) / asked == pytest.approx(wanted["hit_rate_without"], abs=5e-5)
    assert without.reuse_sound is True
    assert drafter.reuse_sound is False
    assert drafter.reuse.startswith("no prefix reuse: 0 of 165,027 prompt tokens served")
    assert "55,009 tokens, first repeat, 55,009 tokens, second repeat" in drafter.reuse
    warm = drafter.rungs[0].turns[1]
    assert drafter.rungs[0].status == "ok"
    assert warm.ttft.value == pytest.approx(20.0)
    assert warm.to_control.value is not None
    assert warm.to_control.value > 50
    assert drafter.rungs[0].turns[0].to_control.value == pytest.approx(1.0)


def test_a_client_that_was_late_leaves_the_hits_sound() -> None:
    builder = StudyBuilder(LADDER).arm("none", pool=100_000)
    builder.cell("none", "ttft", "1000", 1, rung(1000, 0.3, lag_s=0.5))
    found = ladder(builder)
    assert found.rungs[0].status == "void"
    assert found.reuse_sound is True
    assert not found.rungs[0].turns[1].ttft.known


def test_a_second_repeat_that_misses_is_told_from_the_first() -> None:
    builder = climb({1000: 0.3}, cached=(992, 0))
    found = ladder(builder)
    assert [turn.missed.value for turn in found.rungs[0].turns[1:]] == [0, 3]
    assert found.reuse == (
        "no prefix reuse: 0 of 3,000 prompt tokens served (pool 100,000 tokens holds 1,000) "
        "(1,000 tokens, second repeat)"
    )


def test_cached_tokens_that_are_not_told_are_not_zero() -> None:
    found = ladder(climb({1000: 0.3, 4000: 1.05}, cached=(0, 0), **{"steps": None}))
    assert found.reuse_sound is False
    builder = StudyBuilder(LADDER).arm("none", pool=100_000)
    requests = rung(1000, 0.3)
    for request in requests:
        request.cached = None
    builder.cell("none", "ttft", "1000", 1, requests)
    untold = ladder(builder)
    assert untold.reuse_sound is None
    assert not untold.rungs[0].turns[1].cached.known
    assert "does not report cached tokens" in untold.reuse


def test_no_hit_at_all_is_told_even_where_the_least_is_not_known() -> None:
    """Layers with blocks of several sizes: what a sound cache serves at least is 0."""
    builder = StudyBuilder(LADDER).arm("none", pool=100_000)
    requests = rung(1000, 0.3, cached=(0, 0))
    for request in requests:
        request.expected = (0, 992)
    builder.cell("none", "ttft", "1000", 1, requests)
    found = ladder(builder)
    assert found.reuse_sound is False
    assert found.reuse.startswith("no prefix reuse: 0 of 3,000 prompt tokens served")


@pytest.mark.parametrize(("seconds", "compiled"), [(39.6, True), (2.4, False)])
def test_the_first_request_after_boot_is_told_from_prefill(seconds: float, compiled: bool) -> None:
    builder = climb({1000: 2.3, 4000: 9.0})
    first = Request(rate=50.0, output=4, ttft_s=seconds, prompt=1000, prompt_id="document-first")
    builder.cell("none", "ttft", "first", 1, [first])
    found = ladder(builder).first
    assert found is not None
    assert found.compiled is compiled
    assert found.was_first
    assert found.ttft.value == pytest.approx(seconds)
    assert found.usual.value == pytest.approx(2.3)
    assert ("compiles" in found.words) is compiled


def test_one_that_was_not_the_first_after_boot_says_so() -> None:
    builder = climb({1000: 2.3})
    first = Request(rate=50.0, output=4, ttft_s=2.3, prompt=1000)
    note = "not the first after boot: 4 requests came before it"
    builder.cell("none", "ttft", "first", 1, [first], notes=(note,))
    found = ladder(builder).first
    assert found is not None
    assert not found.was_first
    assert found.words.endswith(note)


def test_a_length_that_the_engine_compiled_for_is_left_out_and_shown() -> None:
    builder = StudyBuilder(LADDER).arm("none", pool=100_000)
    requests = rung(1000, 2.3)
    requests[0].ttft_s = 39.6
    builder.cell("none", "ttft", "1000", 1, requests)
    found = ladder(builder).rungs[0]
    assert found.turns[0].ttft.value == pytest.approx(2.3, rel=0.03)
    assert [gone.prompt_id for gone in found.excluded] == ["document-1000-0"]
    assert "39.6 s" in found.excluded[0].why


def test_an_arm_is_compared_document_by_document() -> None:
    builder = climb(linear(4000))
    climb(linear(2000), builder, arm="mtp")
    found = ladder(builder, "mtp")
    ratio = found.rungs[2].turns[0].to_control
    assert ratio.value == pytest.approx(8.05 / 4.05, rel=1e-6)
    assert ratio.low is not None
    assert ladder(builder).rungs[0].turns[0].to_control.missing == "it is the control"


def test_a_few_tokens_tell_no_rate() -> None:
    found = analyse(climb(linear(4000)).data()).arm("none").cells[0]
    assert found.speed.ttft.known
    assert not found.speed.decode.known
    assert not found.acceptance.length.known
