"""A server's log file, read from where somebody stopped: logs of a long study are many megabytes."""

from __future__ import annotations

from pathlib import Path

STRIDE = 4096


def lines_from(path: Path, start: int = 0) -> list[str]:
    """The lines from byte `start` on, the last one maybe still being written; none when it cannot be read."""
    try:
        with path.open("rb") as file:
            file.seek(start)
            return file.read().decode("utf-8", "replace").split("\n")
    except OSError:
        return []


def whole_bytes(path: Path) -> int:
    """Bytes up to the end of the last whole line; 0 when there is none."""
    try:
        with path.open("rb") as file:
            end = file.seek(0, 2)
            while end > 0:
                begin = max(0, end - STRIDE)
                file.seek(begin)
                place = file.read(end - begin).rfind(b"\n")
                if place >= 0:
                    return begin + place + 1
                end = begin
    except OSError:
        return 0
    return 0
