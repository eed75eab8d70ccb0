"""What is asked of a server, and its bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

from kvantage.core import UsageError


@dataclass(frozen=True, slots=True)
class Origin:
    """Where connections go, and what they are pooled by."""

    tls: bool
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One HTTP request; usually a streamed chat.

        ChatRequest("http://127.0.0.1:8000/v1/chat/completions", {"stream": True, ...})
        ChatRequest(url, body, headers={"Authorization": "Bearer ..."}, deadline_s=120)
        ChatRequest("http://127.0.0.1:8000/metrics", None, method="GET")

    body         sent as JSON; None sends no body
    deadline_s   seconds from the call to the end of the answer, connecting included; then it is cut off
    intended_ns  when the schedule wants it sent (time.monotonic_ns); None is 'as soon as it is called'
    """

    url: str
    body: Mapping[str, Any] | None
    headers: Mapping[str, str] = field(default_factory=dict)
    deadline_s: float = 600.0
    intended_ns: int | None = None
    method: Literal["POST", "GET", "DELETE"] = "POST"

    def __post_init__(self) -> None:
        if self.deadline_s <= 0:
            raise UsageError(f"a request's deadline is more than 0 s, not {self.deadline_s}")


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request as bytes, so that nothing is left to do at the moment of sending."""

    origin: Origin
    data: bytes
    deadline_s: float
    intended_ns: int | None


def prepare(request: ChatRequest) -> Prepared:
    """Turn a request into bytes. Raises UsageError for an address or a header that cannot be sent."""
    origin, target = split_url(request.url)
    body = b"" if request.body is None else json.dumps(request.body, separators=(",", ":")).encode()
    fields = {
        "Host": str(origin),
        "Accept": "text/event-stream, application/json",
        "Accept-Encoding": "identity",
    }
    if request.body is not None:
        fields["Content-Type"] = "application/json"
    if request.method == "POST":
        fields["Content-Length"] = str(len(body))
    given = {name.lower() for name in request.headers}
    lines = [f"{request.method} {target} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in fields.items() if name.lower() not in given]
    for name, value in request.headers.items():
        if any(mark in name + value for mark in "\r\n\0"):
            raise UsageError(f"the header {name!r} holds a line break", hint="check the key it was read from")
        lines.append(f"{name}: {value}")
    try:
        head = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
    except UnicodeEncodeError as error:
        raise UsageError(
            f"a header or the address holds {error.object[error.start]!r}, beyond latin-1"
        ) from error
    return Prepared(origin, head + body, request.deadline_s, request.intended_ns)


def split_url(url: str) -> tuple[Origin, str]:
    """The origin and the request target of an address. Raises UsageError for one that is not http(s)."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise UsageError(f"{url!r} is not an address: {error}") from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(
            f"{url!r} is not an http address",
            hint="write it whole, as in http://127.0.0.1:8000/v1/chat/completions",
        )
    if parts.username or parts.password:
        raise UsageError(
            f"the address of {parts.hostname} holds a name or a password",
            hint="send a key as a header instead",
        )
    if any(mark <= " " or mark == "\x7f" for mark in url):
        raise UsageError(f"{url!r} holds a space or a control character")
    tls = parts.scheme == "https"
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Origin(tls, parts.hostname, port or (443 if tls else 80)), target
