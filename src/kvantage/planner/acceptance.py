"""Acceptance length: tokens a step yields, the bonus token included, and where a figure for it comes from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from kvantage.core import UsageError


@dataclass(frozen=True)
class Acceptance:
    """An acceptance length with its ends. `source` says whether it was measured, given or is a prior."""

    value: float
    low: float
    high: float
    source: str
    conditional: tuple[float, ...] = ()

    @classmethod
    def measured(cls, length: float, drafts: int, source: str = "given") -> Acceptance:
        """One number, with the chain of equal conditional rates that gives it."""
        if not 1 <= length <= drafts + 1:
            raise UsageError(f"an acceptance length of {length} is not between 1 and {drafts + 1} (k + 1)")
        return cls(length, length, length, source, (rate_for(length, drafts),) * drafts)


# Conditional acceptance at each position, least, usual and most: the range between prose and easy code of
# the public measurements that docs/planner.md lists. A prior is where to start, not a prediction.
PRIORS: dict[str, tuple[float, float, float]] = {
    "mtp": (0.55, 0.70, 0.85),
    "dflash": (0.60, 0.75, 0.90),
    "eagle3": (0.55, 0.70, 0.82),
    "draft_model": (0.50, 0.68, 0.85),
    "ngram": (0.05, 0.30, 0.80),
}


def from_conditional(rates: Sequence[float]) -> float:
    """1 + sum over j of the product of p_1 .. p_j, where p_i is accepted at i given all before it were."""
    length, reached = 1.0, 1.0
    for rate in rates:
        if not 0 <= rate <= 1:
            raise UsageError(f"an acceptance rate is between 0 and 1, not {rate}")
        reached *= rate
        length += reached
    return length


def from_unconditional(rates: Sequence[float]) -> float:
    """1 + their sum: rates of 'accepted at j, of all drafts', as engines print them."""
    if any(later > earlier + 1e-9 for earlier, later in pairwise(rates)):
        raise UsageError(
            "unconditional rates cannot rise from one position to the next; are these conditional ones?"
        )
    if any(not 0 <= rate <= 1 for rate in rates):
        raise UsageError("an acceptance rate is between 0 and 1")
    return 1 + sum(rates)


def conditional(rates: Sequence[float]) -> tuple[float, ...]:
    """Conditional rates from unconditional ones."""
    from_unconditional(rates)
    return tuple(
        0.0 if not before else rate / before for before, rate in zip([1.0, *rates], rates, strict=False)
    )


def rate_for(length: float, drafts: int) -> float:
    """The one conditional rate whose chain of `drafts` gives that length (found by halving)."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if from_conditional([middle] * drafts) < length else (low, middle)
    return (low + high) / 2


def prior(method: str, drafts: int) -> Acceptance:
    """What drafters of that kind usually reach, with its range. Raises UsageError for an unknown kind."""
    if method not in PRIORS:
        raise UsageError(f"there is no prior for `{method}`: give its acceptance length")
    low, usual, high = (from_conditional([rate] * drafts) for rate in PRIORS[method])
    return Acceptance(usual, low, high, f"a prior for {method}", (PRIORS[method][1],) * drafts)


def speed_up(length: float, rho: float) -> float:
    """AL / rho, where rho is the time of a speculative step in plain steps."""
    return length / rho


def leviathan(rate: float, drafts: int, cost: float) -> float:
    """(1 - a^(k+1)) / ((1 - a)(k c + 1)): the special case rho = k c + 1 (arXiv 2211.17192)."""
    length = drafts + 1 if rate == 1 else (1 - rate ** (drafts + 1)) / (1 - rate)
    return length / (drafts * cost + 1)


def step_cost(length: float, with_speculation: float, without: float) -> float:
    """rho from one measured pair of speeds in tok/s: (AL / on) / (1 / off). It is also the break-even AL."""
    return length / with_speculation * without
