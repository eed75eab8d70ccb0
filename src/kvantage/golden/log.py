"""When the server really wrote each chunk, and how late it was itself."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Written:
    """One request as the server saw it. Times are time.monotonic_ns.

    arrived_ns   when its last byte arrived, as the kernel stamped it
    due_ns       when each chunk ought to be written
    written_ns   when it was, just before the socket took it
    tokens       how many tokens it carried
    ended        done, cut, error, hang or gone (the client left); None while it runs
    """

    number: int
    arrived_ns: int
    due_ns: array[int] = field(default_factory=lambda: array("q"))
    written_ns: array[int] = field(default_factory=lambda: array("q"))
    tokens: array[int] = field(default_factory=lambda: array("q"))
    ended: str | None = None

    def note(self, due_ns: int, written_ns: int, tokens: int) -> None:
        """One chunk was written."""
        self.due_ns.append(due_ns)
        self.written_ns.append(written_ns)
        self.tokens.append(tokens)

    def to_json(self) -> dict[str, Any]:
        """The same as plain data."""
        return {
            "number": self.number,
            "arrived_ns": self.arrived_ns,
            "due_ns": self.due_ns.tolist(),
            "written_ns": self.written_ns.tolist(),
            "tokens": self.tokens.tolist(),
            "ended": self.ended,
        }
