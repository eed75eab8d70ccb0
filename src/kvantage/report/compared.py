"""Arms beside each other: every ratio with its interval and level, and what its noise is made of."""

from __future__ import annotations

import math

from kvantage.analysis.compare import Metric, Ratio
from kvantage.analysis.findings import Findings
from kvantage.core.reading import Reading
from kvantage.report.figures import DASH, Notes, figure, interval, times
from kvantage.report.tables import Table, after, named

METRIC_WORDS: dict[Metric, str] = {
    "decode_tok_s": "a user",
    "steady_tok_s": "aggregate",
    "e2e_tok_s": "end to end",
    "ttft_s": "TTFT (less is better)",
}


def ratios(findings: Findings) -> Table:
    """Every ratio to the control with both figures and its interval; each pair is in report.json."""
    notes = Notes()
    columns = (
        "Arm",
        "what",
        "at once",
        "ratio",
        "interval",
        "told apart",
        "arm",
        "control",
        "AL",
        "rho = break-even AL",
    )
    rows = []
    for comparison in findings.comparisons:
        if not comparison.against_control:
            continue
        for ratio in comparison.ratios:
            if ratio.metric not in ("decode_tok_s", "steady_tok_s", "ttft_s"):
                continue
            rows.append(
                (
                    comparison.arm,
                    f"{named(ratio.phase, ratio.workload)}, {METRIC_WORDS[ratio.metric]}",
                    str(ratio.concurrency),
                    notes.mark(times(ratio.ratio), ratio.ratio),
                    _spanned(ratio.ratio, ratio.replication, notes),
                    _told(ratio, notes),
                    f"{figure(ratio.value)} {ratio.value.unit}".strip(),
                    f"{figure(ratio.baseline)} {ratio.baseline.unit}".strip(),
                    figure(ratio.acceptance_length),
                    figure(ratio.rho),
                )
            )
    title = f"Every ratio to {findings.study.control}"
    return Table(title, columns, tuple(rows), after(2, columns), tuple(notes.lines()))


def _spanned(reading: Reading, replication: str, notes: Notes) -> str:
    if reading.value is None:
        return DASH
    return f"{interval(reading)} [{notes.number(replication)}]"


def _told(ratio: Ratio, notes: Notes) -> str:
    """On which side of 1 it is; with several arms by Holm's p."""
    found = ratio.inference
    if found is None or found.low is None:
        return DASH
    text = {"above": "above 1", "below": "below 1", "inconclusive": "no"}[found.side]
    if found.holm is None or found.family < 2:
        return text
    said = (
        f"Told apart from 1 where the interval and Holm's p over the {found.family} comparisons of that "
        "place both say so."
    )
    return f"{text} [{notes.number(said)}]"


def noise(findings: Findings) -> Table:
    """What the noise of each ratio to the control is made of, and the least that would have been told."""
    notes = Notes()
    columns = ("Arm", "what", "at once", "boots", "prompts", "repeats", "least told apart", "more of what")
    rows = []
    for comparison in findings.comparisons:
        if not comparison.against_control:
            continue
        for ratio in comparison.ratios:
            found = ratio.inference
            if found is None or found.low is None or ratio.metric not in ("decode_tok_s", "steady_tok_s"):
                continue
            split = found.split
            what = f"{named(ratio.phase, ratio.workload)}, {METRIC_WORDS[ratio.metric]}"
            where = (comparison.arm, what, str(ratio.concurrency))
            least = notes.mark(times(found.detectable), found.detectable)
            if split is None:
                alone = (
                    DASH if found.boots > 1 else f"{DASH} [{notes.number('one boot tells nothing of boots')}]"
                )
                rows.append((*where, alone, DASH, DASH, least, DASH))
                continue
            prompts = DASH if split.prompt is None else _percent(split.prompt)
            rows.append((*where, _percent(split.boot), prompts, _percent(split.repeat), least, split.advice))
    said = (
        "Standard deviations of a ratio between boots, between prompts (in no interval: the prompts are the "
        "study's) and between repeats. Least told apart: the smallest ratio that this design, with this "
        "noise, tells from 1 in four of five studies."
    )
    title = "What the noise is made of"
    return Table(title, columns, tuple(rows), (2, 3, 4, 5, 6), (said, *notes.lines()))


def doubts(findings: Findings) -> list[tuple[str, str]]:
    """(arm, sentence) of what a mean hides: two modes, a drift over the run, values far out; and with one
    boot, what a published boot noise would make of the first ratio's interval.
    """
    told = []
    for comparison in findings.comparisons:
        if not comparison.against_control:
            continue
        for ratio in comparison.ratios:
            found = ratio.inference
            if found is None or found.shape is None or ratio.metric not in ("decode_tok_s", "steady_tok_s"):
                continue
            where = f"{named(ratio.phase, ratio.workload)} at {ratio.concurrency}"
            told += [(comparison.arm, f"{where}: {words}") for words in found.shape.words]
        first = next((each for each in comparison.ratios if each.inference is not None), None)
        prior = first.inference.with_prior if first is not None and first.inference is not None else None
        if first is not None and prior is not None and prior.low is not None:
            told.append(
                (
                    comparison.arm,
                    f"{named(first.phase, first.workload)} at {first.concurrency}: the interval would be "
                    f"{interval(prior)} {prior.note}",
                )
            )
    return told


def _percent(sd: float) -> str:
    return f"{(math.exp(sd) - 1) * 100:.1f} %"
