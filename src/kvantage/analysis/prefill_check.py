"""Whether first-token times by length show a cache where there should be none: by their shape alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from kvantage.core.reading import Reading

NOISE = 0.05
"""Share of a first-token time that is taken as noise where documents of one length differ by less."""

FILLED_TOKENS, FILLED_S = 2048, 0.1
"""Below both, a device may not be filled yet, so that twice the tokens take no longer."""

CheckStatus = Literal["passed", "flagged", "not told"]


@dataclass(frozen=True, slots=True)
class Point:
    """A first-token time: tokens computed for it, seconds, and by how much they may be off."""

    tokens: float
    seconds: float
    noise: float


def check_points(points: Sequence[Point]) -> tuple[CheckStatus, str]:
    """The check on (tokens, seconds, noise), fewest tokens first; see `check_ladder`."""
    if len(points) < 2:
        return "not told", "fewer than two lengths were measured"
    flags = []
    for place in range(1, len(points)):
        before, here = points[place - 1], points[place]
        if _flat(before, here):
            flags.append(
                f"{here.tokens:,.0f} tokens took {here.seconds:.3g} s, no longer than "
                f"{before.tokens:,.0f} did ({before.seconds:.3g} s)"
            )
            continue
        if place < 2:
            continue
        due, noise = _due(points[place - 2], before, here)
        if here.seconds < due - noise:
            flags.append(
                f"{here.tokens:,.0f} tokens took {here.seconds:.3g} s, where at the rate of the shorter ones "
                f"at least {due:.3g} s were due (noise {noise:.2g} s)"
            )
    if flags:
        return "flagged", "the prefill rate rises with length, as from a cache: " + "; ".join(flags)
    if len(points) < 3:
        return "not told", "a rise by more than the fixed start needs three lengths, or two and a cache"
    return "passed", "the prefill rate does not rise with length by more than noise"


def _flat(before: Point, here: Point) -> bool:
    """Twice the tokens took no longer, where they should: a few in a few milliseconds may well not."""
    if here.tokens < 2 * before.tokens or (here.tokens < FILLED_TOKENS and here.seconds < FILLED_S):
        return False
    return here.seconds < before.seconds + before.noise + here.noise


def _due(first: Point, second: Point, third: Point) -> tuple[float, float]:
    """(least seconds, noise) at the third point if each token costs at least what it did before."""
    grows = (third.tokens - second.tokens) / (second.tokens - first.tokens)
    due = second.seconds + grows * (second.seconds - first.seconds)
    return due, third.noise + (1 + grows) * second.noise + grows * first.noise


def point_of(tokens: Reading, ttft: Reading) -> Point:
    """A rung's point; half of its range is its noise, and 5 % at least."""
    assert tokens.value is not None
    assert ttft.value is not None
    half = 0.0 if ttft.low is None or ttft.high is None else (ttft.high - ttft.low) / 2
    return Point(tokens.value, ttft.value, max(half, NOISE * ttft.value))
