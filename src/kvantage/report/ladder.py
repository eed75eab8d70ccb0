"""The ladder of first tokens, shown: as JSON and as tables."""

from __future__ import annotations

from typing import Any

from kvantage.analysis.findings import Findings
from kvantage.analysis.ladder import FirstRequest, Ladder, Rung, Turn
from kvantage.core.reading import Reading
from kvantage.report.figures import DASH, Notes, figure, number, times
from kvantage.report.tables import Table

Json = dict[str, Any]


def ladder_json(ladder: Ladder) -> Json:
    """One boot's ladder as plain data."""
    return {
        "arm": ladder.arm,
        "block": ladder.block,
        "first_request": None if ladder.first is None else _first(ladder.first),
        "lengths": [_rung(rung) for rung in ladder.rungs],
        "cache_check": ladder.check,
        "cache_check_words": ladder.check_words,
        "prefix_reuse_sound": ladder.reuse_sound,
        "prefix_reuse_words": ladder.reuse,
    }


def _first(first: FirstRequest) -> Json:
    return {
        "ttft_s": number(first.ttft),
        "usual_ttft_s": number(first.usual),
        "compiled": first.compiled,
        "was_first": first.was_first,
        "words": first.words,
    }


def _rung(rung: Rung) -> Json:
    return {
        "document_tokens": number(Reading.of(rung.length, "tokens", "config")),
        "status": rung.status,
        "reasons": list(rung.reasons),
        "prompt_tokens": number(rung.prompt_tokens),
        "prefill_tok_s": number(rung.prefill),
        "further_prefill_tok_s": number(rung.further),
        "uncached": _turn(rung.turns[0]),
        "repeats": [{"repeat": turn.turn, **_turn(turn)} for turn in rung.turns[1:]],
        "excluded": [
            {"prompt_id": gone.prompt_id, "repeat": gone.repeat, "stream": gone.stream, "why": gone.why}
            for gone in rung.excluded
        ],
    }


def _turn(turn: Turn) -> Json:
    return {
        "ttft_s": number(turn.ttft),
        "to_control": number(turn.to_control),
        "prompt_tokens": number(turn.asked),
        "cached_tokens": number(turn.cached),
        "expected_cached_tokens": number(turn.expected),
        "missed_requests": number(turn.missed),
        "words": turn.words,
    }


def ladder_table(findings: Findings) -> Table:
    """First-token times by length, uncached and at both repeats."""
    notes = Notes()
    columns = (
        "Arm",
        "prompt tokens",
        "uncached s",
        "to control",
        "1st repeat s",
        "to control",
        "2nd repeat s",
        "to control",
        "prefill tok/s",
        "further tok/s",
    )
    rows = []
    for ladder in findings.ladders:
        for rung in ladder.rungs:
            row = [_named(findings, ladder), notes.mark(figure(rung.prompt_tokens), rung.prompt_tokens)]
            for turn in rung.turns:
                row.append(notes.mark(figure(turn.ttft, 3), turn.ttft))
                row.append("control" if findings.arm(ladder.arm).control else _ratio(turn.to_control, notes))
            for rate in (rung.prefill, rung.further):
                row.append(notes.mark(figure(rate), rate))
            rows.append(tuple(row))
    said = (
        "Medians over documents, a few output tokens each. Prefill: prompt tokens / TTFT, the request's "
        "fixed costs inside; further: tokens more / time more than the length before."
    )
    title = "First tokens by length"
    return Table(title, columns, tuple(rows), tuple(range(1, len(columns))), (said, *notes.lines()))


def brief_ladder(findings: Findings) -> Table:
    """The same for a terminal: ratios in brackets."""
    notes = Notes()
    columns = ("Arm", "prompt tokens", "uncached s", "1st repeat s", "2nd repeat s", "prefill tok/s")
    rows = []
    for ladder in findings.ladders:
        for rung in ladder.rungs:
            row = [_named(findings, ladder), notes.mark(figure(rung.prompt_tokens), rung.prompt_tokens)]
            for turn in rung.turns:
                ratio = f" ({times(turn.to_control)})" if turn.to_control.known else ""
                row.append(notes.mark(figure(turn.ttft, 3) + ratio, turn.ttft))
            row.append(notes.mark(figure(rung.prefill), rung.prefill))
            rows.append(tuple(row))
    control = findings.study.control
    said = f"Medians over documents. In brackets the ratio to the control {control}: less is faster."
    title = "First tokens by length"
    return Table(title, columns, tuple(rows), tuple(range(1, len(columns))), (said, *notes.lines()))


def hits_table(findings: Findings) -> Table:
    """What the repeats found in the cache, beside what a sound cache serves."""
    columns = ("Arm", "prompt tokens", "1st repeat", "2nd repeat", "expected", "missed")
    rows = []
    notes = Notes()
    for ladder in findings.ladders:
        for rung in ladder.rungs:
            repeats = rung.turns[1:]
            rows.append(
                (
                    _named(findings, ladder),
                    notes.mark(figure(repeats[0].asked), repeats[0].asked),
                    *(notes.mark(figure(turn.cached), turn.cached) for turn in repeats),
                    _span(repeats[0].expected),
                    " and ".join(notes.mark(figure(turn.missed), turn.missed) for turn in repeats),
                )
            )
    said = "Tokens, summed over the documents of a length; missed: documents served less than expected."
    title = "What the ladder's repeats found in the cache"
    return Table(title, columns, tuple(rows), tuple(range(1, len(columns))), (said, *notes.lines()))


def ladder_sentences(findings: Findings, brief: bool = False) -> list[tuple[str, str]]:
    """(arm, sentence): the first request, the check for a cache, prefix reuse; in brief what is unusual."""
    told = []
    for ladder in findings.ladders:
        name = _named(findings, ladder)
        if ladder.first is not None:
            told.append((name, f"first request after boot: {ladder.first.words}"))
        if not brief or ladder.check != "passed":
            flag = "FLAGGED: " if ladder.check == "flagged" else ""
            told.append((name, f"uncached by the clock: {flag}{ladder.check_words}"))
        if not brief or not ladder.reuse_sound:
            told.append((name, f"repeats from the cache: {ladder.reuse}"))
    return told


def _named(findings: Findings, ladder: Ladder) -> str:
    several = sum(each.arm == ladder.arm for each in findings.ladders) > 1
    return f"{ladder.arm}, boot {ladder.block}" if several else ladder.arm


def _ratio(reading: Reading, notes: Notes) -> str:
    return notes.mark(times(reading), reading)


def _span(reading: Reading) -> str:
    if reading.low is None or reading.high is None:
        return DASH
    return f"{reading.low:,.0f} to {reading.high:,.0f}"
