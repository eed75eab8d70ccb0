"""Readiness, whatever the engine: health, its own model list, then one request that must bring tokens.

Health alone is not believed: servers have been seen to pass it and to die at their first request.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any

from kvantage.core import ArmFailed, Server
from kvantage.engines.http import Answer, ask

BETWEEN_POLLS_S = 0.25
SMOKE_TOKENS = 8
SMOKE_S = 120.0
"""The first request may compile for a while, whatever is left of the time to boot."""
DYING_S = 8.0
"""A server whose engine died says why within this."""

Explain = Callable[[Sequence[str]], tuple[str, ...]]
"""An engine's own reader of the lines that say why it died."""


async def wait_until_serving(server: Server, within_s: float, explain: Explain) -> None:
    """Wait until it serves, then prove it by one request. Raises ArmFailed with its log's own words."""
    until = time.monotonic() + within_s
    while not await healthy(server):
        if died(server):
            raise failed(server, "the server died while starting", explain)
        if time.monotonic() > until:
            raise failed(server, f"the server was not ready within {within_s:.0f} s", explain)
        await asyncio.sleep(BETWEEN_POLLS_S)
    await check_identity(server, explain)
    await first_request(server, max(SMOKE_S, until - time.monotonic()), explain)


async def healthy(server: Server) -> bool:
    """Whether /health answers 200 now."""
    try:
        return (await ask(f"{server.url}/health", timeout_s=5)).ok
    except OSError:
        return False


async def check_identity(server: Server, explain: Explain) -> None:
    """Raises ArmFailed when another server answers at this address."""
    if died(server):
        message = f"the server died, and another answers at {server.url}: its port is in use"
        raise failed(server, message, explain)
    try:
        told = (await ask(f"{server.url}/v1/models")).json()
    except OSError:
        return
    names = [model.get("id") for model in listed(told) if isinstance(model, dict)]
    if names and server.served_name not in names:
        message = f"another server answers at {server.url}: it serves {names[0]}, not {server.served_name}"
        raise failed(server, message, explain)


async def first_request(server: Server, within_s: float, explain: Explain) -> None:
    """One short chat request, which must bring tokens. Raises ArmFailed."""
    body = {
        "model": server.served_name,
        "messages": [{"role": "user", "content": "Say hello."}],
        "max_tokens": SMOKE_TOKENS,
        "temperature": 0.0,
        "ignore_eos": True,
    }
    try:
        answer = await ask(f"{server.url}/v1/chat/completions", body=body, timeout_s=within_s)
    except OSError as error:
        await dying(server)
        message = f"the server starts healthy and fails at its first request ({error})"
        raise failed(server, message, explain) from error
    if not answer.ok or tokens_of(answer) < 1:
        await dying(server)
        what = "with no token" if answer.ok else f"with {answer.status}: {said(answer)}"
        message = f"the server starts healthy and answers its first request {what}"
        raise failed(server, message, explain)
    if died(server):
        raise failed(server, "the server died after its first request", explain)


def listed(told: Any) -> list[Any]:
    """The `data` of a list answer."""
    data = told.get("data") if isinstance(told, dict) else None
    return data if isinstance(data, list) else []


def tokens_of(answer: Answer) -> int:
    """Output tokens as the server counts them."""
    told = answer.json()
    usage = told.get("usage") if isinstance(told, dict) else None
    count = usage.get("completion_tokens") if isinstance(usage, dict) else None
    return count if isinstance(count, int) else 0


def said(answer: Answer) -> str:
    """The message of an error answer."""
    told = answer.json()
    error = told.get("error", told) if isinstance(told, dict) else None
    message = error.get("message") if isinstance(error, dict) else error
    return str(message or answer.body.strip() or "nothing")[:300]


def died(server: Server) -> bool:
    """Whether its process has ended."""
    return server.process is not None and server.process.exit_code() is not None


async def dying(server: Server) -> None:
    """Give a server whose engine just died the time to say so and end."""
    until = time.monotonic() + DYING_S
    while server.process is not None and not died(server) and time.monotonic() < until:  # noqa: ASYNC110
        await asyncio.sleep(BETWEEN_POLLS_S)


def failed(server: Server, message: str, explain: Explain) -> ArmFailed:
    """The failure of this arm, with what the log and the exit status say."""
    lines: tuple[str, ...] = ()
    hint = None
    if server.process is not None:
        lines = explain(server.process.log_lines())
        status = server.process.exit_code()
        ended = f"{exit_words(status)}; " if status is not None else ""
        hint = f"{ended}its log: {server.process.log_path}"
    return ArmFailed(message, where=f"arm {server.arm.name}", hint=hint, log_lines=lines)


def exit_words(status: int) -> str:
    """How a process ended, for the person."""
    if status == -9:
        return "it was killed (signal 9): often the system, for lack of memory"
    if status < 0:
        return f"it died of signal {-status}"
    return f"it ended with status {status}"
