"""Timelines of waves, and memory by part: what is told, and what is missing."""

from __future__ import annotations

import pytest

from kvantage.analysis import analyse
from kvantage.analysis.memory import PARTS, read_memory
from kvantage.analysis.waves import MOST
from kvantage.core import Facts, Reading
from tests.analysis.builder import Request, StudyBuilder


def wave(*requests: Request, phase: str = "cold") -> StudyBuilder:
    return StudyBuilder().arm("none").cell("none", phase, "documents", len(requests), list(requests))


def test_a_request_waits_then_reads_then_writes() -> None:
    builder = wave(
        Request(stream=0, sent_s=5.0, ttft_s=0.5, queue_s=0.0, cached=0, expected=(0, 16)),
        Request(stream=1, sent_s=5.25, ttft_s=1.0, queue_s=0.5, cached=0, expected=(0, 16)),
    )
    (found,) = analyse(builder.data()).waves
    first, second = found.requests
    assert (first.sent.value, first.queue.value, first.first.value) == pytest.approx((0.0, 0.0, 0.5))
    assert (second.sent.value, second.queue.value, second.first.value) == pytest.approx((0.25, 0.75, 1.25))
    assert second.last.value is not None
    assert second.last.value > 1.25
    assert {first.hit, second.hit} == {"cold"}


@pytest.mark.parametrize(
    ("cached", "expected", "hit"),
    [(80, (80, 96), "hit"), (79, (80, 96), "miss"), (0, (0, 16), "cold"), (None, (80, 96), "not told")],
)
def test_a_hit_is_what_a_sound_cache_serves(cached: int | None, expected: tuple[int, int], hit: str) -> None:
    builder = wave(Request(cached=cached, expected=expected), phase="repeat")
    (found,) = analyse(builder.data()).waves
    assert found.requests[0].hit == hit
    assert found.requests[0].cached_tokens.known is (cached is not None)


def test_what_the_server_does_not_say_is_missing_and_not_zero() -> None:
    (found,) = analyse(wave(Request(queue_s=None)).data()).waves
    assert found.requests[0].queue.missing == "the server does not say how long it waited"


def test_a_long_wave_says_how_many_there_were() -> None:
    many = [Request(stream=place) for place in range(MOST + 5)]
    (found,) = analyse(wave(*many).data()).waves
    assert len(found.requests) == MOST
    assert found.asked.value == MOST + 5


def facts(**values: float) -> Facts:
    return Facts("toy", "1", {name: Reading.of(value, "bytes", "config") for name, value in values.items()})


def test_memory_by_part() -> None:
    arm = facts(
        kv_pool_bytes=80, draft_kv_pool_bytes=20, weights_bytes=100, graphs_bytes=3, activation_bytes=2
    )
    found = read_memory("mtp", [arm], [facts(kv_pool_bytes=120, weights_bytes=90)])
    assert found is not None
    assert [part.name for part in found.parts] == list(PARTS)
    known = {part.name: part.bytes.value for part in found.parts if part.bytes.known}
    assert known == {"target KV": 80, "draft KV": 20, "weights": 100, "graphs": 3, "other": 2}
    assert found.part("free").missing == "toy did not report memory_left_bytes"


def test_a_pool_that_both_share_is_counted_once() -> None:
    """10,240 tokens of 3,072 bytes for the target and of 512 for the drafter, in one pool of 36,700,160."""
    arm = facts(kv_pool_bytes=36_700_160, draft_kv_pool_bytes=5_242_880, kv_pool_tokens=10_240)
    found = read_memory("draft", [arm], [facts(kv_bytes_per_token=3072)])
    assert found is not None
    assert found.part("target KV").value == 31_457_280
    assert found.part("draft KV").value == 5_242_880


def test_an_arm_that_told_nothing_has_no_memory() -> None:
    assert read_memory("none", [facts()], []) is None
    assert read_memory("none", [], []) is None
