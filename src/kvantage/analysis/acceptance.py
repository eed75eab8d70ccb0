"""How many tokens a step emits. Every acceptance length counts the bonus token.

Sources in order: per-request counts, counter differences, log windows, gauges. A source that breaks an
identity is refused, and the next one is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from kvantage.analysis.cells import Cell
from kvantage.analysis.identities import accepted_within_drafted, emitted_covers, histogram_fits
from kvantage.analysis.timing import time_requests
from kvantage.core.columns import Floats, RequestColumns
from kvantage.core.reading import Reading, Source

DEAD_LENGTH = 1.01
MERGED_TOLERANCE = 1.03


@dataclass(frozen=True)
class Acceptance:
    """What was accepted in one cell.

    per_drafting_step  1 + accepted / steps that drafted
    per_decode_step    tokens emitted per step, steps without a draft counted: the true length
    rate               accepted / proposed drafts
    per_position[j]    share of drafting steps that accepted the draft at place j + 1 (unconditional)
    highest_length, highest_rate   of the log's windows, else of single requests
    """

    per_drafting_step: Reading
    per_decode_step: Reading
    rate: Reading
    per_position: tuple[Reading, ...] = ()
    highest_length: Reading = field(default_factory=lambda: Reading.absent("no window was reported"))
    highest_rate: Reading = field(default_factory=lambda: Reading.absent("no window was reported"))
    drafted: Reading = field(default_factory=lambda: Reading.absent("not reported"))
    accepted: Reading = field(default_factory=lambda: Reading.absent("not reported"))
    refused: tuple[str, ...] = ()

    @property
    def length(self) -> Reading:
        """The true acceptance length: per decode step where it is known, else per drafting step."""
        return self.per_decode_step if self.per_decode_step.known else self.per_drafting_step


@dataclass(frozen=True)
class _Counts:
    source: Source
    accepted: float
    drafted: float | None
    steps: float | None
    emitted: float | None
    requests: int
    positions: tuple[float, ...] | None
    note: str | None = None


def no_acceptance(reason: str) -> Acceptance:
    """Nothing to report, and why."""
    gone = Reading.absent(reason)
    return Acceptance(gone, gone, gone, (), gone, gone, gone, gone)


def measure_acceptance(requests: RequestColumns, cell: Cell, drafts: int | None) -> Acceptance:
    """The acceptance of a cell whose arm drafts; `drafts` is k where it is declared.

    A cell in which nothing tells of drafts has every reading missing, with the reason.
    """
    refused: list[str] = []
    counts = None
    for candidate in (_from_requests(requests, cell, refused), _from_counters(requests, cell)):
        if candidate is None:
            continue
        fault = _fault(candidate, drafts)
        if fault is None:
            counts = candidate
            break
        refused.append(f"{candidate.source}: {fault}")
    lengths, rates = _windows(cell)
    length_top, rate_top = _highest(requests, cell, lengths, rates)
    if counts is None:
        return _from_log(cell, lengths, rates, length_top, rate_top, tuple(refused))
    drafting = _drafting_length(counts)
    decode, why = _decode_length(requests, cell, counts, drafting, drafts)
    if why:
        refused.append(why)
    return Acceptance(
        per_drafting_step=drafting,
        per_decode_step=decode,
        rate=_ratio(counts.accepted, counts.drafted, counts, "drafts proposed are not reported"),
        per_position=_positions(counts),
        highest_length=length_top,
        highest_rate=rate_top,
        drafted=_count(counts.drafted, counts),
        accepted=_count(counts.accepted, counts),
        refused=tuple(refused),
    )


def dead(acceptance: Acceptance) -> str | None:
    """A drafter that proposes and is never accepted is dead, not slow: length <= 1.01 with drafts > 0."""
    length = acceptance.per_drafting_step
    if length.value is None or length.value > DEAD_LENGTH:
        return None
    drafted = acceptance.drafted.value
    if drafted is not None and drafted <= 0:
        return None
    told = "drafts > 0" if drafted is None else f"{drafted:,.0f} drafts"
    return f"dead drafter: acceptance length {length.value:.2f} (incl. bonus) with {told}"


def length_from_positions(rates: Sequence[float]) -> float:
    """AL incl. bonus from unconditional rates, accepted at place j / drafting steps: 1 + their sum.

    0.718, 0.492, 0.396 and 0.315 give 2.92.
    """
    return 1.0 + float(sum(rates))


def length_from_rate(rate: float, drafts: int) -> float:
    """AL incl. bonus from an acceptance rate (accepted / proposed) with k drafts a step: 1 + k rate."""
    return 1.0 + drafts * rate


def emitted_per_step(output_tokens: float, accepted: float, requests: int) -> float | None:
    """Tokens a decode step, steps without a draft counted.

    Each step emits its accepted drafts and one token more, and prefill emits each request's first token,
    so the steps are output - requests - accepted. None where that leaves no step.
    """
    steps = output_tokens - requests - accepted
    return (output_tokens - requests) / steps if steps > 0 else None


def _from_requests(requests: RequestColumns, cell: Cell, refused: list[str]) -> _Counts | None:
    rows = cell.rows
    accepted, steps = requests.accepted_tokens[rows], requests.spec_steps[rows]
    drafted, output = requests.drafted_tokens[rows], requests.output_tokens[rows]
    if not len(rows) or np.isnan(accepted).any():
        return None
    histogram = _sum_histograms([requests.histograms[row] for row in rows])
    step_sum = _known_sum(steps)
    if histogram is not None:
        fault = histogram_fits(histogram, step_sum, float(accepted.sum()))
        if fault:
            refused.append(f"request: {fault}")
            histogram = None
        elif step_sum is None:
            step_sum = float(sum(histogram))
    positions = None
    if histogram is not None and any(histogram):
        tail = np.cumsum(np.asarray(histogram[::-1], dtype=np.float64))[::-1]
        positions = tuple(float(share) for share in tail[1:] / tail[0])
    return _Counts(
        "request",
        float(accepted.sum()),
        _known_sum(drafted),
        step_sum,
        _known_sum(output),
        len(rows),
        positions,
    )


def _from_counters(requests: RequestColumns, cell: Cell) -> _Counts | None:
    deltas = [window.delta for window in cell.windows]
    if not deltas or any(delta is None or delta.reset for delta in deltas):
        return None
    sums: dict[str, float] = {}
    for name in ("accepted_tokens", "drafted_tokens", "drafts", "generation_tokens"):
        values = [delta.counters.get(name) for delta in deltas if delta is not None]
        known = [value for value in values if value is not None]
        if len(known) == len(values):
            sums[name] = sum(known)
    if "accepted_tokens" not in sums:
        return None
    positions = None
    per_position = [delta.accepted_per_position for delta in deltas if delta is not None]
    if sums.get("drafts") and all(per_position):
        width = max(len(places) for places in per_position if places)
        total = np.zeros(width)
        for places in per_position:
            if places:
                total[: len(places)] += places
        positions = tuple(float(share) for share in total / sums["drafts"])
    warm = len(cell.warmups)
    return _Counts(
        "counter delta",
        sums["accepted_tokens"],
        sums.get("drafted_tokens"),
        sums.get("drafts"),
        sums.get("generation_tokens"),
        len(cell.rows) + warm,
        positions,
        f"{warm} warm-up requests are inside" if warm else None,
    )


def _fault(counts: _Counts, drafts: int | None) -> str | None:
    if counts.drafted is not None:
        fault = accepted_within_drafted(counts.accepted, counts.drafted)
        if fault:
            return fault
    if counts.steps is not None and counts.emitted is not None:
        slack = counts.requests * ((drafts or 16) + 1)
        return emitted_covers(counts.accepted, counts.steps, counts.emitted, slack)
    return None


def _drafting_length(counts: _Counts) -> Reading:
    if not counts.steps:
        return Reading.absent(
            "drafting steps are not reported" if counts.steps is None else "no step drafted"
        )
    return Reading.of(
        1 + counts.accepted / counts.steps,
        "tokens/step",
        counts.source,
        note=_notes("incl. bonus, per drafting step", counts.note),
    )


def _decode_length(
    requests: RequestColumns, cell: Cell, counts: _Counts, drafting: Reading, drafts: int | None
) -> tuple[Reading, str | None]:
    """From the chunks where each carried one step's tokens, else from tokens emitted and accepted."""
    timing = time_requests(requests, cell.rows)
    refused = None
    use = timing.told & (timing.chunks_after > 0)
    if len(timing) and use.all():
        length = float(timing.after.sum() / timing.chunks_after.sum())
        most = drafts + 1 if drafts else None
        limit = _most_length(counts, drafting)
        if most is not None and int(timing.widest.max()) > most:
            refused = f"chunks: one carried {timing.widest.max()} tokens, more than a step's {most}"
        elif limit is not None and length > limit:
            refused = f"chunks: {length:.2f} tokens a chunk, more than the {limit:.2f} that a step can emit"
        elif length < (least := _least_length(counts, drafts)):
            refused = f"chunks: {length:.2f} tokens a chunk, fewer than the {least:.2f} that a step emitted"
        else:
            note = "incl. bonus, per decode step: tokens / chunks after the first"
            return Reading.of(length, "tokens/step", "client", note=note), None
    if counts.emitted is None:
        return Reading.absent("output tokens are not reported"), refused
    value = emitted_per_step(counts.emitted, counts.accepted, counts.requests)
    if value is None:
        return Reading.absent("more drafts accepted than tokens emitted"), refused
    if drafting.value is not None:
        value = min(value, drafting.value)
    note = _notes("incl. bonus, per decode step: from tokens emitted and drafts accepted", counts.note)
    return Reading.of(value, "tokens/step", counts.source, note=note), refused


def _most_length(counts: _Counts, drafting: Reading) -> float | None:
    """The most tokens a decode step: a drafting step's, and what accepted drafts can explain."""
    bounds = [drafting.value] if drafting.value is not None else []
    if counts.source == "request" and counts.emitted is not None:
        value = emitted_per_step(counts.emitted, counts.accepted, counts.requests)
        bounds += [value] if value is not None else []
    return min(bounds) * MERGED_TOLERANCE if bounds else None


def _least_length(counts: _Counts, drafts: int | None) -> float:
    """The least tokens a decode step, were a whole step cut off at the end of each request."""
    if counts.emitted is None or drafts is None:
        return 1.0
    accepted = max(0.0, counts.accepted - drafts * counts.requests)
    value = emitted_per_step(counts.emitted, accepted, counts.requests)
    return 1.0 if value is None else value / MERGED_TOLERANCE


def _positions(counts: _Counts) -> tuple[Reading, ...]:
    note = "accepted at this place / drafting steps"
    return tuple(Reading.of(share, "ratio", counts.source, note=note) for share in counts.positions or ())


def _windows(cell: Cell) -> tuple[list[float], list[float]]:
    windows = [window for span in cell.windows if span.log for window in span.log.windows]
    return (
        [window["acceptance_length"] for window in windows if "acceptance_length" in window],
        [window["draft_acceptance_rate"] for window in windows if "draft_acceptance_rate" in window],
    )


def _highest(
    requests: RequestColumns, cell: Cell, lengths: list[float], rates: list[float]
) -> tuple[Reading, Reading]:
    rows = cell.rows
    note = "highest request; the log told no window"
    steps, accepted = requests.spec_steps[rows], requests.accepted_tokens[rows]
    if lengths:
        length = Reading.of(
            max(lengths), "tokens/step", "log window", note=f"highest of {len(lengths)} windows"
        )
    else:
        length = _largest(1 + _divide(accepted, steps), "tokens/step", note)
    if rates:
        rate = Reading.of(max(rates), "ratio", "log window", note=f"highest of {len(rates)} windows")
    else:
        rate = _largest(_divide(accepted, requests.drafted_tokens[rows]), "ratio", note)
    return length, rate


def _from_log(
    cell: Cell,
    lengths: list[float],
    rates: list[float],
    length_top: Reading,
    rate_top: Reading,
    refused: tuple[str, ...],
) -> Acceptance:
    gone = Reading.absent("neither requests, counters nor the log told of accepted drafts")
    gauges = [span.log.readings for span in cell.windows if span.log]
    length = gone
    if lengths:
        note = f"incl. bonus, per drafting step; mean of {len(lengths)} log windows"
        length = Reading.of(float(np.mean(lengths)), "tokens/step", "log window", note=note)
    else:
        for readings in gauges:
            length = readings.get("acceptance_length", length)
    rate = gone
    if rates:
        note = f"mean of {len(rates)} log windows"
        rate = Reading.of(float(np.mean(rates)), "ratio", "log window", note=note)
    return Acceptance(
        per_drafting_step=length,
        per_decode_step=Reading.absent(
            "accepted drafts are not counted, so steps without a draft are unknown"
        ),
        rate=rate,
        highest_length=length_top,
        highest_rate=rate_top,
        refused=refused,
    )


def _sum_histograms(histograms: Sequence[tuple[int, ...] | None]) -> tuple[int, ...] | None:
    known = [histogram for histogram in histograms if histogram is not None]
    if not known or len(known) < len(histograms):
        return None
    width = max(len(histogram) for histogram in known)
    total = np.zeros(width, dtype=np.int64)
    for histogram in known:
        total[: len(histogram)] += histogram
    return tuple(int(number) for number in total)


def _known_sum(values: Floats) -> float | None:
    return None if np.isnan(values).any() else float(values.sum())


def _divide(above: Floats, below: Floats) -> Floats:
    out = np.full(len(above), np.nan)
    np.divide(above, below, out=out, where=below > 0)
    return out


def _largest(values: Floats, unit: str, note: str) -> Reading:
    known = values[np.isfinite(values)]
    if not known.size:
        return Reading.absent("neither log windows nor per-request counts were reported")
    return Reading.of(float(known.max()), unit, "request", note=note)


def _ratio(above: float, below: float | None, counts: _Counts, otherwise: str) -> Reading:
    if not below:
        return Reading.absent(otherwise if below is None else "no draft was proposed")
    return Reading.of(above / below, "ratio", counts.source, note=counts.note)


def _count(value: float | None, counts: _Counts) -> Reading:
    if value is None:
        return Reading.absent("not reported")
    return Reading.of(value, "tokens", counts.source, note=counts.note)


def _notes(*parts: str | None) -> str:
    return "; ".join(part for part in parts if part)
