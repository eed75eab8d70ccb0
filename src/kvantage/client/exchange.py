"""The raw result of one request: what the socket gave, and when."""

from __future__ import annotations

import json
from array import array
from dataclasses import dataclass, field
from typing import Any


def _no_reads() -> array[int]:
    return array("q")


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and its answer, unparsed. Times are time.monotonic_ns, one clock in every process.

    intended_ns  when the schedule wanted it sent
    begun_ns     when its first byte was handed to the socket (when it failed, if it never was)
    sent_ns      when its last byte was: a long prompt may have to wait for the server to read
    end_ns       the answer's last read, or the failure
    read_ns      when the last byte of each read arrived, as the kernel stamped it (under TLS, and where the
                 kernel does not, as we read it); read i completed body[:read_ends[i]]
    body         the answer with HTTP's own framing taken off
    error        why the answer is not whole: refused, reset, cut, deadline; None when it is
    lag_ns       the largest event-loop delay seen while it was open
    reused       True when the connection had served before
    """

    intended_ns: int
    begun_ns: int
    sent_ns: int
    end_ns: int
    http_status: int | None = None
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    read_ns: array[int] = field(default_factory=_no_reads)
    read_ends: array[int] = field(default_factory=_no_reads)
    error: str | None = None
    lag_ns: int = 0
    reused: bool = False

    def __post_init__(self) -> None:
        if len(self.read_ns) != len(self.read_ends):
            raise ValueError("one time a read")

    @property
    def complete(self) -> bool:
        """True when the whole answer arrived, whatever it says."""
        return self.error is None

    @property
    def ok(self) -> bool:
        """True when the whole answer arrived with a 2xx status; what it says is not looked at."""
        return self.error is None and self.http_status is not None and 200 <= self.http_status < 300

    @property
    def send_delay_ns(self) -> int:
        """How much later than intended it began to go out."""
        return self.begun_ns - self.intended_ns

    def header(self, name: str) -> str | None:
        """The first header of that name, in any case."""
        wanted = name.lower()
        return next((value for key, value in self.headers if key.lower() == wanted), None)

    @property
    def text(self) -> str:
        """The body as text; bytes that are not UTF-8 become U+FFFD."""
        return self.body.decode("utf-8", "replace")

    def json(self) -> Any:
        """The body as JSON. Raises ValueError when it is not."""
        return json.loads(self.body)
