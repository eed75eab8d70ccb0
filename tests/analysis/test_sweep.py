"""The sweep on loops of known truth: rates, queues, where an arm stops paying, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from kvantage.analysis import analyse
from kvantage.analysis.asked import Limits
from kvantage.analysis.crossover import stop_paying
from kvantage.analysis.sweep import Sweep, tell_cause, within
from kvantage.core import Reading, Speculation
from tests.analysis.builder import STUDY, Request, StudyBuilder, drafting
from tests.analysis.test_cases_arithmetic import case

LOOPS = {
    **STUDY,
    "phases": {
        "sweep": {
            "prompts": {"code": "builtin"},
            "concurrency": [1, 2, 4, 8],
            "rounds": 4,
            "output_tokens": 65,
        }
    },
    "policy": None,
}


def loop(
    rate: float, concurrency: int, rounds: int = 4, ttft_s: float = 0.2, output: int = 65, **more: Any
) -> list[Request]:
    """A closed loop in which every place sends its next request when the last has ended."""
    made = []
    clock = [place * 0.01 for place in range(concurrency)]
    for turn in range(rounds):
        for place in range(concurrency):
            name = f"p-{concurrency}-{turn}-{place}"
            made.append(
                Request(
                    rate=rate,
                    output=output,
                    ttft_s=ttft_s,
                    sent_s=clock[place],
                    prompt_id=name,
                    repeat=turn,
                    stream=place,
                    **more,
                )
            )
            clock[place] += ttft_s + (output - 1) / rate
    return made


def sweep_of(
    rates: Mapping[str, Sequence[float]],
    concurrency: Sequence[int] = (1, 2, 4, 8),
    lengths: Sequence[float] | None = None,
    effective: Mapping[str, int] | None = None,
    study: Mapping[str, Any] | None = None,
    **more: Any,
) -> dict[str, Sweep]:
    """Both arms by their rates of one user; the one that is not `none` drafts."""
    asked = {**LOOPS["phases"]["sweep"], "output_tokens": more.get("output", 65)}
    builder = StudyBuilder(study or {**LOOPS, "phases": {"sweep": asked}})
    for arm, of_arm in rates.items():
        spec = None if arm == "none" else Speculation(method="mtp", drafts=3)
        most = (effective or {}).get(arm, 64)
        builder.arm(arm, spec, facts={"effective_max_running": most}, pool=100_000)
        for place, (number, rate) in enumerate(zip(concurrency, of_arm, strict=True)):
            requests = loop(rate, number, **more)
            if spec is not None:
                requests = drafting(requests, 3, lengths[place] if lengths else 2.0)
            builder.cell(arm, "sweep", "code", number, requests)
    return {each.arm: each for each in analyse(builder.data()).sweeps}


def test_rates_are_the_truth_between_the_ramps() -> None:
    """Each place repeats 0.2 s of prefill and 64 tokens at 20 a second: 65 tokens in 3.4 s."""
    found = sweep_of({"none": (20.0, 20.0, 20.0, 20.0)})["none"]
    for row in found.rows:
        assert row.kind == "steady"
        assert row.per_user.value == pytest.approx(20.0)
        assert row.ttft.value == pytest.approx(0.2)
        assert row.step.value == pytest.approx(0.05)
        assert row.aggregate.value == pytest.approx(row.concurrency * 65 / 3.4, rel=0.002)
        assert "ramps cut" in (row.aggregate.note or "")


def test_a_straggler_at_the_end_does_not_bind_the_rate() -> None:
    """One answer of twice the time at the end: tokens / wall would lose a fifth, the steady rate nothing."""
    builder = StudyBuilder(LOOPS).arm("none", facts={"effective_max_running": 64}, pool=100_000)
    requests = loop(20.0, 4)
    requests[-1].rate = 8.0
    builder.cell("none", "sweep", "code", 4, requests)
    found = analyse(builder.data())
    speed = found.arm("none").cells[0].speed
    assert speed.steady.value == pytest.approx(4 * 65 / 3.4, rel=0.05)
    assert speed.end_to_end.value is not None
    assert speed.end_to_end.value < 0.85 * 4 * 65 / 3.4


def test_a_single_waves_wall_is_no_steady_rate() -> None:
    """The public case: 1,600 tokens / 37 s and 3,200 / 41 s, where the engine decoded at 97 to 100."""
    given, wanted = case("stats-wave-wall-max")
    for at in ("c4", "c8"):
        assert given[at]["tokens"] / given[at]["wall_s"] == pytest.approx(wanted[f"agg_{at}"], abs=0.06)
    rate = 98.5 / 8
    found = sweep_of({"none": (rate,)}, concurrency=(8,), output=401, ttft_s=0.5)["none"].rows[0]
    low, high = given["engine_log_bs8"]
    assert found.aggregate.value is not None
    assert low * 0.98 <= found.aggregate.value <= high


def test_crossover_of_the_public_sweep_is_an_interval() -> None:
    given, wanted = case("decision-crossover")
    for name in ("dflash2", "mtp"):
        rates = {"none": given["none"], name: given[name]}
        per_user = {
            arm: [total / number for total, number in zip(of_arm, given["concurrency"], strict=True)]
            for arm, of_arm in rates.items()
        }
        found = sweep_of(per_user, given["concurrency"], ttft_s=0.001)[name]
        ratios = [row.ratio.value for row in found.rows]
        assert ratios == pytest.approx(wanted[f"ratio_{name}"], rel=0.01)
        assert found.stops is not None
        assert [found.stops.low, found.stops.high] == wanted["crossover_interval"]
        assert found.stops.words == "between 1 and 2"


def test_a_capped_arm_has_queues_and_no_crossover_in_them() -> None:
    """The false crossover: rows beyond what the capped arm runs at once are called a queue, and left out."""
    given, wanted = case("decision-false-crossover")
    numbers = given["c"]

    def per_user(name: str) -> list[float]:
        return [total / number for total, number in zip(given[name], numbers, strict=True)]

    capped = sweep_of(
        {"none": per_user("none"), "mtp": per_user("spec_capped_at_2")},
        numbers,
        effective={"mtp": 2},
        ttft_s=0.001,
    )["mtp"]
    assert [row.kind for row in capped.rows] == ["steady", "steady", "queue", "queue", "queue"]
    assert capped.queued == (4, 8, 12)
    assert capped.rows[2].why == "offered concurrency 4 > effective 2: the rest waited"
    assert capped.rows[2].aggregate.known
    assert "refused: mtp measured a queue" in (capped.rows[2].ratio.missing or "")
    assert capped.stops is not None
    assert capped.stops.words == "none up to 2"
    free = sweep_of({"none": per_user("none"), "mtp": per_user("spec_uncapped")}, numbers, ttft_s=0.001)[
        "mtp"
    ]
    ratios = [row.ratio.value for row in free.rows]
    assert ratios == pytest.approx(wanted["ratio_uncapped"], rel=0.02)
    assert free.stops is not None
    assert free.stops.words == wanted["uncapped_crossover"]


def test_a_verify_step_that_got_slower_is_named() -> None:
    given, wanted = case("decision-batched-verify-regression")
    length = given["c1"]["accept_len"]
    found = sweep_of(
        {"none": (given["c1"]["off"], given["c8"]["off"]), "mtp": (given["c1"]["spec"], given["c8"]["spec"])},
        (1, 8),
        lengths=(length, length),
        output=221,
    )["mtp"]
    assert found.rows[0].user_ratio.value == pytest.approx(wanted["c1_ratio"], rel=0.01)
    assert found.rows[1].user_ratio.value == pytest.approx(wanted["c8_ratio"], rel=0.01)
    assert found.rows[0].rho.value == pytest.approx(wanted["step_cost_ratio_c1"], rel=0.02)
    assert found.rows[1].rho.value == pytest.approx(wanted["step_cost_ratio_c8_if_AL_same"], rel=0.02)
    assert found.cause is not None
    assert found.cause.startswith("the verify step, not the drafter")
    assert found.stops is not None
    assert (found.stops.low, found.stops.high) == (1, 8)


def test_the_trade_of_a_study_of_sweeps_alone_is_told_by_them() -> None:
    builder = StudyBuilder(LOOPS)
    for arm, rates, most in (("none", (20.0, 20.0, 20.0), 8), ("mtp", (30.0, 16.0, 16.0), 2)):
        spec = None if arm == "none" else Speculation(method="mtp", drafts=3)
        builder.arm(arm, spec, facts={"effective_max_running": most}, pool=100_000)
        for number, rate in zip((1, 2, 4), rates, strict=True):
            requests = loop(rate, number)
            builder.cell(arm, "sweep", "code", number, drafting(requests, 3, 2.0) if spec else requests)
    sentence = analyse(builder.data()).trades[0].sentence
    assert "1.46x on code in a closed loop at one stream" in sentence
    assert "0.81x on code in a closed loop at two streams" in sentence
    assert "four streams" not in sentence


def test_causes() -> None:
    assert tell_cause((1, 2.2, 1.05), (8, 2.2, 1.1)) is None
    assert (tell_cause((1, 2.2, 1.05), (8, 1.5, 1.1)) or "").startswith("the drafter, not the verify step")
    assert (tell_cause((1, 2.2, 1.05), (8, 1.5, 2.1)) or "").startswith("both")


@pytest.mark.parametrize(
    ("ratios", "words"),
    [
        ({1: (1.5, 1.4, 1.6), 2: (1.0, 0.9, 1.1), 4: (0.7, 0.6, 0.8)}, "between 1 and 4"),
        ({1: (1.5, 1.4, 1.6), 2: (1.2, 1.1, 1.3)}, "none up to 2"),
        ({1: (1.5, 1.4, 1.6), 2: (0.97, 0.9, 1.04)}, "none up to 2, not told apart from 1 at 2"),
        ({1: (0.8, 0.7, 0.9), 2: (0.6, 0.5, 0.7)}, "below 1 from concurrency 1 on"),
        (
            {1: (0.95, 0.8, 1.1), 4: (0.7, 0.6, 0.8)},
            "below 1 from concurrency 4 on, not told apart from 1 at 1",
        ),
        ({1: (1.91, None, None), 2: (0.788, None, None)}, "between 1 and 2"),
    ],
)
def test_it_stops_paying_in_an_interval_that_was_decided(
    ratios: dict[int, tuple[float, float | None, float | None]], words: str
) -> None:
    readings = {
        number: Reading.of(value, "ratio", "computed", low=low, high=high)
        for number, (value, low, high) in ratios.items()
    }
    found = stop_paying(readings)
    assert found is not None
    assert found.words == words


def test_nothing_measured_has_no_crossover() -> None:
    assert stop_paying({}) is None


def test_a_loop_that_never_ran_all_at_once_is_a_queue() -> None:
    """The server says nothing of its limit; at most two were seen at work at once."""
    builder = StudyBuilder(LOOPS).arm("none", facts={"effective_max_running": 64}, pool=100_000)
    requests = loop(20.0, 2)
    for request in requests:
        request.prompt_id = f"x{request.prompt_id}"
    builder.cell("none", "sweep", "code", 4, requests)
    row = analyse(builder.data()).sweeps[0].rows[0]
    assert row.kind == "queue"
    assert row.why == "at most 2 of 4 requests ran at the same time"


def test_a_pool_that_is_too_small_is_a_queue_and_not_void() -> None:
    builder = StudyBuilder(LOOPS).arm("none", facts={"effective_max_running": 64}, pool=400)
    builder.cell("none", "sweep", "code", 4, loop(20.0, 4), counters={"preemptions": 3})
    row = analyse(builder.data()).sweeps[0].rows[0]
    assert row.kind == "queue"
    assert row.why is not None
    assert row.why.startswith("3 requests were thrown out and run again: pool 400 tokens <")


def test_preemptions_in_a_pool_that_holds_all_void_the_row() -> None:
    builder = StudyBuilder(LOOPS).arm("none", facts={"effective_max_running": 64}, pool=100_000)
    builder.cell("none", "sweep", "code", 4, loop(20.0, 4), counters={"preemptions": 3})
    row = analyse(builder.data()).sweeps[0].rows[0]
    assert row.kind == "void"
    assert row.why == "no_retraction: 3 preemptions"


def test_a_sweep_served_from_the_cache_is_void() -> None:
    """The public case: one seed across cells measured the cache; hits of more than 1 % void the cell."""
    given, wanted = case("stats-contaminated-sweep")
    assert given["throughput_factor"] > 2
    assert "> 1 %" in wanted["detect"]
    builder = StudyBuilder(LOOPS).arm("none", facts={"effective_max_running": 64}, pool=100_000)
    requests = loop(20.0, 4, prompt=16_000, cached=15_984)
    builder.cell("none", "sweep", "code", 4, requests)
    row = analyse(builder.data()).sweeps[0].rows[0]
    assert row.kind == "void"
    assert (row.why or "").startswith("cache_cold: 255,744 of 256,000 prompt tokens came from the cache")


@pytest.mark.parametrize(
    ("limits", "share"),
    [
        ({}, None),
        ({"ttft_limit": "250ms"}, 1.0),
        ({"ttft_limit": "150ms"}, 0.0),
        ({"tpot_limit": "60ms"}, 1.0),
        ({"tpot_limit": "40ms", "ttft_limit": "2s"}, 0.0),
    ],
)
def test_goodput_counts_those_that_kept_to_the_limits(limits: dict[str, str], share: float | None) -> None:
    study = {**LOOPS, "phases": {"sweep": {**LOOPS["phases"]["sweep"], **limits}}}
    row = sweep_of({"none": (20.0,)}, concurrency=(4,), study=study)["none"].rows[0]
    assert row.kept.value == share
    if share is None:
        assert "sets no limit" in (row.goodput.missing or "")
    else:
        assert row.goodput.value == pytest.approx(share * 4 / 3.4, rel=0.15)


def test_a_time_that_is_not_known_keeps_to_no_limit() -> None:
    times = np.array([0.1, np.nan])
    assert within(times, times, Limits(ttft_s=1.0)).tolist() == [True, False]
    assert within(times, times, Limits()).tolist() == [True, True]


def test_waiting_is_told_as_the_server_tells_it() -> None:
    builder = StudyBuilder(LOOPS).arm("none", facts={"effective_max_running": 2}, pool=100_000)
    counters = {"queue_s": 8.0}
    builder.cell("none", "sweep", "code", 4, loop(20.0, 4), counters=counters, running_max=2, waiting_max=2)
    row = analyse(builder.data()).sweeps[0].rows[0]
    assert (row.running.value, row.waiting.value) == (2, 2)
    assert row.queue_s.value == pytest.approx(0.5)


def test_answers_of_one_token_have_an_aggregate_and_no_rate_of_a_user() -> None:
    found = sweep_of({"none": (20.0,)}, concurrency=(2,), output=1)["none"].rows[0]
    assert found.kind == "steady"
    assert found.aggregate.value == pytest.approx(10.0, rel=0.2)
    assert not found.per_user.known


def test_a_loop_without_a_steady_moment_says_so() -> None:
    builder = StudyBuilder(LOOPS).arm("none", facts={"effective_max_running": 64}, pool=100_000)
    requests = loop(20.0, 2, rounds=1)
    requests[1].ttft_s = 10.0
    builder.cell("none", "sweep", "code", 2, requests)
    row = analyse(builder.data()).sweeps[0].rows[0]
    for reading in (row.aggregate, row.per_user, row.ttft):
        assert "between the ramps" in (reading.missing or "")


def test_a_void_control_leaves_no_ratio_and_it_is_said() -> None:
    builder = StudyBuilder(LOOPS)
    for arm, lag in (("none", 0.2), ("mtp", 0.0)):
        spec = None if arm == "none" else Speculation(method="mtp", drafts=3)
        builder.arm(arm, spec, facts={"effective_max_running": 64}, pool=100_000)
        for number in (1, 2):
            requests = loop(20.0, number, lag_s=lag if number == 1 else 0.0)
            builder.cell(arm, "sweep", "code", number, drafting(requests, 3, 2.0) if spec else requests)
    found = analyse(builder.data()).sweeps[1]
    assert found.untold == (1,)
    assert found.queued == ()
    assert "none is void (client_on_time" in (found.rows[0].ratio.missing or "")
    assert "none is void (client_on_time" in (found.rows[0].rho.missing or "")
