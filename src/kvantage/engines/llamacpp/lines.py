"""llama-server's log lines, with and without their time, level and place."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_HEAD = re.compile(r"^(?:\[\d+\] )?(?:(\d+)\.(\d\d)\.(\d{3})\.(\d{3}) )(?:([DIWE]) )?")


@dataclass(frozen=True, slots=True)
class LogLine:
    """What a line says, its level (D, I, W, E, or '' for none), and seconds since the start."""

    text: str
    level: str = ""
    at_s: float | None = None


def read_lines(lines: Iterable[str]) -> Iterator[LogLine]:
    """Every line, JSON lines (`--log-jsonl`) included. Lines end at LF alone."""
    for physical in lines:
        for part in physical.split("\n"):
            text = _COLOUR.sub("", part).rstrip("\r")
            if text:
                yield _read(text)


def _read(text: str) -> LogLine:
    if text.startswith("{"):
        text = _message(text)
    found = _HEAD.match(text)
    if found is None:
        return LogLine(text)
    minutes, seconds, milli, micro = (int(part) for part in found.groups()[:4])
    at_s = minutes * 60 + seconds + milli / 1e3 + micro / 1e6
    return LogLine(text[found.end() :], found[5] or "", at_s)


def _message(text: str) -> str:
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if not isinstance(told, dict):
        return text
    return next((told[name] for name in ("msg", "message", "text") if isinstance(told.get(name), str)), text)
