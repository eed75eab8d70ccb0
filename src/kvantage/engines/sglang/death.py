"""Why a server died, in its own words."""

from __future__ import annotations

import re
from collections.abc import Iterable

_EXCEPTION = re.compile(
    r"^(?:\[[^\]]*\] )?(?:[A-Za-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception|Interrupt|Exit)\b.*"
)
_TELLING = (
    "out of memory",
    "Not enough memory",
    "state cache is too small",
    "error: unrecognized arguments",
    "error: argument",
    "Scheduler hit an exception",
    "exitcode",
    "sigquit",
    "Killed",
    "No module named",
    "Segmentation fault",
    "Address already in use",
    "NCCL error",
)
_HARMLESS = (
    "HEALTH_CHECK_",
    "asyncio.exceptions.CancelledError",
    "Rank 0 scheduler is dead",
    "CancelledError",
)
_KEPT = 8


def death_lines(lines: Iterable[str]) -> tuple[str, ...]:
    """The lines that say why, most telling first: the last exceptions, then the system's words.

    A health check that was broken off raises too, and kills nothing.
    """
    exceptions: list[str] = []
    others: list[str] = []
    for line in lines:
        text = line.strip()
        if not text or len(text) > 2000 or any(mark in text for mark in _HARMLESS):
            continue
        if _EXCEPTION.match(text) and not text.startswith("TimeoutError") and text != "KeyboardInterrupt":
            exceptions.append(text)
        elif any(mark in text for mark in _TELLING):
            others.append(text)
    return tuple(dict.fromkeys([*reversed(exceptions), *others]))[:_KEPT]
