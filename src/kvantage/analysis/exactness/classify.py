"""Each divergence with its tokens, their rivals and the text around: exact tie, near tie, or structural."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kvantage.analysis.exactness.arithmetic import Divergence
from kvantage.analysis.exactness.divergence import Pair
from kvantage.analysis.exactness.rescoring import Floor
from kvantage.core import Answer, Scores

AROUND = 48
ULP_AT_16 = 0.125
"""One bfloat16 ULP of a logit from 16 to 32. Logits are not served: the view takes that size and says so."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """What one side said at a divergence. `gap` is in nats; None where it was not scored or the text ended.

    `ended` marks a side whose answer stops here.
    """

    token: int | None
    text: str
    gap: float | None
    ended: bool = False


@dataclass(frozen=True, slots=True)
class Difference:
    """A distinct first divergence between an arm and the control.

    `cls` is None where no gap is known; `gap` is that of the arm's token, `ulps` the same in bf16 ULPs of a
    logit from 16 to 32. `rivals` are the scorer's likeliest tokens there as (text, logprob). `pairs` says
    how many pairs parted so.
    """

    arm: str
    concurrency: int
    prompt_id: str
    position: int
    arm_says: Chosen
    control_says: Chosen
    cls: Divergence | None
    gap: float | None
    rivals: tuple[tuple[str, float], ...]
    before: str
    arm_after: str
    control_after: str
    pairs: int

    @property
    def ulps(self) -> float | None:
        """The gap in bf16 ULPs of a logit from 16 to 32."""
        return None if self.gap is None else self.gap / ULP_AT_16


def classify(arm_gap: float, control_gap: float | None, floor: Floor) -> Divergence:
    """A divergence by the gap of the arm's token: an exact tie when neither side is below the best."""
    if arm_gap == 0 and control_gap == 0:
        return "exact tie"
    return "near tie" if arm_gap <= floor.edge else "structural"


def differences(
    arm: str, pairs: Sequence[Pair], scores: Mapping[str, Scores], floor: Floor | None
) -> tuple[Difference, ...]:
    """The distinct first divergences of on-off pairs, the worst gap first. In a pair the arm is `first`."""
    counted: dict[tuple[object, ...], list[Pair]] = {}
    for each in pairs:
        if each.position is not None:
            ids = [_token(side, each.position) for side in (each.first, each.second)]
            counted.setdefault((each.concurrency, each.prompt_id, each.position, *ids), []).append(each)
    made = [_difference(arm, group, scores, floor) for group in counted.values()]
    return tuple(sorted(made, key=lambda one: (-(one.gap if one.gap is not None else -1), one.position)))


def _difference(
    arm: str, group: Sequence[Pair], scores: Mapping[str, Scores], floor: Floor | None
) -> Difference:
    each = group[0]
    assert each.position is not None
    on, off = (_said(side, each.position, scores) for side in (each.first, each.second))
    cls = None
    if on.gap is not None and floor is not None:
        cls = classify(on.gap, off.gap, floor)
    before, arm_after = _text_at(each.first, each.position, scores)
    _, control_after = _text_at(each.second, each.position, scores)
    return Difference(
        arm,
        each.concurrency,
        each.prompt_id,
        each.position,
        on,
        off,
        cls,
        on.gap,
        _rivals(each.first, each.position, scores),
        before,
        arm_after,
        control_after,
        len(group),
    )


def _token(answer: Answer, position: int) -> object:
    words: Sequence[object] = answer.token_ids if answer.token_ids is not None else answer.text
    return words[position] if position < len(words) else None


def _said(answer: Answer, position: int, scores: Mapping[str, Scores]) -> Chosen:
    if answer.token_ids is None:
        text = answer.text[position : position + 1]
        return Chosen(None, text, None, not text)
    if position >= len(answer.token_ids):
        return Chosen(None, "", None, True)
    token = answer.token_ids[position]
    told = scores.get(answer.digest or "")
    if told is None:
        return Chosen(token, "", None)
    return Chosen(token, told.texts.get(token, ""), told.gaps[position])


def _rivals(answer: Answer, position: int, scores: Mapping[str, Scores]) -> tuple[tuple[str, float], ...]:
    told = scores.get(answer.digest or "")
    if told is None or position >= len(told.rivals):
        return ()
    return tuple(
        (told.texts.get(token, "") or f"[{token}]", logprob) for token, logprob in told.rivals[position]
    )


def _text_at(answer: Answer, position: int, scores: Mapping[str, Scores]) -> tuple[str, str]:
    """The text before a place and from it on; by tokens where their texts are known, else by share."""
    if answer.token_ids is None:
        text = answer.text
        return text[max(0, position - AROUND) : position], text[position : position + AROUND]
    told = scores.get(answer.digest or "")
    if told is None:
        return "", ""
    words = [told.texts.get(token, "") for token in answer.token_ids]
    return "".join(words[:position])[-AROUND:], "".join(words[position:])[:AROUND]
