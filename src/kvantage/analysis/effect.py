"""One arm over another, boot by boot: the logarithms that every interval is made of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kvantage.analysis.measure import MeasuredCell
from kvantage.core.columns import Floats, Ints, RequestColumns, Strings

PER_REQUEST = ("decode_tok_s", "ttft_s")
"""Metrics of one user: a boot's ratio is the geometric mean of its paired requests'."""


@dataclass(frozen=True)
class BootEffect:
    """The ratio of two cells of one block, as a logarithm, with what it was made of.

    log                 logarithm of the boot's ratio, arm over baseline
    above, below        logarithms of the arm's and of the baseline's figure
    requests            logarithm of the ratio of each pair of requests (same prompt, repeat and stream), in
                        the order in which the arm was asked
    prompts             the prompt of each pair
    per_request         the boot's ratio is the mean of `requests`; else they only tell the spread in it
    """

    block: int
    log: float
    above: float
    below: float
    requests: Floats
    prompts: Strings
    per_request: bool


def boot_effect(
    requests: RequestColumns, metric: str, mine: MeasuredCell, theirs: MeasuredCell
) -> BootEffect | None:
    """The effect of one block's two cells; None where either did not measure the metric."""
    left, right = matched(requests, mine, theirs)
    order = np.argsort(requests.sent_ns[mine.timing.rows[left]], kind="stable")
    left, right = left[order], right[order]
    above, below = _each(requests, metric, mine)[left], _each(requests, metric, theirs)[right]
    use = np.isfinite(above) & np.isfinite(below) & (above > 0) & (below > 0)
    logs_above, logs_below = np.log(above[use]), np.log(below[use])
    logs = logs_above - logs_below
    prompts = requests.prompt_id[mine.timing.rows[left[use]]]
    block = mine.cell.key.block
    if metric in PER_REQUEST:
        if not logs.size:
            return None
        return BootEffect(
            block,
            float(logs.mean()),
            float(logs_above.mean()),
            float(logs_below.mean()),
            logs,
            prompts,
            True,
        )
    whole_above, whole_below = mine.findings.figure(metric).value, theirs.findings.figure(metric).value
    if not whole_above or not whole_below:
        return None
    over, under = float(np.log(whole_above)), float(np.log(whole_below))
    return BootEffect(block, over - under, over, under, logs, prompts, False)


def matched(requests: RequestColumns, mine: MeasuredCell, theirs: MeasuredCell) -> tuple[Ints, Ints]:
    """Places in both timings of the requests with the same prompt, repeat and stream."""
    left, right = np.flatnonzero(mine.kept), np.flatnonzero(theirs.kept)
    rows = np.concatenate((mine.timing.rows[left], theirs.timing.rows[right]))
    if not len(rows):
        return left[:0], right[:0]
    prompt = requests.code("prompt_id")[rows]
    repeat, stream = requests.repeat[rows], requests.stream[rows]
    label = (prompt * (int(repeat.max()) + 1) + repeat) * (int(stream.max()) + 1) + stream
    _, a, b = np.intersect1d(label[: len(left)], label[len(left) :], return_indices=True)
    return left[a], right[b]


def _each(requests: RequestColumns, metric: str, measured: MeasuredCell) -> Floats:
    if metric == "ttft_s":
        return measured.timing.ttft
    if metric == "e2e_tok_s":
        rows = measured.timing.rows
        seconds = (requests.end_ns[rows] - requests.sent_ns[rows]) * 1e-9
        out = np.full(len(rows), np.nan)
        np.divide(requests.output_tokens[rows], seconds, out=out, where=seconds > 0)
        return out
    return measured.timing.rate
