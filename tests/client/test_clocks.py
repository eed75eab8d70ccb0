"""Comparing two machines' clocks: the truth is always within the bound."""

from __future__ import annotations

from array import array
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from kvantage.client import Exchange
from kvantage.client.clocks import Offset, compare, in_our_time, machine_id

WAYS = st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**9)), min_size=1, max_size=30)


@given(st.integers(-(10**18), 10**18), WAYS)
async def test_the_true_offset_is_within_the_bound_however_uneven_the_ways(
    truth: int, ways: list[tuple[int, int]]
) -> None:
    now = 10**15
    left = iter(ways)

    async def ask() -> int:
        nonlocal now
        there, back = next(left)
        now += there
        told = now + truth
        now += back
        return told

    def clock() -> int:
        return now

    with mock.patch("kvantage.client.clocks.monotonic_ns", clock):
        found = await compare(ask, rounds=len(ways))
    assert found.low <= truth <= found.high
    assert abs(found.best - truth) <= found.bound
    quickest = min(there + back for there, back in ways)
    assert found.bound <= quickest / 2 + 1


@given(st.integers(-(10**12), 10**12), st.integers(0, 10**9), st.integers(-(10**6), 10**6))
def test_a_drift_between_two_comparisons_is_within_their_hull(truth: int, width: int, drift: int) -> None:
    first = Offset(truth - width, truth + width)
    last = Offset(truth + drift - width, truth + drift + width)
    over = first.join(last)
    for at in (truth, truth + drift // 2, truth + drift):
        assert abs(over.best - at) <= over.bound
    assert first.meet(first) == first


def test_an_exchange_comes_into_our_time_and_keeps_what_it_measured() -> None:
    exchange = Exchange(
        intended_ns=1_000,
        begun_ns=1_010,
        sent_ns=1_020,
        end_ns=5_000,
        read_ns=array("q", [2_000, 5_000]),
        read_ends=array("q", [1, 2]),
        body=b"ab",
        lag_ns=7,
    )
    ours = in_our_time(exchange, Offset(990, 1_010))
    assert (ours.intended_ns, ours.begun_ns, ours.sent_ns, ours.end_ns) == (0, 10, 20, 4_000)
    assert list(ours.read_ns) == [1_000, 4_000]
    assert ours.read_ns[0] - ours.sent_ns == exchange.read_ns[0] - exchange.sent_ns
    assert ours.lag_ns == 17
    assert ours.body == b"ab"


def test_processes_of_one_machine_know_each_other() -> None:
    assert machine_id() == machine_id() != ""
