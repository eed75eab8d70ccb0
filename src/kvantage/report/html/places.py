"""Where a figure of a study belongs, and which ratio speaks for an arm."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import zip_longest

from kvantage.analysis import asked, wording
from kvantage.analysis.compare import Comparison, Ratio
from kvantage.analysis.findings import Findings

_NUMBER = re.compile(r"(\d+)")


def against_control(findings: Findings) -> dict[str, Comparison]:
    """Each arm's comparison with the control."""
    return {each.arm: each for each in findings.comparisons if each.against_control}


def place(phase: str, workload: str, concurrency: int) -> str:
    """In a sentence: 'code at one stream', 'repeats at four streams'."""
    return f"{wording.work(phase, workload)} at {wording.streams(concurrency)}"


def label(phase: str, workload: str, concurrency: int) -> str:
    """On an axis: 'short code', 'repeat, 4 at once', 'sweep code, 8 at once'."""
    named = phase if workload == "documents" else f"{phase} {workload}"
    return named if (phase, concurrency) == ("short", 1) else f"{named}, {concurrency} at once"


def headline(findings: Findings, arm: str) -> Ratio | None:
    """The ratio to the control that speaks for an arm: what the policy maximises where it is one place, else
    the first that its trade tells.
    """
    comparison = against_control(findings).get(arm)
    policy = asked.read_policy(findings.study.declared)
    if comparison is not None and policy is not None and len(policy.objective.terms) == 1:
        term = policy.objective.terms[0]
        for ratio in comparison.ratios:
            if (ratio.metric, ratio.phase) != (policy.objective.metric, term.phase):
                continue
            if term.workload in (None, ratio.workload) and ratio.concurrency == term.concurrency:
                return ratio
    return next((trade.headline for trade in findings.trades if trade.arm == arm), None)


def levels(told: Iterable[str]) -> str:
    """The intervals' levels of replication in one clause: what differs in numbers alone is said once, with
    the range of each number.
    """
    alike: dict[tuple[str, ...], list[list[int]]] = {}
    for level in told:
        parts = _NUMBER.split(level)
        alike.setdefault(tuple(parts[::2]), []).append([int(number) for number in parts[1::2]])
    found = []
    for words, numbers in alike.items():
        spans = [_span(column) for column in zip(*numbers, strict=True)]
        found.append("".join(word + span for word, span in zip_longest(words, spans, fillvalue="")))
    return "; or ".join(found)


def _span(numbers: Sequence[int]) -> str:
    return f"{min(numbers)}" if min(numbers) == max(numbers) else f"{min(numbers)} to {max(numbers)}"


def short_name(path: str) -> str:
    """The last part of a path or of a repository's name."""
    return path.rstrip("/").rsplit("/", 1)[-1] or path
