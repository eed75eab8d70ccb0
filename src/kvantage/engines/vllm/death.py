"""Which lines of a log say why the server died."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kvantage.engines.vllm.lines import read_line

MOST = 5
"""At most so many lines are told."""

_EXCEPTION = re.compile(
    r"^(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Timeout|Failure)(?::|$)"
)
_ARGUMENTS = re.compile(
    r"\berror: (?:unrecognized arguments|argument |the following arguments|ambiguous option)"
)
_WORDS = re.compile(
    r"(address already in use|out of memory|can't allocate memory|cannot allocate memory|Killed\b"
    r"|Segmentation fault|No space left on device|cannot start )",
    re.IGNORECASE,
)
_SECOND_HAND = re.compile(
    r"(EngineDeadError|Engine core initialization failed|EngineCore encountered an issue|cancelled"
    r"|CancelledError|EngineCore failed to start|WorkerProc (?:hit an exception|initialization failed)"
    r"|SystemExit|KeyboardInterrupt|Worker proc .* died|ServerDisconnected|BrokenPipeError)"
)
_DETAIL = re.compile(r"^\s+(Value error, .*|Assertion failed.*|Input should .*|Extra inputs .*)$")


def explain_death(raw: Sequence[str]) -> tuple[str, ...]:
    """The telling lines, most telling first: the first own cause comes before what followed from it.

    Where nothing tells, the last lines that are not empty.
    """
    causes: list[str] = []
    second_hand: list[str] = []
    lines = [read_line(line) for line in raw]
    for number, line in enumerate(lines):
        text = line.text.strip()
        if line.level == "WARNING" or not text:
            continue
        if _ARGUMENTS.search(text) or _WORDS.search(text):
            causes.append(text)
        elif _EXCEPTION.match(text):
            following = (later.text for later in lines[number + 1 : number + 3])
            details = [found[1].strip() for later in following if (found := _DETAIL.match(later))]
            text = " ".join([text, *(re.sub(r" \[type=.*", "", detail) for detail in details[:1])])
            (second_hand if _SECOND_HAND.search(text) else causes).append(text)
        elif line.level in ("ERROR", "CRITICAL") and _SECOND_HAND.search(text):
            second_hand.append(text)
    told = distinct([*causes, *second_hand])
    if not told:
        told = [line.text.strip() for line in lines if line.text.strip()][-MOST:]
    return tuple(text[:500] for text in told[:MOST])


def distinct(texts: list[str]) -> list[str]:
    """Each text once, in order."""
    return list(dict.fromkeys(texts))


def exit_words(status: int) -> str:
    """How a process ended, for the person."""
    if status == -9:
        return "it was killed (signal 9): often the system, for lack of memory"
    if status < 0:
        return f"it died of signal {-status}"
    return f"it ended with status {status}"
