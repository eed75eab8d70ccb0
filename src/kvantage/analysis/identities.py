"""Identities that honest numbers obey. Each check returns None, or a sentence that says what is broken."""

from __future__ import annotations

from collections.abc import Sequence

ITL_TOLERANCE = 0.25


def itl_matches_rate(itl_s: float, tok_s: float) -> str | None:
    """At concurrency 1, inter-token latency x tok/s is about 1; more means gaps between chunks.

    8.72 ms beside 292.29 tok/s is a product of 2.55: the gaps are per chunk.
    """
    product = itl_s * tok_s
    if abs(product - 1) <= ITL_TOLERANCE:
        return None
    return f"inter-token latency x tok/s is {product:.2f}, not about 1: gaps are not per token"


def peak_reaches_mean(peak: float, mean: float) -> str | None:
    """A peak below the mean is impossible: it counted chunks, not tokens."""
    if peak >= mean:
        return None
    return f"a peak of {peak:.6g} below the mean of {mean:.6g} ({peak / mean:.3f} of it) is impossible"


def histogram_fits(histogram: Sequence[int], steps: float | None, accepted: float | None) -> str | None:
    """The histogram's entries sum to the steps, and weighted by their drafts to the accepted drafts."""
    total = sum(histogram)
    if steps is not None and total != steps:
        return f"the acceptance histogram holds {total} steps, the server counts {steps:.0f}"
    weighted = sum(place * number for place, number in enumerate(histogram))
    if accepted is not None and weighted != accepted:
        return f"the acceptance histogram holds {weighted} accepted drafts, the server counts {accepted:.0f}"
    return None


def accepted_within_drafted(accepted: float, drafted: float) -> str | None:
    """No more drafts are accepted than were proposed."""
    if accepted <= drafted:
        return None
    return f"{accepted:.0f} accepted drafts of {drafted:.0f} proposed is impossible"


def emitted_covers(accepted: float, steps: float, emitted: float, slack: float) -> str | None:
    """Accepted drafts plus one bonus token a step are emitted, up to `slack` tokens cut at the ends."""
    if accepted + steps <= emitted + slack:
        return None
    return f"{accepted:.0f} accepted drafts and {steps:.0f} steps exceed the {emitted:.0f} tokens emitted"
