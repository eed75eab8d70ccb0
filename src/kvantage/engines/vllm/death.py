"""Which lines of a log say why the server died."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kvantage.engines.vllm.lines import read_line

MOST = 5
LONGEST = 500
"""At most so many lines are told, of at most so many characters."""

_EXCEPTION = re.compile(
    r"^(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Timeout|Failure)(?::|$)"
)
_ARGUMENTS = re.compile(
    r"\berror: (?:unrecognized arguments|argument |the following arguments|ambiguous option)"
)
_WORDS = re.compile(
    r"(address already in use|out of memory|can't allocate memory|cannot allocate memory|\bKilled\b"
    r"|Segmentation fault|Bus error|Illegal instruction|Fatal Python error|terminate called|^\s*what\(\): "
    r"|double free or corruption|corrupted (?:size|double-linked)|malloc\(\): |free\(\): invalid"
    r"|stack smashing detected|No space left on device|^cannot start )",
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
    told = causes(raw)
    if not told:
        told = [text for line in raw if (text := read_line(line).text.strip())]
        told = told[-MOST:]
    return tuple(text[:LONGEST] for text in told[:MOST])


def causes(raw: Sequence[str]) -> list[str]:
    """Lines that name a failure, own causes first; empty where there is none."""
    own: list[str] = []
    second_hand: list[str] = []
    lines = [read_line(line) for line in raw]
    for number, line in enumerate(lines):
        text = line.text.strip()
        if line.level in ("DEBUG", "INFO", "WARNING") or not text:
            continue
        if _ARGUMENTS.search(text) or (len(text) <= LONGEST and _WORDS.search(text)):
            own.append(text)
        elif _EXCEPTION.match(text):
            following = (later.text for later in lines[number + 1 : number + 4])
            details = [found[1].strip() for later in following if (found := _DETAIL.match(later))]
            text = " ".join([text, *(re.sub(r" \[type=.*", "", detail) for detail in details[:1])])
            (second_hand if _SECOND_HAND.search(text) else own).append(text)
        elif line.level and _SECOND_HAND.search(text) and not line.text.startswith(" "):
            second_hand.append(text)
    return distinct([*own, *second_hand])


def distinct(texts: list[str]) -> list[str]:
    """Each text once, in order."""
    return list(dict.fromkeys(texts))
