"""The scheduler: order, caps, chunks, shortages, speculation; and that nothing is lost."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvantage.sim.clock import FixedClock
from kvantage.sim.drafting import Drafting
from kvantage.sim.engine import Engine
from kvantage.sim.pieces import join, text
from kvantage.sim.request import Request
from kvantage.sim.rules import Rules
from kvantage.sim.step import Step

CLOCK = FixedClock(step=0.1, each=0.0, token=0.001)


def test_first_come_first_served_up_to_the_cap() -> None:
    engine = Engine(10_000, Rules(running=2, chunk=1000, reserve_new=10), CLOCK)
    requests = [engine.submit(Request(f"r{i}", text(i, 100), 10)) for i in range(4)]
    engine.run()
    assert [request.name for request in engine.finished] == ["r0", "r1", "r2", "r3"]
    assert requests[0].queued == requests[1].queued == 0
    assert requests[2].queued > 0.9
    assert all(request.produced == 10 and request.steps == 9 for request in requests)


def test_a_long_prompt_is_computed_in_chunks_and_decoding_waits() -> None:
    seen: list[Step] = []
    engine = Engine(10_000, Rules(running=4, chunk=256), CLOCK, watch=seen.append)
    first = engine.submit(Request("first", text("a", 100), 50))
    long = engine.submit(Request("long", text("b", 1000), 5), at=1.0)
    engine.run()
    prefills = [step for step in seen if step.kind == "prefill"]
    assert [step.new_tokens for step in prefills] == [100, 256, 256, 256, 232]
    assert long.ttft >= 1.0
    gaps = [after[0] - before[0] for before, after in zip(first.chunks, first.chunks[1:], strict=False)]
    assert max(gaps) > 1.0  # the prefill went before its decode steps


def test_mixed_batches_decode_while_a_prompt_is_computed() -> None:
    engine = Engine(10_000, Rules(running=4, chunk=256, mixed=True, page=16), CLOCK)
    first = engine.submit(Request("first", text("a", 100), 50))
    engine.submit(Request("long", text("b", 1000), 5), at=1.0)
    engine.run()
    gaps = [after[0] - before[0] for before, after in zip(first.chunks, first.chunks[1:], strict=False)]
    assert max(gaps) < 0.3


def test_a_repeat_hits_and_is_quick() -> None:
    engine = Engine(10_000, Rules(page=16, mixed=True), CLOCK)
    cold = engine.submit(Request("cold", text("a", 2001), 5))
    engine.run()
    warm = engine.submit(Request("warm", text("a", 2001), 5))
    engine.run()
    assert (cold.first_cached, warm.first_cached) == (0, 2000)
    assert warm.ttft < cold.ttft / 10


@pytest.mark.parametrize("mixed", [False, True])
def test_a_shortage_puts_a_request_back_and_it_still_finishes(mixed: bool) -> None:
    rules = Rules(running=4, chunk=512, page=16, mixed=mixed, reserve=0.0, reserve_new=1, newest_first=mixed)
    engine = Engine(640, rules, CLOCK)
    requests = [engine.submit(Request(f"r{i}", text(i, 200), 200)) for i in range(3)]
    engine.run()
    assert sum(request.retractions for request in requests) > 0
    assert all(request.produced == 200 and request.end for request in requests)
    assert engine.cache.available() == engine.cache.capacity


def test_one_that_can_never_fit_is_refused_and_the_others_go_on() -> None:
    engine = Engine(500, Rules(page=10, reserve=0.0, reserve_new=1), CLOCK)
    huge = engine.submit(Request("huge", text("a", 600), 5))
    grows = engine.submit(Request("grows", text("b", 400), 300))
    small = engine.submit(Request("small", text("c", 50), 5))
    engine.run()
    assert engine.refused == [huge, grows]
    assert small.produced == 5
    with pytest.raises(ValueError, match="at least one"):
        Request("empty", (), 5)


def test_speculation_yields_the_acceptance_length_that_was_given() -> None:
    drafting = Drafting([0.8, 0.6, 0.5], seed=3)
    engine = Engine(100_000, Rules(drafts=3), CLOCK, {"": drafting})
    request = engine.submit(Request("r", text("a", 100), 5000))
    engine.run()
    assert drafting.length == pytest.approx(1 + 0.8 + 0.48 + 0.24)
    assert request.acceptance_length == pytest.approx(drafting.length, rel=0.02)
    assert request.drafted == 3 * request.steps
    assert sum(emitted for _, emitted in request.chunks) == 5000


def test_workloads_draw_their_own_rates() -> None:
    engine = Engine(100_000, Rules(drafts=2), CLOCK, {"": Drafting([0, 0], 0), "code": Drafting([1, 1], 0)})
    plain = engine.submit(Request("a", text("a", 10), 100))
    engine.run()
    code = engine.submit(Request("b", text("b", 10), 100, "code"))
    engine.run()
    assert (plain.steps, code.steps) == (99, 33)
    with pytest.raises(ValueError, match="rate"):
        Drafting([1.2], 0)


def test_state_slots_cap_what_runs() -> None:
    engine = Engine(100_000, Rules(running=8, states=10, states_running=5), CLOCK)
    seen: list[int] = []
    engine.watch(lambda step: seen.append(step.running))
    for i in range(4):
        engine.submit(Request(f"r{i}", text(i, 50), 20))
    engine.run()
    assert max(seen) == 2
    assert len(engine.finished) == 4


@settings(max_examples=60, deadline=None)
@given(
    mixed=st.booleans(),
    page=st.sampled_from([1, 16, 64]),
    drafts=st.integers(0, 4),
    capacity=st.integers(300, 3000),
    states=st.one_of(st.none(), st.integers(5, 30)),
    work=st.lists(
        st.tuples(
            st.sampled_from("abc"),
            st.integers(1, 400),
            st.integers(0, 100),
            st.integers(1, 80),
            st.floats(0, 5),
        ),
        min_size=1,
        max_size=15,
    ),
)
def test_every_request_ends_and_every_slot_comes_back(
    mixed: bool,
    page: int,
    drafts: int,
    capacity: int,
    states: int | None,
    work: list[tuple[str, int, int, int, float]],
) -> None:
    rules = Rules(
        running=4,
        chunk=128,
        mixed=mixed,
        page=page,
        drafts=drafts,
        reserve=0.3,
        states=None if mixed else states,
        states_running=5,
        newest_first=mixed,
        drop_block=mixed and drafts > 0,
    )
    engine = Engine(capacity, rules, CLOCK, {"": Drafting([0.6] * drafts, 1)})
    requests = [
        engine.submit(Request(f"r{i}", join(text(name, shared), text(i, own)), output), at)
        for i, (name, shared, own, output, at) in enumerate(work)
    ]
    engine.run()
    assert len(engine.finished) + len(engine.refused) == len(requests)
    assert not engine.running
    assert not engine.waiting
    assert engine.cache.available() == engine.cache.capacity
    for request in engine.finished:
        assert request.produced == request.output_tokens
        assert request.first is not None
        assert request.end is not None
        assert request.arrival <= request.first <= request.end
        assert sum(emitted for _, emitted in request.chunks) == request.output_tokens
        assert request.accepted <= request.drafted
        if not request.retractions:
            assert request.cached_tokens < request.prompt_tokens
