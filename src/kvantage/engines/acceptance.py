"""What accepted and drafted counts mean, and the identities that they must obey.

Words: k drafts are proposed in one step, m of them accepted; a step emits m + 1 tokens, the bonus token
being the last. D = k + 1 is the width of a verification (SGLang's num-draft-tokens). AL is always 'incl.
bonus': 1 + m. Sources: arXiv 2211.17192 for m; the engines' own code for how each of them prints it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

DEAD_LENGTH = 1.01
"""An acceptance length up to here, with drafts proposed, is a drafter that costs and buys nothing."""

RateFormula = Literal["m/k", "(m+1)/D"]


@dataclass(frozen=True, slots=True)
class SpeculationCounts:
    """Counts of one request or of one span. None is 'not reported'.

    `histogram[i]` is the number of steps that accepted i drafts.
    """

    steps: int | None = None
    accepted: int | None = None
    drafted: int | None = None
    histogram: tuple[int, ...] | None = None

    @property
    def acceptance_length(self) -> float | None:
        """1 + accepted / steps."""
        if self.accepted is None or not self.steps:
            return None
        return 1 + self.accepted / self.steps

    @property
    def acceptance_rate(self) -> float | None:
        """accepted / drafted."""
        if self.accepted is None or not self.drafted:
            return None
        return self.accepted / self.drafted

    @property
    def drafts_per_step(self) -> float | None:
        """drafted / steps: k, where every step drafts as many."""
        if self.drafted is None or not self.steps:
            return None
        return self.drafted / self.steps

    @property
    def per_position(self) -> tuple[float, ...] | None:
        """Unconditional: the share of steps that accepted the draft at position j, from 0."""
        if self.histogram is None or sum(self.histogram) == 0:
            return None
        steps = sum(self.histogram)
        return tuple(sum(self.histogram[j:]) / steps for j in range(1, len(self.histogram)))

    @property
    def conditional(self) -> tuple[float, ...] | None:
        """The share accepted at position j among the steps that accepted all before it."""
        survival = self.per_position
        if survival is None:
            return None
        before = (1.0, *survival)
        return tuple(
            now / earlier if earlier else 0.0 for earlier, now in zip(before, survival, strict=False)
        )

    def broken(self) -> list[str]:
        """The identities that these counts break, in words; empty when they hold."""
        found = []
        if self.accepted is not None and self.drafted is not None and self.accepted > self.drafted:
            found.append(f"{self.accepted} drafts accepted of {self.drafted} proposed")
        if self.steps == 0 and (self.accepted or self.drafted):
            found.append("drafts without a verification step")
        if self.histogram is not None:
            if self.steps is not None and sum(self.histogram) != self.steps:
                found.append(f"the histogram holds {sum(self.histogram)} steps, not {self.steps}")
            weighted = sum(i * n for i, n in enumerate(self.histogram))
            if self.accepted is not None and weighted != self.accepted:
                found.append(f"the histogram holds {weighted} accepted drafts, not {self.accepted}")
        return found

    def believed(self) -> SpeculationCounts:
        """These counts where their identities hold; otherwise none of them."""
        return SpeculationCounts() if self.broken() else self


def printed_rate(accepted_per_step: float, width: int, formula: RateFormula) -> float:
    """The acceptance rate that SGLang prints for m accepted drafts a step of width D.

    Until sgl-project/sglang#23530 it was (m+1)/D, so that zero acceptance read 1/D; since then m/(D-1).
    """
    if formula == "(m+1)/D":
        return (accepted_per_step + 1) / width
    return accepted_per_step / (width - 1)


def widths(length: float, rate: float, formula: RateFormula) -> frozenset[int]:
    """The widths D that a printed length and rate allow, both rounded to two digits.

    One more unit in the rate's last digit is allowed, since it was rounded from an unrounded length.
    """
    low_rate, high_rate = max(rate - 0.0101, 0.001), rate + 0.0101
    shift = 0 if formula == "(m+1)/D" else 1
    least = (length - shift - 0.0051) / high_rate
    most = (length - shift + 0.0051) / low_rate
    return frozenset(n + shift for n in range(max(1, math.ceil(least)), math.floor(most) + 1))


def infer_width(windows: Iterable[tuple[float, float]]) -> tuple[int | None, RateFormula | None]:
    """(D, formula) from printed (length, rate) pairs; None for what they leave open.

    infer_width([(2.83, 0.61)])  # (4, "m/k"): under the older formula D would be 4.64
    infer_width([(8.0, 1.0)])    # (8, None): at the ceiling both formulas print 1.00
    infer_width([(2.0, 0.33)])   # (None, None): 4 by one formula, 6 by the other
    """
    fits: dict[RateFormula, frozenset[int] | None] = {"m/k": None, "(m+1)/D": None}
    for length, rate in windows:
        if rate < 0.005:
            # The older formula prints at least 1/D.
            fits["(m+1)/D"] = frozenset()
        elif rate > 0.03:
            for formula, seen in fits.items():
                allowed = widths(length, rate, formula)
                fits[formula] = allowed if seen is None else seen & allowed
    open_formulas = [formula for formula, allowed in fits.items() if allowed is None or allowed]
    together = frozenset().union(*(allowed for allowed in fits.values() if allowed))
    width = next(iter(together)) if len(together) == 1 else None
    return width, open_formulas[0] if len(open_formulas) == 1 else None
