"""What answers: the seam between the server, which writes bytes on time, and whatever decides the times."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

Fault = Literal["cut", "error", "hang"]


@dataclass(frozen=True, slots=True)
class Ask:
    """A request that arrived. `number` counts requests from 0 and names this one in the log and its `id`.

    `chat` tells the chat form from plain completions; `body` is the request as sent, `options` what it
    (and the server's own defaults) ask of the golden server.
    """

    number: int
    arrived_ns: int
    chat: bool
    body: Mapping[str, Any]
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Piece:
    """One step's output of one request: what one chunk of its stream carries.

    due_ns     when it ought to be written
    token_ids  the tokens of this chunk; their number is the truth that usage must agree with
    finish     the finish reason, with the last piece
    counts     what the server says of the request at its end: goes into usage as it is
    extras     top-level fields of the last chunks (metrics, timings, ...)
    fault      the stream breaks here instead
    """

    number: int
    due_ns: int
    content: str = ""
    reasoning: str = ""
    tool_calls: tuple[Mapping[str, Any], ...] = ()
    token_ids: tuple[int, ...] = ()
    finish: str | None = None
    counts: Mapping[str, Any] = field(default_factory=dict)
    extras: Mapping[str, Any] = field(default_factory=dict)
    fault: Fault | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """The answer to any address that is not a completion."""

    body: bytes
    status: int = 200
    content_type: str = "application/json"


class Source(Protocol):
    """Decides what is said and when. The server calls it from one thread, with time.monotonic_ns.

    The golden server's own is `Script`; a simulated engine is another.
    """

    def start(self, ask: Ask) -> None:
        """Take a request. Raises ValueError, in words for the person, when it cannot be served (400)."""
        ...

    def due(self) -> int | None:
        """When something happens next, or None while nothing does."""
        ...

    def advance(self, now_ns: int) -> Iterable[Piece]:
        """Everything that is due by now, in order."""
        ...

    def drop(self, number: int) -> None:
        """The client of that request went away; it may have ended already."""
        ...

    def page(self, method: str, path: str, body: bytes) -> Page | None:
        """Any other address (`/metrics`, ...); None where there is none."""
        ...
