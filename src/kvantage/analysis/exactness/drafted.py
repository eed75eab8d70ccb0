"""Did the arm's drafter really draft? A comparison with one that did not could not have failed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kvantage.analysis.acceptance import DEAD_LENGTH
from kvantage.core import Answer, Spoken


@dataclass(frozen=True, slots=True)
class Drafting:
    """What the drafter came to over an arm's answers. `length` is the acceptance length incl. bonus.

    `fault` says why a comparison with it proves nothing; None where it drafted, or was not meant to. One that
    was not declared to draft and does is taken for what it does.
    """

    speculates: bool
    drafted: float | None
    accepted: float | None
    length: float | None
    source: str | None
    fault: str | None


def drafting_of(answers: Sequence[Answer], spoken: Spoken | None, *, speculates: bool) -> Drafting:
    """By the requests' own counts where all tell them, else by the server's counters, with its log's
    acceptance length where the counters tell steps alone.
    """
    drafted, accepted, steps, source = _counts(answers, spoken)
    length = 1 + accepted / steps if accepted is not None and steps else None
    return Drafting(speculates, drafted, accepted, length, source, _fault(speculates, drafted, steps, length))


def _counts(
    answers: Sequence[Answer], spoken: Spoken | None
) -> tuple[float | None, float | None, float | None, str | None]:
    told = [each for each in answers if each.steps is not None and each.accepted is not None]
    if told and len(told) == len(answers):
        drafted = [each.drafted for each in told]
        total = None if any(each is None for each in drafted) else sum(each or 0.0 for each in drafted)
        accepted, steps = sum(each.accepted or 0 for each in told), sum(each.steps or 0 for each in told)
        return total, accepted, steps, "request"
    if spoken is not None and spoken.accepted is None and spoken.length is not None and spoken.drafts:
        accepted = (spoken.length - 1) * spoken.drafts
        return spoken.drafted, accepted, spoken.drafts, "log window"
    if spoken is not None:
        return spoken.drafted, spoken.accepted, spoken.drafts, "counter delta"
    return None, None, None, None


def _fault(speculates: bool, drafted: float | None, steps: float | None, length: float | None) -> str | None:
    if not (speculates or drafted or steps):
        return None
    if drafted == 0 or steps == 0:
        return "speculation is on, and no draft was counted: the drafts did not move"
    if length is None:
        return "speculation is on, and nothing that the server reports shows that it drafts"
    if length <= DEAD_LENGTH:
        return (
            f"dead drafter (acceptance length {length:.2f} <= {DEAD_LENGTH} with drafts > 0): the comparison "
            "could not have failed"
        )
    return None
