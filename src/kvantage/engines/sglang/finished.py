"""The requests that SGLang logs when they end (`--log-requests`)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kvantage.core import Reading, Usage
from kvantage.engines.sglang.boot import arguments
from kvantage.engines.sglang.lines import LogLine
from kvantage.engines.sglang.usage import read_usage

_FINISH = re.compile(r"(?:^|\] )Finish: obj=")


def finished_of(lines: Iterable[LogLine]) -> list[Usage]:
    """The counts of each request that the log tells the end of. A line that is cut off is left out."""
    found = []
    for line in lines:
        _, told, counts = line.text.rpartition("'meta_info':")
        if told and _FINISH.search(line.text) and line.text.rstrip().endswith("}"):
            found.append(read_usage({"meta_info": arguments(counts)}))
    return found


def request_readings(finished: list[Usage]) -> dict[str, Reading]:
    """Acceptance over the requests that drafted, weighted by their steps."""
    told = [
        (usage.spec_steps, usage.accepted_tokens, usage.drafted_tokens)
        for usage in finished
        if usage.spec_steps and usage.accepted_tokens is not None and usage.drafted_tokens is not None
    ]
    if not told:
        return {}
    steps, accepted, drafted = (sum(one[i] for one in told) for i in range(3))
    over = f"{len(told)} finished requests, weighted by their steps"
    found = {
        "acceptance_length": Reading.of(
            1 + accepted / steps, "tokens/step", "request", note=f"incl. bonus token; {over}"
        )
    }
    if drafted:
        found["draft_acceptance_rate"] = Reading.of(
            accepted / drafted, "accepted/drafted", "request", note=over
        )
        found["draft_tokens_per_step"] = Reading.of(drafted / steps, "tokens/step", "request", note=over)
    return found
