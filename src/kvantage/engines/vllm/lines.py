"""vLLM's log lines: who wrote one, how bad it is, and what it says."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_WRITER = re.compile(r"^\((?P<writer>[A-Za-z][\w .-]*?) pid=\d+\) ?")
_STAMP = re.compile(
    r"^(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) (?P<time>\d\d-\d\d \d\d:\d\d:\d\d) "
    r"(?:\[[^\]\s]+:\d+\] ?)?"
)


@dataclass(frozen=True, slots=True)
class Line:
    """One line. `writer` is the process (APIServer, EngineCore, Worker_TP0); empty where it is not told."""

    text: str
    writer: str = ""
    level: str = ""
    time: str = ""

    @property
    def rank(self) -> str:
        """The tensor-parallel rank that wrote it, as TP0; empty for a single worker."""
        found = re.search(r"TP\d+", self.writer)
        return found[0] if found else ""


def read_line(raw: str) -> Line:
    """A raw line without its prefix. Lines of other programs keep their whole text."""
    text = _ANSI.sub("", raw).rstrip("\r\n")
    writer = level = time = ""
    if found := _WRITER.match(text):
        writer, text = found["writer"], text[found.end() :]
    if found := _STAMP.match(text):
        level, time, text = found["level"], found["time"], text[found.end() :]
    return Line(text, writer, level, time)


def read_lines(raw: Iterable[str]) -> Iterator[Line]:
    """All lines, each as `read_line` reads it."""
    return (read_line(line) for line in raw)
