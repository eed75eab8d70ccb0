"""Where an arm's pool went: what the drafter's weights, its KV, states and buffers took of the control's."""

from __future__ import annotations

from dataclasses import dataclass

from kvantage.core.arm import ArmSettings
from kvantage.core.facts import Facts
from kvantage.core.reading import Reading

BUFFERS = ("state_buffer_bytes", "activation_bytes", "graphs_bytes", "other_bytes")
LEFT_UNUSED = 0.01
"""Share of the control's pool from which memory that is left free is told."""
WORTH_TELLING = 0.0005
"""Share of the control's pool under which nothing was lost."""


@dataclass(frozen=True, slots=True)
class Part:
    """One taker: bytes on the rank that binds, and the tokens of target KV that they would have held."""

    name: str
    bytes: Reading
    tokens: Reading


@dataclass(frozen=True, slots=True)
class Attribution:
    """How the control's pool for the target became the arm's; parts and `unexplained` add up to `lost`.

    `lost` is in bytes of the target's KV on one rank (negative: the arm's pool is larger). A part that
    one of the two servers does not tell is missing, and is then within `unexplained`.
    """

    arm: str
    baseline: str
    lost: Part
    parts: tuple[Part, ...]
    unexplained: Part


@dataclass(frozen=True, slots=True)
class _Span:
    """A figure between two bounds, in bytes."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, reading: Reading) -> _Span | None:
        if reading.value is None:
            return None
        low = reading.value if reading.low is None else reading.low
        high = reading.value if reading.high is None else reading.high
        return cls(reading.value, low, high)

    def plus(self, other: _Span) -> _Span:
        return _Span(self.value + other.value, self.low + other.low, self.high + other.high)

    def minus(self, other: _Span) -> _Span:
        return _Span(self.value - other.value, self.low - other.high, self.high - other.low)


_NOTHING = _Span(0.0, 0.0, 0.0)


def attribute(arm: ArmSettings, facts: Facts, control: ArmSettings, baseline: Facts) -> Attribution | None:
    """The difference of two arms' pools, by what took it; None where nothing of note was lost.

    Bytes of the target's KV are compared, since some engines keep a drafter's KV in the same pool and some in
    one of its own.
    """
    theirs = _target(control, baseline, None)
    mine = _target(arm, facts, baseline)
    if theirs is None or mine is None or not theirs.value:
        return _untold(arm, facts, control, baseline, arm if mine is None else control)
    lost = theirs.minus(mine)
    shares_memory = not _pinned(arm, facts)
    beside = not shares_memory and _own_pool(facts)
    parts = [
        (
            "draft weights",
            _weights(facts, baseline) if shares_memory else _given(),
        ),
        ("draft KV", _beside() if beside else _draft_kv(arm, facts, control, baseline, mine)),
        ("state", _difference(facts, baseline, ("state_cache_bytes",)) if shares_memory else _given()),
        ("buffers", _difference(facts, baseline, BUFFERS) if shares_memory else _given()),
        ("left unused", _left_unused(facts, baseline, theirs.value) if shares_memory else None),
    ]
    kept = [(name, part) for name, part in parts if part is not None]
    rest = lost
    for _, part in kept:
        if (span := _Span.of(part)) is not None:
            rest = rest.minus(span)
    took = any(part.value for _, part in kept)
    if abs(lost.value) <= WORTH_TELLING * theirs.value and not took:
        return None
    each = _each(baseline)
    return Attribution(
        arm.name,
        control.name,
        _part("lost", _reading(lost), each),
        tuple(_part(name, part, each) for name, part in kept),
        _part("unexplained", _reading(rest, "what the parts before it leave"), each),
    )


def _untold(
    arm: ArmSettings, facts: Facts, control: ArmSettings, baseline: Facts, who: ArmSettings
) -> Attribution | None:
    """The refusal, where the pools differ and their bytes are not told."""
    pools = [each.reading("kv_pool_tokens").value for each in (facts, baseline)]
    if None in pools or pools[0] == pools[1]:
        return None
    why = Reading.absent(f"arm {who.name} does not tell how many bytes of its pool are the target's KV")
    none = Part("lost", why, why)
    return Attribution(arm.name, control.name, none, (), Part("unexplained", why, why))


def _part(name: str, size: Reading, each: _Span | None) -> Part:
    if size.value is None:
        return Part(name, size, Reading.absent(size.missing or "not known"))
    if each is None or not each.value:
        return Part(name, size, Reading.absent("the control does not tell the bytes of a token"))
    note = "at the control's bytes a token"
    return Part(name, size, Reading.of(round(size.value / each.value), "tokens", "computed", note=note))


def _reading(span: _Span, note: str | None = None) -> Reading:
    exact = span.low == span.high
    return Reading.of(
        span.value,
        "bytes",
        "computed",
        low=None if exact else span.low,
        high=None if exact else span.high,
        note=note,
    )


def _given() -> Reading:
    return Reading.absent("the study gives the pool's size, so this does not come out of it")


def _beside() -> Reading:
    return Reading.absent("the study gives the pool's size, and the drafter's cache lies beside it")


def _own_pool(facts: Facts) -> bool:
    """Whether the drafter's KV is an allocation of its own, and not a share of the target's blocks."""
    told = facts.reading("draft_kv_pool_bytes").value
    return bool(told) and not facts.reading("target_kv_pool_bytes").known


def _pinned(arm: ArmSettings, facts: Facts) -> bool:
    """Whether the study's own figure, not what fits, decided the pool."""
    if arm.settings.pool_bytes:
        return True
    asked, got = arm.settings.pool_tokens, facts.reading("kv_pool_tokens").value
    block = facts.reading("kv_block_tokens").value or 1
    return bool(asked and got is not None and got > asked - block)


def _drafts_kv(arm: ArmSettings) -> bool:
    """Whether the arm's way of drafting has weights and a KV cache of its own."""
    return arm.speculation.on and arm.speculation.method != "ngram"


def _target(arm: ArmSettings, facts: Facts, baseline: Facts | None) -> _Span | None:
    """Bytes of the target's KV: as told, or by the control's bytes a token where a shared pool hides them."""
    told = _Span.of(facts.reading("target_kv_pool_bytes"))
    if told is not None:
        return told
    whole = _Span.of(facts.reading("kv_pool_bytes")) or _Span.of(facts.reading("kv_available_bytes"))
    if not _drafts_kv(arm) or facts.reading("draft_kv_pool_bytes").known:
        return whole
    if baseline is None or whole is None:
        return None
    tokens, each = facts.reading("kv_pool_tokens").value, _each(baseline)
    if tokens is None or each is None or not facts.reading("kv_block_tokens").value:
        return None
    share = _Span(tokens * each.value, tokens * each.low, tokens * each.high)
    return share if share.low <= whole.high else None


def _each(facts: Facts) -> _Span | None:
    """The control's bytes a token, where its pool is plain blocks."""
    if (told := _Span.of(facts.reading("kv_bytes_per_token"))) is not None:
        return told
    whole = _Span.of(facts.reading("kv_pool_bytes"))
    tokens = facts.reading("kv_pool_tokens").value
    if whole is None or not tokens:
        return None
    return _Span(whole.value / tokens, whole.low / tokens, whole.high / tokens)


def _draft_kv(
    arm: ArmSettings, facts: Facts, control: ArmSettings, baseline: Facts, target: _Span
) -> Reading | None:
    before = _own_kv(control, baseline)
    now = _own_kv(arm, facts)
    if now is None:
        whole = _Span.of(facts.reading("kv_pool_bytes"))
        if whole is None or before is None:
            return Reading.absent("neither the drafter's KV nor the whole pool is told in bytes")
        note = "by difference: the whole pool less its tokens at the control's bytes a token"
        return _reading(whole.minus(target).minus(before), note)
    if before is None:
        return Reading.absent("the control's drafter does not tell its KV")
    return _reading(now.minus(before)) if now.value or before.value else None


def _own_kv(arm: ArmSettings, facts: Facts) -> _Span | None:
    if not _drafts_kv(arm):
        return _NOTHING
    return _Span.of(facts.reading("draft_kv_pool_bytes"))


def _weights(facts: Facts, baseline: Facts) -> Reading | None:
    """Weights beyond the control's: told apart, or as the difference of what each server loaded."""
    told = [_Span.of(each.reading("draft_weights_bytes")) for each in (facts, baseline)]
    both = [_Span.of(each.reading("weights_bytes")) for each in (facts, baseline)]
    if told[0] is not None or told[1] is not None:
        extra = (told[0] or _NOTHING).minus(told[1] or _NOTHING)
        return _reading(extra)
    if both[0] is None or both[1] is None:
        return Reading.absent("the weights' bytes are not told by both servers")
    extra = both[0].minus(both[1])
    return _reading(extra) if extra.value or extra.low != extra.high else None


def _left_unused(facts: Facts, baseline: Facts, pool: float) -> Reading | None:
    """Memory that the arm's server leaves free beyond the control's: an engine may charge more than it takes.

    None where it is less than `LEFT_UNUSED` of the control's pool, as boots differ by that.
    """
    mine, theirs = (_Span.of(each.reading("memory_left_bytes")) for each in (facts, baseline))
    if mine is None or theirs is None:
        return None
    extra = mine.minus(theirs)
    return _reading(extra) if extra.value > LEFT_UNUSED * pool else None


def _difference(facts: Facts, baseline: Facts, names: tuple[str, ...]) -> Reading | None:
    """How much more of these the arm holds; None where neither server has any."""
    extra, seen, untold = _NOTHING, False, []
    for name in names:
        mine, theirs = _Span.of(facts.reading(name)), _Span.of(baseline.reading(name))
        if mine is None and theirs is None:
            continue
        seen = True
        if (mine is None or theirs is None) and name != "state_buffer_bytes":
            untold.append(name)
            continue
        extra = extra.plus((mine or _NOTHING).minus(theirs or _NOTHING))
    if not seen:
        return None
    if untold:
        return Reading.absent(f"{', '.join(untold)}: told by one server only")
    return _reading(extra) if extra.value or extra.low != extra.high else None
