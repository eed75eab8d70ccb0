"""What holds the loop while nothing is in flight delays no timestamp, and counts against nobody."""

from __future__ import annotations

import asyncio
import time

import pytest

from kvantage.client import lag
from kvantage.client.lag import LagProbe

STALL_S = 0.06


async def delays_of(resting: bool) -> tuple[int, int]:
    """(the largest delay of a span in which the loop was held, how many values it has)."""
    with LagProbe() as probe, probe.span() as delays:
        await asyncio.sleep(0.03)
        if resting:
            with probe.at_rest():
                time.sleep(STALL_S)  # noqa: ASYNC251
        else:
            time.sleep(STALL_S)  # noqa: ASYNC251
        await asyncio.sleep(0.03)
        return max(delays.values_ns), len(delays.values_ns)


@pytest.mark.parametrize("kernel_timer", [True, False])
async def test_a_stall_counts_unless_the_client_is_at_rest(
    kernel_timer: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not kernel_timer:
        monkeypatch.setattr(lag, "open_timer", lambda *_: -1)
    busy, of_all = await delays_of(resting=False)
    calm, of_rest = await delays_of(resting=True)
    assert busy >= 0.75 * STALL_S * 1e9
    assert calm < 0.5 * STALL_S * 1e9
    assert of_rest < of_all


async def test_a_stall_before_the_rest_still_counts() -> None:
    with LagProbe() as probe, probe.span() as delays:
        await asyncio.sleep(0.01)
        time.sleep(STALL_S)  # noqa: ASYNC251
        with probe.at_rest():
            pass
        assert max(delays.values_ns) >= 0.75 * STALL_S * 1e9


@pytest.mark.parametrize("kernel_timer", [True, False])
async def test_a_stall_before_a_span_is_not_the_spans(
    kernel_timer: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server's counters are parsed just before a cell begins: it must not void the cell."""
    if not kernel_timer:
        monkeypatch.setattr(lag, "open_timer", lambda *_: -1)
    with LagProbe() as probe:
        await asyncio.sleep(0.01)
        time.sleep(STALL_S)  # noqa: ASYNC251
        with probe.span() as delays:
            sent_ns = time.monotonic_ns()
            await asyncio.sleep(0.02)
        assert max(delays.values_ns) < 0.5 * STALL_S * 1e9
        assert probe.since(sent_ns) < 0.5 * STALL_S * 1e9
