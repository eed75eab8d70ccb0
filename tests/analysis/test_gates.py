"""Each gate: what voids a cell, in which words, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kvantage.analysis.analyse import analyse
from kvantage.analysis.measure import CellFindings
from kvantage.core import Speculation
from tests.analysis.builder import Request, StudyBuilder, drafting, short, wave

MTP = Speculation(method="mtp", drafts=3)


def one_cell(
    requests: list[Request],
    phase: str = "short",
    concurrency: int = 1,
    speculation: Speculation | None = None,
    arm: dict[str, Any] | None = None,
    simulated: bool = False,
    **cell: Any,
) -> CellFindings:
    builder = StudyBuilder().arm("none", speculation, **(arm or {}))
    builder.simulated = simulated
    workload = "code" if phase == "short" else "documents"
    builder.cell("none", phase, workload, concurrency, requests, **cell)
    return analyse(builder.data()).arm("none").cells[0]


def reasons(cell: CellFindings) -> list[str]:
    assert cell.ok is (not cell.status.reasons)
    if not cell.ok:
        assert not cell.speed.decode.known
        assert not cell.speed.steady.known
        assert not cell.speed.end_to_end.known
        assert not cell.speed.ttft.known
    return list(cell.status.reasons)


def repeats(concurrency: int = 2, **common: Any) -> list[Request]:
    return wave(20.0, concurrency, 65, **{"cached": 1984, "expected": (1968, 1984), **common})


def test_a_sound_cell_is_ok() -> None:
    assert reasons(one_cell(short([20.0, 21.0, 19.0]))) == []
    assert reasons(one_cell(repeats(), "repeat", 2)) == []


def test_a_failed_request_voids() -> None:
    requests = short([20.0, 21.0, 19.0])
    requests[2] = replace(requests[2], ok=False, error="HTTP 500: out of luck", output=None)
    assert "requests_ok: 1 of 3 requests failed: HTTP 500: out of luck" in reasons(one_cell(requests))


def test_a_failed_warmup_does_not() -> None:
    requests = short([20.0, 21.0, 19.0])
    requests[0] = replace(requests[0], ok=False, error="slow start")
    assert reasons(one_cell(requests)) == []


def test_a_cell_without_requests_says_only_that() -> None:
    assert reasons(one_cell([])) == ["requests_ok: no measured request"]


def test_a_broken_attempt_is_shown_and_not_used() -> None:
    cell = one_cell(short([20.0]), complete=False, notes=("the server died",))
    assert reasons(cell) == ["requests_ok: broken off before it finished: the server died"]
    assert cell.requests.value == 0


def test_drafts_that_do_not_move_void() -> None:
    still = one_cell(
        short([20.0, 20.0]),
        speculation=MTP,
        counters={"drafts": 0.0, "drafted_tokens": 0.0, "accepted_tokens": 0.0},
    )
    assert reasons(still) == ["drafts_moved: speculation is on, and no draft was counted"]


def test_drafts_that_nothing_reports_void() -> None:
    assert reasons(one_cell(short([20.0, 20.0]), speculation=MTP)) == [
        "drafts_moved: speculation is on, and nothing that the server reports shows a draft"
    ]


def test_an_arm_by_its_own_flags_is_known_by_what_the_server_says() -> None:
    cell = one_cell(short([20.0, 20.0]), arm={"told": {"method": "mtp", "num_speculative_tokens": 3}})
    assert reasons(cell)[0].startswith("drafts_moved: speculation is on")


def test_a_control_that_drafts_is_void() -> None:
    cell = one_cell(short([20.0, 20.0]), counters={"drafts": 12.0})
    assert reasons(cell) == ["drafts_moved: speculation is off, yet 12 drafts were counted"]


def test_drafts_by_the_counters_suffice() -> None:
    cell = one_cell(
        short([20.0, 20.0]),
        speculation=MTP,
        counters={"drafts": 80.0, "drafted_tokens": 240.0, "accepted_tokens": 90.0},
    )
    assert reasons(cell) == []
    assert cell.acceptance.per_drafting_step.value == pytest.approx(1 + 90 / 80)
    assert cell.acceptance.per_drafting_step.source == "counter delta"


def test_an_evicted_document_is_a_finding() -> None:
    requests = repeats(4)
    requests[1] = replace(requests[1], cached=0)
    requests[3] = replace(requests[3], cached=16)
    cell = one_cell(requests, "repeat", 4, arm={"pool": 8000})
    assert reasons(cell) == [
        "cache_warm: 2 of 4 requests missed the cache: 3,984 tokens served, "
        "at least 7,872 expected, 3,920 short"
    ]
    assert cell.status.finding == (
        "evicted: 2 of 4 documents no longer resident; pool 8,000 tokens < 8,320 needed"
    )
    assert cell.missed_requests.value == 2
    assert cell.cached_tokens.value == 3984
    assert cell.expected_cached_tokens.low == 7872


def test_hits_that_are_not_reported_are_not_hits() -> None:
    cell = one_cell(repeats(cached=None), "repeat", 2)
    assert reasons(cell) == ["cache_warm: the server did not report cached tokens for 2 of 2 requests"]
    assert cell.cached_tokens.missing is not None


def test_short_cells_may_not_come_from_the_cache() -> None:
    assert reasons(one_cell(short([20.0, 20.0], cached=90)))[0].startswith("cache_cold: 180 of 200")
    assert reasons(one_cell(short([20.0, 20.0], cached=16))) == []


def test_one_who_waits_for_a_slot_voids() -> None:
    requests = repeats(2)
    requests[1] = replace(requests[1], ttft_s=10.0)
    cell = one_cell(requests, "repeat", 2, running_max=1.0, waiting_max=1.0)
    assert reasons(cell) == ["no_queue: at most 1 of 2 requests ran at the same time, 1 seen waiting"]


def test_every_wave_must_run_together() -> None:
    second = [replace(each, sent_s=100.0 + 9 * each.stream, repeat=1) for each in repeats(2)]
    cell = one_cell([*repeats(2), *second], "repeat", 2, running_max=2.0)
    assert reasons(cell) == ["no_queue: at most 1 of 2 requests ran at the same time"]


def test_a_moment_in_the_queue_that_ends_before_all_decode_does_not() -> None:
    assert reasons(one_cell(repeats(2, queue_s=0.05), "repeat", 2, waiting_max=1.0)) == []


def test_a_long_wait_voids() -> None:
    requests = repeats(2)
    requests[1] = replace(requests[1], queue_s=1.5)
    assert reasons(one_cell(requests, "repeat", 2)) == ["no_queue: 1 of 2 requests queued, up to 1.5 s"]


def test_a_glimpse_of_one_waiting_alone_counts_only_where_no_request_tells_its_wait() -> None:
    assert reasons(one_cell(short([20.0, 20.0], queue_s=0.001), waiting_max=1.0)) == []
    assert reasons(one_cell(short([20.0, 20.0]), waiting_max=1.0)) == [
        "no_queue: 1 requests seen waiting at concurrency 1"
    ]


def test_answers_that_came_at_one_moment_did_run() -> None:
    requests = [replace(each, rate=1e12) for each in short([20.0, 20.0])]
    cell = one_cell(requests, running_max=0.0)
    assert reasons(cell) == []
    assert cell.speed.decode.missing == "no request told when its tokens came"


def test_cold_prefills_take_turns() -> None:
    turns = [replace(each, ttft_s=0.2 + 9 * each.stream) for each in wave(20.0, 2, 33)]
    cell = one_cell(turns, "cold", 2, waiting_max=1.0)
    assert reasons(cell) == []
    assert cell.speed.steady.missing == "2 streams were never decoding at the same time"
    assert cell.speed.decode.value == pytest.approx(20.0)
    small = one_cell(turns, "cold", 2, arm={"pool": 3000})
    assert reasons(small) == ["no_queue: at most 1 of 2 requests ran at the same time"]
    assert small.status.finding == "did not fit: pool 3,000 tokens < 4,096 needed for 2 at once"


def test_retractions_void() -> None:
    assert reasons(one_cell(repeats(), "repeat", 2, counters={"preemptions": 3.0})) == [
        "no_retraction: 3 preemptions"
    ]
    assert reasons(one_cell(repeats(retractions=1), "repeat", 2)) == ["no_retraction: 2 retractions"]
    beyond = one_cell(repeats(cached=2300), "repeat", 2)
    assert reasons(beyond) == [
        "no_retraction: 2 requests have more cached than prompt tokens: they were retracted"
    ]


def test_a_finding_is_told_once() -> None:
    requests = repeats(4)
    requests[1] = replace(requests[1], cached=0)
    cell = one_cell(requests, "repeat", 4, arm={"pool": 8000}, counters={"preemptions": 1.0})
    assert len(cell.status.reasons) == 2
    assert cell.status.finding == (
        "evicted: 1 of 4 documents no longer resident; pool 8,000 tokens < 8,320 needed"
    )


def test_the_servers_own_cap_voids() -> None:
    cell = one_cell(repeats(2), "repeat", 2, arm={"facts": {"effective_max_running": 1}})
    assert reasons(cell) == [
        "effective_concurrency: offered concurrency 2 > effective 1: the rest measured a queue"
    ]


@pytest.mark.parametrize(("lag_s", "late"), [(0.0019, False), (0.0024, False), (0.0026, True)])
def test_a_late_client_voids_its_own_cell(lag_s: float, late: bool) -> None:
    """At 20 tok/s, 5 % of 50 ms is 2.5 ms."""
    found = reasons(one_cell(short([20.0, 20.0, 20.0], lag_s=lag_s)))
    assert bool(found) is late
    if late:
        assert found == ["client_on_time: the client was late by 2.6 ms at p99, 2.5 ms allowed"]


def test_the_lag_of_the_whole_cell_counts_before_single_moments() -> None:
    cell = one_cell(short([20.0, 20.0], lag_s=0.5), lag_p99_ns=1_000_000)
    assert reasons(cell) == []
    assert cell.client_lag_s.value == pytest.approx(0.001)
    assert reasons(one_cell(short([20.0, 20.0]), lag_p99_ns=9_000_000))[0].startswith("client_on_time")


def test_foreign_traffic_voids() -> None:
    assert reasons(one_cell(short([20.0, 20.0]), counters={"requests_finished": 9.0})) == [
        "foreign_traffic: the server finished 9 requests, 3 of them ours"
    ]
    assert reasons(one_cell(short([20.0, 20.0]), counters={"prompt_tokens": 5000.0})) == [
        "foreign_traffic: the server counted 5,000 prompt tokens, 300 of them ours"
    ]


def test_counters_that_were_reset_accuse_nobody() -> None:
    builder = StudyBuilder().arm("none")
    builder.cell("none", "short", "code", 1, short([20.0, 20.0]), counters={"requests_finished": 99.0})
    window = builder.windows[0]
    assert window.delta is not None
    builder.windows[0] = replace(window, delta=replace(window.delta, reset=True))
    assert analyse(builder.data()).arm("none").cells[0].ok


def test_an_empty_answer_voids() -> None:
    requests = short([20.0, 20.0])
    requests[1] = replace(requests[1], content="  ")
    assert reasons(one_cell(requests)) == [
        "nonempty_output: 1 of 2 answers were empty (finish reason length)"
    ]


def test_tokens_must_be_counted_and_as_many_as_asked() -> None:
    assert reasons(one_cell(short([20.0, 20.0], output=None)))[0].startswith(
        "counted_tokens: output tokens not reported for 2 of 2"
    )
    assert reasons(one_cell(short([20.0, 20.0], output=50))) == [
        "counted_tokens: 2 of 2 answers have another length than asked: 50 instead of 65 tokens"
    ]


def test_simulated_acceptance_is_refused_or_marked() -> None:
    arm = {"told": {"method": "mtp", "simulated": True}}
    requests = drafting(short([20.0, 20.0]), 3, 2.5)
    assert reasons(one_cell(requests, speculation=MTP, arm=arm)) == ["not_simulated: acceptance is simulated"]
    assert reasons(one_cell(requests, speculation=MTP, arm=arm, simulated=True)) == []


def test_probes_are_judged_and_not_timed() -> None:
    requests = [Request(prompt_id=str(n), output=3, content="" if n else "4") for n in range(4)]
    builder = StudyBuilder().arm("none")
    builder.cell("none", "probes", "arithmetic", 4, requests)
    cell = analyse(builder.data()).arm("none").cells[0]
    assert cell.ok
    assert cell.speed.decode.missing == "this phase measures no speed"


def test_unknown_phases_have_the_common_gates() -> None:
    builder = StudyBuilder().arm("none")
    builder.cell("none", "unheard", "documents", 2, wave(20.0, 2, 33, cached=1900))
    assert analyse(builder.data()).arm("none").cells[0].ok
