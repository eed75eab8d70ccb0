"""What a KV pool holds: tokens, bytes, and sessions at a stated length."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kvantage.core.facts import Facts
from kvantage.core.reading import Reading

MULTIPLES = (1, 2, 4)
NOT_SERVED = "pool arithmetic, not served"


@dataclass(frozen=True)
class Pool:
    """One arm's KV pool, and what it lost against the control in percent (negative: it gained)."""

    tokens: Reading
    bytes: Reading
    lost_tokens: Reading
    lost_bytes: Reading
    context_length: Reading
    block_tokens: Reading


@dataclass(frozen=True)
class Sessions:
    """How many sessions of one length a pool holds.

    A session is its input and its answer. `sessions` is the quotient to one decimal; `whole` counts
    sessions that fit entirely, each in whole blocks; `headroom` is what they leave, in tokens.
    `note` is set where the length exceeds what one request may have.
    """

    name: str
    session_tokens: Reading
    sessions: Reading
    whole: Reading
    headroom: Reading
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Length:
    """A session length to count by: `name` is its multiple of the study's document, such as `2x`."""

    name: str
    input_tokens: int
    answer_tokens: int

    @property
    def tokens(self) -> int:
        """Input and answer together."""
        return self.input_tokens + self.answer_tokens


def session_lengths(document: int, answer: int, measured: int | None = None) -> tuple[Length, ...]:
    """Lengths at 1, 2 and 4 times the study's document, each with the repeat's answer.

    At 1x the input is what the server counted (`measured`), where known: documents of 128,000 tokens
    counted as 127,997 with answers of 2,048 make sessions of 130,045.
    """
    return tuple(
        Length(f"{times}x", measured if times == 1 and measured is not None else times * document, answer)
        for times in MULTIPLES
    )


def count_sessions(pool: float, session: int, block: int = 1) -> tuple[float, int, float]:
    """(quotient to one decimal, whole sessions, tokens left over).

    520,192 / 130,045 gives 4.0, 4 whole and 12 tokens left. A session takes whole blocks of `block`.
    """
    taken = -(-session // block) * block
    whole = math.floor(pool / taken)
    return round(pool / session, 1), whole, pool - whole * taken


def lost_percent(control: float, arm: float) -> float:
    """How much smaller a pool is than the control's, in percent: 1,703,232 to 982,464 is 42.3."""
    return (control - arm) / control * 100


def read_pool(boots: Sequence[Facts], control: Sequence[Facts], is_control: bool) -> Pool:
    """The pool of an arm over its boots (median, with the range where boots differ)."""
    tokens, size = _over_boots(boots, "kv_pool_tokens"), _over_boots(boots, "kv_pool_bytes")
    return Pool(
        tokens,
        size,
        _lost(_over_boots(control, "kv_pool_tokens"), tokens, is_control),
        _lost(_over_boots(control, "kv_pool_bytes"), size, is_control),
        _over_boots(boots, "context_length"),
        _over_boots(boots, "kv_block_tokens"),
    )


def hold_sessions(pool: Pool, lengths: Sequence[Length]) -> tuple[Sessions, ...]:
    """The sessions table of one arm."""
    return tuple(_hold(pool, length) for length in lengths)


def _hold(pool: Pool, length: Length) -> Sessions:
    session = Reading.of(
        length.tokens,
        "tokens",
        "computed",
        note=f"input {length.input_tokens:,} + answer {length.answer_tokens:,}",
    )
    limit = pool.context_length.value
    note = None
    if limit is not None and length.tokens > limit:
        note = f"{NOT_SERVED}: longer than the context limit of {limit:,.0f} tokens"
    if pool.tokens.value is None:
        gone = Reading.absent(pool.tokens.missing or "the pool is not known")
        return Sessions(length.name, session, gone, gone, gone, note)
    block = int(pool.block_tokens.value or 1)
    quotient, whole, left = count_sessions(pool.tokens.value, length.tokens, block)
    return Sessions(
        length.name,
        session,
        Reading.of(quotient, "sessions", "computed", note=note),
        Reading.of(whole, "sessions", "computed", note=note),
        Reading.of(left, "tokens", "computed", note=f"left when {whole} are resident"),
        note,
    )


def _over_boots(boots: Sequence[Facts], name: str) -> Reading:
    readings = [facts.reading(name) for facts in boots]
    values = [reading.value for reading in readings if reading.value is not None]
    if not values:
        return readings[0] if readings else Reading.absent("no boot came up")
    first = next(reading for reading in readings if reading.known)
    return first if min(values) == max(values) else median_of(values, first)


def median_of(values: Sequence[float], first: Reading) -> Reading:
    """The median over boots, with the range, in the unit and of the source of the `first` of them."""
    assert first.source is not None
    return Reading.of(
        float(np.median(values)),
        first.unit,
        first.source,
        low=min(values),
        high=max(values),
        note=f"median and range over {len(values)} boots",
    )


def _lost(control: Reading, arm: Reading, is_control: bool) -> Reading:
    if is_control:
        return Reading.absent("this is the control")
    if arm.value is None:
        return Reading.absent(arm.missing or "not known")
    if not control.value:
        return Reading.absent(f"the control's is not known: {control.missing}")
    return Reading.of(lost_percent(control.value, arm.value), "%", "computed", note="against the control")
