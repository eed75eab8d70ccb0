"""What a server tells at an address, or nothing: for what it may or may not serve."""

from __future__ import annotations

import time
from typing import Any

from kvantage.engines.http import ask


async def text_of(url: str, timeout_s: float = 10.0, key: str | None = None) -> str:
    """The body, empty where there is no answer or an error."""
    try:
        answer = await ask(url, timeout_s=timeout_s, key=key)
    except OSError:
        return ""
    return answer.body if answer.ok else ""


async def metrics_of(url: str) -> tuple[str, int]:
    """(the text of a server's /metrics, when it was there on the monotonic clock in ns).

    Raises ConnectionError where it answers with an error, OSError where it does not answer.
    """
    answer = await ask(f"{url}/metrics")
    taken_ns = time.monotonic_ns()
    if not answer.ok:
        raise ConnectionError(f"{url}/metrics answers {answer.status}")
    return answer.body, taken_ns


async def json_of(url: str, timeout_s: float = 10.0, key: str | None = None) -> Any:
    """The body as JSON, None where there is no answer, an error, or no JSON."""
    try:
        answer = await ask(url, timeout_s=timeout_s, key=key)
    except OSError:
        return None
    return answer.json() if answer.ok else None
