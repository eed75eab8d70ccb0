"""The verdict in words: those of the protocol and no others, never without a control."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kvantage.analysis.exactness.classes import ExactnessClass
from kvantage.analysis.exactness.classify import Difference
from kvantage.analysis.exactness.divergence import Pair, Unit
from kvantage.analysis.exactness.rescoring import LEVEL, Floor, Gaps
from kvantage.analysis.exactness.sampling import LEVEL as SAMPLING_LEVEL
from kvantage.analysis.exactness.sampling import PrefixTest
from kvantage.analysis.exactness.survival import Compared

SOONER = 0.05
"""The level at which an arm that parts from the control sooner than the control from itself is called so."""


@dataclass(frozen=True, slots=True)
class Words:
    """A verdict: its class, the protocol's words, and the figures behind them."""

    cls: ExactnessClass
    words: str
    detail: str


def void(reason: str) -> Words:
    """No verdict, and why."""
    return Words("void", f"void: {reason}", reason)


def say(
    mixed: Sequence[Pair],
    off: Sequence[Pair],
    compared: Compared | None,
    found: Sequence[Difference],
    gaps: Gaps | None,
    floor: Floor | None,
    no_floor: str | None,
    unit: Unit,
    left_out: Sequence[str] = (),
) -> Words:
    """The verdict on one arm at one concurrency, from pairs that can be compared.

    A structural token, or more tokens over the floor than the control's own rate gives, is 'differs'. Else,
    where pairs of arm and control part no sooner than pairs of the control, 'consistent with the off-vs-off
    floor'; where they part sooner, 'near-tie flips only'.
    """
    prompts = len({each.prompt_id for each in mixed})
    apart = [each for each in mixed if not each.identical]
    apart_off = [each for each in off if not each.identical]
    also = f"; left out: {', '.join(left_out)} (an answer failed or is empty)" if left_out else ""
    own = f"{len(apart)} of {len(mixed)} on-off pairs and {len(apart_off)} of {len(off)} off-off pairs part"
    if not apart:
        places = sum(
            {(each.prompt_id, each.first.token_ids, each.first.text): each.length for each in mixed}.values()
        )
        return Words("bit-identical", f"bit-identical on {prompts} prompts, {places:,} {unit}", own + also)
    structural = [one for one in found if one.cls == "structural"]
    if gaps is not None and floor is not None and (structural or gaps.structural or gaps.p < LEVEL):
        return _differs(structural, gaps, floor, own + also)
    sooner = compared is not None and compared.p < SOONER
    p = f", p = {compared.p:.3f}" if compared is not None else ""
    epsilon = f"{floor.limit:.3g} nats" if floor is not None else f"not measured: {no_floor}"
    if not sooner:
        said = f"consistent with the off-vs-off floor (n = {prompts} prompts, epsilon = {epsilon})"
        return Words("consistent with the off-vs-off floor", said, f"{own}{p}{also}")
    if floor is None or gaps is None:
        return void(
            f"the answers part sooner than the control's own ({own}{p}), and no gap is known: {no_floor}"
        )
    unscored = sum(one.cls is None for one in found)
    if unscored:
        return void(
            f"the answers part sooner than the control's own ({own}{p}), and {unscored} of {len(found)} "
            "divergences have no score"
        )
    largest = max((one.gap for one in found if one.gap is not None), default=0.0)
    ties = sum(one.cls == "exact tie" for one in found)
    detail = (
        f"{own}{p}; {len(found)} distinct divergences, {ties} exact ties, the largest gap {largest:.3g} "
        f"nats, epsilon {epsilon}{also}"
    )
    return Words("near-tie flips only", "near-tie flips only", detail)


def _differs(structural: Sequence[Difference], gaps: Gaps, floor: Floor, own: str) -> Words:
    """Named is the worst first divergence, or, where none is structural, the token with the largest gap."""
    if structural and structural[0].gap is not None:
        prompt, place, gap = structural[0].prompt_id, structural[0].position, structural[0].gap
    else:
        (prompt, place), gap = gaps.worst, gaps.largest
    detail = (
        f"gap {gap:.3g} nats where a near tie ends at {floor.edge:.3g}; {gaps.structural:,} of "
        f"{gaps.tokens:,} tokens are over that, {gaps.over:,} over the floor of {floor.limit:.3g}, "
        f"{gaps.expected:.1f} expected by the control's own rate (p = {gaps.p:.2g}); {own}"
    )
    return Words("differs", f"differs: structural at prompt {prompt}, token {place}", detail)


def sampled(tests: Sequence[PrefixTest]) -> Words | None:
    """What the samples say when they differ; None when they do not, or when there are none."""
    beyond = [each for each in tests if each.p_holm < SAMPLING_LEVEL]
    if not beyond:
        return None
    worst = min(beyond, key=lambda each: (each.p_holm, -each.distance))
    said = f"differs: structural at prompt {worst.prompt_id}, token {worst.place}"
    detail = (
        f"sampled: at {len(beyond)} of {len(tests)} prompts the next tokens have another distribution "
        f"(p = {worst.p_holm:.2g} after Holm, total variation {worst.distance:.2f} where chance gives "
        f"{worst.expected:.2f})"
    )
    return Words("differs", said, detail)
