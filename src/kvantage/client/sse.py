"""Server-sent events, cut out of a whole body. Lines end at LF, CRLF or CR, and at nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

_BOM = b"\xef\xbb\xbf"


class Event(NamedTuple):
    """One event. `end` is the offset just past the byte that completed it; `name` is b"" for 'message'."""

    end: int
    data: bytes
    name: bytes = b""


@dataclass(frozen=True, slots=True)
class Events:
    """What a body holds: its events, how many comments, and the bytes after the last blank line."""

    events: tuple[Event, ...]
    comments: int
    rest: bytes


def read_events(body: bytes) -> Events:
    """Cut a body into events.

    An event ends at its blank line; where that is a CR, at the CR, without waiting for a LF. A block
    without data (a comment, a blank line) is no event.
    """
    cutter = Cutter(body)
    events = tuple(iter(cutter.next, None))
    return Events(events, cutter.comments, cutter.rest)


class Cutter:
    """Cuts one event after the other out of a body.

    position  the offset just past the last event; whoever knows the bytes there may set it to the end of
              a later event, and cutting goes on from that
    comments  how many lines were comments so far
    """

    __slots__ = ("_block", "_body", "_cr", "_lf", "comments", "position")

    def __init__(self, body: bytes) -> None:
        self.comments = 0
        self.position = self._block = len(_BOM) if body.startswith(_BOM) else 0
        self._body = body
        self._lf = self._cr = -1

    @property
    def rest(self) -> bytes:
        """What came after the last blank line, once `next` has given None."""
        return self._body[self._block :]

    def next(self) -> Event | None:
        """The next event, or None where no blank line ends another."""
        body, lf, cr, position = self._body, self._lf, self._cr, self.position
        never = len(body)
        data: list[bytes] = []
        name = b""
        self._block = position
        while True:
            if lf < position:
                lf = body.find(b"\n", position)
                lf = never if lf < 0 else lf
            if cr < position:
                cr = body.find(b"\r", position)
                cr = never if cr < 0 else cr
            stop = lf if lf < cr else cr
            if stop == never:
                return None
            line = body[position:stop]
            position = stop + 2 if lf == stop + 1 and cr == stop else stop + 1
            if line:
                if line.startswith(b"data: "):
                    data.append(line[6:])
                elif line.startswith(b"data:"):
                    data.append(line[5:])
                elif line.startswith(b":"):
                    self.comments += 1
                elif line == b"data":
                    data.append(b"")
                elif line.startswith(b"event:"):
                    name = line[6:].removeprefix(b" ")
                elif line.startswith(b"error:"):
                    # llama.cpp's older builds: an error instead of data.
                    data.append(line[6:].removeprefix(b" "))
                    name = b"error"
                continue
            if data:
                self._lf, self._cr, self.position = lf, cr, position
                return Event(stop + 1, data[0] if len(data) == 1 else b"\n".join(data), name)
            name = b""
            self._block = position
