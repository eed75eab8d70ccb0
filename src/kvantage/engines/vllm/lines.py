"""vLLM's log lines: who wrote one, how bad it is, and what it says."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_WRITER = re.compile(
    r"^(?:[^(\s][^(]{0,99} )??"
    r"\((?P<writer>[A-Za-z][\w .-]*?(?: rank=\d+)?) (?P<pid>pid=\d+)(?:, ip=[\w.:]+)?\) ?"
)
"""Before it may stand what a journal, a container or a cluster puts there."""
_RANK = re.compile(r"TP\d+|(?<= rank=)\d+")
_REPLICA = re.compile(r"DP\d+|(?<=^EngineCore_)\d+")
_LEVEL = re.compile(r"\b(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\b")
_STAMP = re.compile(
    r"^(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) (?P<time>\d\d-\d\d \d\d:\d\d:\d\d) "
    r"(?:\[[^\]\s]+:\d+\] ?)?"
)


@dataclass(frozen=True, slots=True)
class Line:
    """One line. `writer` is the process (APIServer, EngineCore, Worker_TP0); empty where it is not told.

    `outer` is the process that passed it on, where a version prints both; `pid` tells workers of one name
    apart.
    """

    text: str
    writer: str = ""
    level: str = ""
    time: str = ""
    outer: str = ""
    pid: str = ""

    @property
    def replica(self) -> str:
        """The data-parallel engine that wrote it, as DP0; empty where there is no word of one."""
        found = _REPLICA.search(self.outer) or _REPLICA.search(self.writer)
        return "" if found is None else found[0] if found[0].startswith("DP") else f"DP{found[0]}"

    @property
    def rank(self) -> str:
        """The rank that wrote it, as TP0 or DP1 TP0; Ray's workers by their pid; empty for a single one."""
        found = _RANK.search(self.writer)
        if found is not None:
            tensor = found[0] if found[0].startswith("TP") else f"TP{found[0]}"
        else:
            tensor = self.pid if self.writer.startswith("Ray") else ""
        return " ".join(part for part in (self.replica, tensor) if part)


def read_line(raw: str) -> Line:
    """A raw line without its prefix. Lines of other programs keep their whole text."""
    text = _ANSI.sub("", raw).rstrip("\r\n")
    writer = outer = pid = level = time = ""
    while (found := _WRITER.match(text)) and not _LEVEL.search(text, 0, found.start("writer")):
        outer, writer, pid = outer or writer, found["writer"], found["pid"]
        text = text[found.end() :]
    if found := _STAMP.match(text):
        level, time, text = found["level"], found["time"], text[found.end() :]
    return Line(text, writer, level, time, outer, pid)


def read_lines(raw: Iterable[str]) -> Iterator[Line]:
    """All lines, each as `read_line` reads it."""
    return (read_line(line) for line in raw)
