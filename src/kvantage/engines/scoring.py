"""From a server's logprobs of given tokens to `Scores`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from kvantage.core import Scores, ScoringError
from kvantage.engines.http import Answer

RIVALS = 4
"""So many of the likeliest tokens are kept at each position."""


def scores_of(
    output_ids: Sequence[int],
    positions: Sequence[Mapping[int, float]],
    texts: Mapping[int, str] | None = None,
) -> Scores:
    """`positions[i]` holds the logprobs that the server told for position i, that of the answer's token
    among them. Raises ScoringError where they do not fit the answer.
    """
    if len(positions) != len(output_ids):
        raise ScoringError(f"the server scored {len(positions)} of {len(output_ids)} tokens")
    chosen, best, best_id, rivals = [], [], [], []
    for place, (token, told) in enumerate(zip(output_ids, positions, strict=True)):
        if token not in told:
            raise ScoringError(f"the server told no logprob of the answer's token {place}")
        # of equal logprobs the answer's own token comes first: an exact tie is no error
        order = sorted(told.items(), key=lambda pair: (-pair[1], pair[0] != token, pair[0]))
        chosen.append(told[token])
        best.append(order[0][1])
        best_id.append(order[0][0])
        rivals.append(tuple(order[:RIVALS]))
    known = set(best_id) | {token for row in rivals for token, _ in row} | set(output_ids)
    kept = {token: text for token, text in (texts or {}).items() if token in known}
    return Scores(tuple(chosen), tuple(best), tuple(best_id), tuple(rivals), kept)


def first_choice(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """The first choice of an OpenAI answer, empty where there is none."""
    choices = body.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    return choice if isinstance(choice, Mapping) else {}


def token_ids(value: Any) -> tuple[int, ...] | None:
    """A list of whole numbers, or None for anything else."""
    if isinstance(value, list) and all(type(each) is int for each in value):
        return tuple(value)
    return None


def told_by(answer: Answer, where: str) -> Mapping[str, Any]:
    """The JSON object of an answer. Raises ScoringError with the server's words where it is none."""
    told = answer.json()
    if not answer.ok or not isinstance(told, Mapping):
        raise ScoringError(f"the server's {where} answers {answer.status}: {answer.body[:200]}")
    return told


def number(value: Any) -> float | None:
    """A finite logprob, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None
