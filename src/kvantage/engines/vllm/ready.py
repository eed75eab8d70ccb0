"""Readiness: health, then one request, since health alone passes on servers that die at their first."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from kvantage.core import ArmFailed, Server
from kvantage.engines.http import Answer, ask
from kvantage.engines.vllm.death import exit_words, explain_death

BETWEEN_POLLS_S = 0.25
SMOKE_TOKENS = 8
SMOKE_S = 120.0
"""The first request may compile for a while, whatever is left of the time to boot."""
DYING_S = 8.0
"""A server whose engine died says why within this."""


async def ready(server: Server, within_s: float) -> None:
    """Wait until it serves, then prove it. Raises ArmFailed with its log's own words."""
    until = time.monotonic() + within_s
    while not await healthy(server):
        if died(server):
            raise failed(server, "the server died while starting")
        if time.monotonic() > until:
            raise failed(server, f"the server was not ready within {within_s:.0f} s")
        await asyncio.sleep(BETWEEN_POLLS_S)
    await its_own(server)
    await smoke(server, max(SMOKE_S, until - time.monotonic()))


async def healthy(server: Server) -> bool:
    """Whether /health answers 200 now."""
    try:
        return (await ask(f"{server.url}/health", timeout_s=5)).ok
    except OSError:
        return False


async def its_own(server: Server) -> None:
    """Raises ArmFailed when another server answers at this address."""
    if died(server):
        raise failed(server, f"the server died, and another answers at {server.url}: its port is in use")
    try:
        told = (await ask(f"{server.url}/v1/models")).json()
    except OSError:
        return
    names = [model.get("id") for model in listed(told) if isinstance(model, dict)]
    if names and server.served_name not in names:
        raise failed(
            server, f"another server answers at {server.url}: it serves {names[0]}, not {server.served_name}"
        )


def listed(told: Any) -> list[Any]:
    """The `data` of a list answer."""
    data = told.get("data") if isinstance(told, dict) else None
    return data if isinstance(data, list) else []


async def smoke(server: Server, within_s: float) -> None:
    """One short chat request, which must bring tokens."""
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
        raise failed(server, f"the server starts healthy and fails at its first request ({error})") from error
    if not answer.ok or tokens_of(answer) < 1:
        await dying(server)
        what = f"answers its first request with {answer.status}: {said(answer)}"
        if answer.ok:
            what = "answers its first request with no token"
        raise failed(server, f"the server starts healthy and {what}")
    if died(server):
        raise failed(server, "the server died after its first request")


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


def failed(server: Server, message: str) -> ArmFailed:
    """The failure of this arm, with what the log and the exit status say."""
    lines: tuple[str, ...] = ()
    hint = None
    if server.process is not None:
        lines = explain_death(server.process.log_lines())
        status = server.process.exit_code()
        ended = f"{exit_words(status)}; " if status is not None else ""
        hint = f"{ended}its log: {server.process.log_path}"
    return ArmFailed(message, where=f"arm {server.arm.name}", hint=hint, log_lines=lines)
