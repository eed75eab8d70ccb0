"""Small control calls to a server: health, metrics, flush. Never for measured requests."""

from __future__ import annotations

import asyncio
import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server answered, whatever its status."""

    status: int
    body: str

    @property
    def ok(self) -> bool:
        """True for a 2xx status."""
        return 200 <= self.status < 300

    def json(self) -> Any:
        """The body as JSON, or None where it is none."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None


async def ask(
    url: str, *, body: Any = None, method: str | None = None, timeout_s: float = 10.0, key: str | None = None
) -> Answer:
    """GET, or POST where there is a `body`. Raises OSError when no answer comes in time.

    Proxies of the environment are not used: the server under test is addressed directly.
    """
    return await asyncio.to_thread(_ask, url, body, method, timeout_s, key)


async def fetch(url: str, timeout_s: float = 5.0) -> bytes:
    """The body of a plain GET on the event loop itself: no thread, no parser, well under a millisecond.

    For figures that are looked at while requests are timed. Raises OSError without a 200 in time.
    """
    parts = urllib.parse.urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    secure = True if parts.scheme == "https" else None
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    async with asyncio.timeout(timeout_s):
        reader, writer = await asyncio.open_connection(parts.hostname, port, ssl=secure, limit=2**20)
        try:
            # HTTP/1.0: the answer is not chunked, and ends with the connection.
            writer.write(f"GET {path} HTTP/1.0\r\nHost: {parts.netloc}\r\n\r\n".encode())
            answer = await reader.read(-1)
        finally:
            writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    if head.split(b" ", 2)[1:2] != [b"200"]:
        raise ConnectionError(f"{url} answers {head[:80].decode('latin-1')}")
    return body


def _ask(url: str, body: Any, method: str | None, timeout_s: float, key: str | None) -> Answer:
    headers = {"Accept": "application/json, text/plain", "Connection": "close"}
    data = None
    if body is not None:
        data = json.dumps(body).encode()
        headers["Content-Type"] = "application/json"
    if key:
        headers["Authorization"] = f"Bearer {key}"
    request = urllib.request.Request(url, data=data, headers=headers, method=method)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=timeout_s) as response:
            return Answer(response.status, response.read().decode("utf-8", "replace"))
    except urllib.error.HTTPError as error:
        with error:
            return Answer(error.code, error.read().decode("utf-8", "replace"))
    except http.client.HTTPException as error:
        raise ConnectionError(f"{url}: {type(error).__name__}: {error}") from error
