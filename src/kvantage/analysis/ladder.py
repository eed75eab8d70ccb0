"""A ladder of first-token times: uncached and from the cache, by length; and whether a cache is in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from kvantage.analysis import wording
from kvantage.analysis.first_token import is_outlier, seconds, sent_as
from kvantage.analysis.measure import MeasuredCell
from kvantage.analysis.prefill_check import CheckStatus, Point, check_points, point_of
from kvantage.analysis.speed import Excluded
from kvantage.analysis.stats import ratio_interval
from kvantage.core.columns import Floats, StudyData
from kvantage.core.facts import Facts
from kvantage.core.reading import Reading

PHASE = "ttft"
FIRST = "first"
REPEATS = (1, 2)
TURNS = {0: "uncached", 1: "first repeat", 2: "second repeat"}
CACHING_OFF = "prefix caching is off"


@dataclass(frozen=True)
class Turn:
    """One length's documents at one turn: 0 uncached, 1 and 2 the repeats.

    ttft        median with the range over documents; of a repeat that missed the cache too
    to_control  geometric mean of the ratios to the control's, document by document
    cached      tokens that the server served from its cache, of `asked` prompt tokens; `expected` is the
                range that a sound cache may serve, `missed` counts requests served less
    """

    turn: int
    ttft: Reading
    to_control: Reading
    asked: Reading
    cached: Reading
    expected: Reading
    missed: Reading
    words: str | None


@dataclass(frozen=True)
class Rung:
    """One length. `prefill` is prompt tokens computed / TTFT, the request's fixed costs inside; `further` is
    tokens more than the rung before / time more, those costs left out.
    """

    length: int
    status: Literal["ok", "void"]
    reasons: tuple[str, ...]
    prompt_tokens: Reading
    turns: tuple[Turn, ...]
    prefill: Reading
    further: Reading
    excluded: tuple[Excluded, ...]


@dataclass(frozen=True)
class FirstRequest:
    """The first request after boot, beside what is usual at its length. `compiled` is None where it cannot be
    told; `was_first` is False where other requests came before it.
    """

    ttft: Reading
    usual: Reading
    compiled: bool | None
    was_first: bool
    words: str


@dataclass(frozen=True)
class Ladder:
    """One boot's ladder. `check` says whether a cache is in what should be uncached, by the clock."""

    arm: str
    block: int
    first: FirstRequest | None
    rungs: tuple[Rung, ...]
    check: CheckStatus
    check_words: str
    reuse_sound: bool | None
    reuse: str


def read_ladders(
    data: StudyData,
    measured: Mapping[str, Sequence[MeasuredCell]],
    facts: Mapping[tuple[str, int], Facts],
) -> tuple[Ladder, ...]:
    """Every boot's ladder, in the order of the study."""
    mine = {arm: [each for each in cells if each.cell.key.phase == PHASE] for arm, cells in measured.items()}
    control = mine.get(data.control, [])
    return tuple(
        _ladder(data, arm, block, [each for each in cells if each.cell.key.block == block], control, facts)
        for arm, cells in mine.items()
        for block in dict.fromkeys(each.cell.key.block for each in cells)
    )


def _ladder(
    data: StudyData,
    arm: str,
    block: int,
    cells: Sequence[MeasuredCell],
    control: Sequence[MeasuredCell],
    facts: Mapping[tuple[str, int], Facts],
) -> Ladder:
    by_length = sorted((each for each in cells if each.cell.key.workload != FIRST), key=_length)
    theirs = {each.cell.key: each for each in control}
    rungs: list[Rung] = []
    for each in by_length:
        other = next(
            (found for key, found in theirs.items() if _same_place(key, each.cell.key)),
            None,
        )
        before = rungs[-1] if rungs else None
        rungs.append(
            _rung(data, each, other if arm != data.control else None, facts.get((arm, block)), before)
        )
    opening = next((each for each in cells if each.cell.key.workload == FIRST), None)
    check, words = check_ladder(rungs)
    sound, reuse = _reuse(rungs)
    return Ladder(
        arm=arm,
        block=block,
        first=None if opening is None else _first(data, opening, by_length, rungs),
        rungs=tuple(rungs),
        check=check,
        check_words=words,
        reuse_sound=sound,
        reuse=reuse,
    )


def _length(each: MeasuredCell) -> int:
    return int(each.cell.key.workload)


def _same_place(one: object, other: object) -> bool:
    return (one.block, one.workload) == (other.block, other.workload)  # type: ignore[attr-defined]


def _rung(
    data: StudyData, each: MeasuredCell, other: MeasuredCell | None, facts: Facts | None, before: Rung | None
) -> Rung:
    found, timing = each.findings, each.timing
    turns = tuple(_turn(data, each, other, facts, turn) for turn in TURNS)
    computed = data.requests.prompt_tokens - np.nan_to_num(data.requests.cached_tokens)
    rates = np.full(len(timing), np.nan)
    np.divide(computed[timing.rows], timing.ttft, out=rates, where=np.nan_to_num(timing.ttft) > 0)
    fresh = rates[each.kept]
    prompts = data.requests.prompt_tokens[timing.rows]
    known = prompts[np.isfinite(prompts)]
    return Rung(
        length=_length(each),
        status=found.status.status,
        reasons=found.status.reasons,
        prompt_tokens=Reading.of(float(np.median(known)), "tokens", "request", note="median")
        if known.size
        else Reading.absent("the server does not report prompt tokens"),
        turns=turns,
        prefill=_prefill(fresh, found.ok, found.status.reasons),
        further=_further(before, turns[0].ttft, known),
        excluded=found.speed.excluded,
    )


def _turn(
    data: StudyData, each: MeasuredCell, other: MeasuredCell | None, facts: Facts | None, turn: int
) -> Turn:
    requests, timing, found = data.requests, each.timing, each.findings
    chosen = each.kept if turn == 0 else sent_as(requests, timing, turn)
    whose = timing.rows[sent_as(requests, timing, turn)]
    asked, cached = requests.prompt_tokens[whose], requests.cached_tokens[whose]
    low, high = requests.expected_low[whose], requests.expected_high[whose]
    void = Reading.absent("void: " + "; ".join(found.status.reasons)) if not found.ok else None
    return Turn(
        turn=turn,
        ttft=void or seconds(timing.ttft[chosen], TURNS[turn]),
        to_control=void or _to_control(data, each, other, turn),
        asked=_sum(asked, "prompt tokens"),
        cached=_sum(cached, "cached tokens"),
        expected=_range(low, high),
        missed=_missed(cached, low),
        words=None if turn == 0 else _hit_words(asked, cached, low, high, facts),
    )


def _sum(values: Floats, what: str) -> Reading:
    if not len(values) or np.isnan(values).any():
        return Reading.absent(f"the server did not report {what}")
    return Reading.of(float(values.sum()), "tokens", "request", note=f"sum over {len(values)} documents")


def _range(low: Floats, high: Floats) -> Reading:
    if not len(low) or np.isnan(low).any() or np.isnan(high).any():
        return Reading.absent("no expected hit was recorded")
    least, most = float(low.sum()), float(high.sum())
    return Reading.of(
        most, "tokens", "computed", low=least, high=most, note="range that a sound prefix cache may serve"
    )


def _missed(cached: Floats, low: Floats) -> Reading:
    if not len(cached) or np.isnan(low).any():
        return Reading.absent("no expected hit was recorded")
    if np.isnan(cached).any():
        return Reading.absent("the server did not report cached tokens")
    return Reading.of(int((cached < low).sum()), "requests", "computed", note="served less than expected")


def _hit_words(asked: Floats, cached: Floats, low: Floats, high: Floats, facts: Facts | None) -> str | None:
    """What is wrong with a repeat's hits; None where they are as expected."""
    if not len(cached) or np.isnan(cached).any():
        return "the server does not report cached tokens"
    if np.isnan(low).any():
        return "no expected hit was recorded"
    if facts is not None and facts.prefix_caching is False:
        return CACHING_OFF
    if (cached > high).any():
        return f"{float(cached.sum()):,.0f} tokens served, more than the {float(high.sum()):,.0f} expected"
    gone = int((cached < low).sum())
    if not gone and (cached.any() or not high.any()):
        return None
    pool = facts.reading("kv_pool_tokens").value if facts else None
    longest = float(np.nanmax(asked))
    room = ""
    if pool is not None:
        room = f" (pool {pool:,.0f} tokens {'<' if pool < longest else 'holds'} {longest:,.0f})"
    total = float(np.nansum(asked))
    if not cached.any():
        return f"no prefix reuse: 0 of {total:,.0f} prompt tokens served{room}"
    return (
        f"{gone} of {len(cached)} documents missed, {float(cached.sum()):,.0f} of {total:,.0f} served{room}"
    )


def _to_control(data: StudyData, each: MeasuredCell, other: MeasuredCell | None, turn: int) -> Reading:
    if each.cell.key.arm == data.control:
        return Reading.absent("it is the control")
    if other is None or not other.findings.ok:
        return Reading.absent("refused: the control has no sound cell of this length")
    mine, theirs = _by_document(data, each, turn), _by_document(data, other, turn)
    logs = np.array([np.log(mine[name] / theirs[name]) for name in mine if name in theirs])
    if not logs.size:
        return Reading.absent("no document was measured in both")
    found = ratio_interval(logs)
    note = f"within one boot, {found.n} documents; boot effects are not in it"
    return Reading.of(found.mean, "ratio", "computed", low=found.low, high=found.high, note=note)


def _by_document(data: StudyData, each: MeasuredCell, turn: int) -> dict[str, float]:
    chosen = each.kept if turn == 0 else sent_as(data.requests, each.timing, turn)
    return {
        str(data.requests.prompt_id[each.timing.rows[place]]): float(each.timing.ttft[place])
        for place in np.flatnonzero(chosen & np.isfinite(each.timing.ttft))
        if each.timing.ttft[place] > 0
    }


def _prefill(rates: Floats, ok: bool, reasons: Sequence[str]) -> Reading:
    if not ok:
        return Reading.absent("void: " + "; ".join(reasons))
    known = rates[np.isfinite(rates)]
    if not known.size:
        return Reading.absent("no first token was seen, or its prompt was not counted")
    low, high = (float(known.min()), float(known.max())) if known.size > 1 else (None, None)
    note = "prompt tokens computed / TTFT, fixed costs inside"
    return Reading.of(float(np.median(known)), "tok/s", "client", low=low, high=high, note=note)


def _further(before: Rung | None, ttft: Reading, prompts: Floats) -> Reading:
    if before is None:
        return Reading.absent("it is the first rung")
    earlier = before.turns[0].ttft
    if ttft.value is None or earlier.value is None or not before.prompt_tokens.known or not prompts.size:
        return Reading.absent("one of the two rungs has no uncached time")
    assert before.prompt_tokens.value is not None
    more_s = ttft.value - earlier.value
    if more_s <= 0:
        return Reading.absent("it took no longer than the rung before")
    more = float(np.median(prompts)) - before.prompt_tokens.value
    return Reading.of(more / more_s, "tok/s", "computed", note="tokens more / time more than the rung before")


def _first(
    data: StudyData, opening: MeasuredCell, cells: Sequence[MeasuredCell], rungs: Sequence[Rung]
) -> FirstRequest:
    notes = opening.findings.notes
    was_first = not any(note.startswith("not the first") for note in notes)
    said = [note for note in notes if note.startswith("not the first")]
    usual = rungs[0].turns[0].ttft if rungs else Reading.absent("no rung of its length was measured")
    if not opening.findings.ok:
        ttft = Reading.absent("void: " + "; ".join(opening.findings.status.reasons))
    else:
        ttft = seconds(opening.timing.ttft, "the first request after boot")
    if ttft.value is None:
        words = "; ".join([ttft.missing or "not measured", *said])
        return FirstRequest(ttft, usual, None, was_first, words)
    if usual.value is None:
        words = f"{ttft.value:.3g} s; what is usual at its length is not known"
        return FirstRequest(ttft, usual, None, was_first, "; ".join([words, *said]))
    compiled = is_outlier(ttft.value, usual.value)
    told = (
        "an engine that compiles: more than 4 times the usual and 0.5 s longer"
        if compiled
        else "no outlier of a compilation"
    )
    words = f"{ttft.value:.3g} s where {usual.value:.3g} s is usual at {rungs[0].length:,} tokens: {told}"
    return FirstRequest(ttft, usual, compiled, was_first, "; ".join([words, *said]))


def check_ladder(rungs: Sequence[Rung]) -> tuple[CheckStatus, str]:
    """Whether the clock shows a cache in what should be uncached.

    Prefill never gets cheaper by the token as a prompt grows: beyond a fixed start its time is linear, then
    worse. So from any two lengths the next one's least time follows, and one that took less, by more than
    the noise, was partly served from a cache (or was not computed at all).
    """
    points = [
        point_of(rung.prompt_tokens, rung.turns[0].ttft)
        for rung in rungs
        if rung.prompt_tokens.known and rung.turns[0].ttft.known
    ]
    warm = _warm(rungs)
    return check_points([*([warm] if warm else []), *points])


def _warm(rungs: Sequence[Rung]) -> Point | None:
    """The shortest rung's first repeat, where the cache served it: it shows the fixed start."""
    if not rungs or len(rungs[0].turns) < 2:
        return None
    turn = rungs[0].turns[1]
    if turn.words is not None or not turn.ttft.known or not turn.cached.value or turn.asked.value is None:
        return None
    number = turn.asked.value / (rungs[0].prompt_tokens.value or turn.asked.value)
    computed = (turn.asked.value - turn.cached.value) / max(number, 1.0)
    return point_of(Reading.of(max(computed, 1.0), "tokens", "computed"), turn.ttft)


def _leaves_hits(reason: str) -> bool:
    """A gate that is about times, or about the first send, leaves the repeats' hits sound."""
    return reason.partition(":")[0] in ("client_on_time", "no_queue", "cache_cold")


def _reuse(rungs: Sequence[Rung]) -> tuple[bool | None, str]:
    """Whether every repeat was served as expected, and in words where not, grouped by what went wrong."""
    sound = [rung for rung in rungs if all(_leaves_hits(reason) for reason in rung.reasons)]
    if not sound:
        return None, "no rung was measured"
    wrong: dict[str, list[str]] = {}
    untold = False
    for rung in sound:
        for turn in rung.turns[1:]:
            if turn.words is not None:
                untold |= not turn.missed.known or turn.words == CACHING_OFF
                wrong.setdefault(turn.words, []).append(f"{rung.length:,} tokens, {TURNS[turn.turn]}")
    lengths = wording.listed([f"{rung.length:,}" for rung in sound])
    if not wrong:
        return True, f"served as expected at {lengths} tokens, at the first and the second repeat"
    told = "; ".join(f"{words} ({', '.join(places)})" for words, places in wrong.items())
    return (None if untold else False), told
