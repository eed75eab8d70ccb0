"""Readiness, whatever the engine: health, its own model list, then one request that must bring tokens."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from kvantage.core import ArmFailed, Server
from kvantage.engines.http import ask
from kvantage.engines.vllm.death import exit_words
from kvantage.engines.vllm.ready import (
    BETWEEN_POLLS_S,
    SMOKE_S,
    SMOKE_TOKENS,
    died,
    dying,
    healthy,
    listed,
    said,
    tokens_of,
)

Explain = Callable[[Sequence[str]], tuple[str, ...]]


async def wait_until_serving(server: Server, within_s: float, explain: Explain) -> None:
    """Wait until it serves, then prove it by one request. Raises ArmFailed with its log's own words.

    Health alone is not believed: servers have been seen to pass it and to die at their first request.
    """
    until = time.monotonic() + within_s
    while not await healthy(server):
        if died(server):
            raise failed(server, "the server died while starting", explain)
        if time.monotonic() > until:
            raise failed(server, f"the server was not ready within {within_s:.0f} s", explain)
        await asyncio.sleep(BETWEEN_POLLS_S)
    await check_names(server, explain)
    await first_request(server, max(SMOKE_S, until - time.monotonic()), explain)


async def check_names(server: Server, explain: Explain) -> None:
    """Raises ArmFailed when another server answers at this address."""
    try:
        told = (await ask(f"{server.url}/v1/models")).json()
    except OSError:
        return
    names = [model.get("id") for model in listed(told) if isinstance(model, dict)]
    if names and server.served_name not in names:
        message = f"another server answers at {server.url}: it serves {names[0]}, not {server.served_name}"
        raise failed(server, message, explain)


async def first_request(server: Server, within_s: float, explain: Explain) -> None:
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
        message = f"the server starts healthy and fails at its first request ({error})"
        raise failed(server, message, explain) from error
    if not answer.ok or tokens_of(answer) < 1:
        await dying(server)
        what = "with no token" if answer.ok else f"with {answer.status}: {said(answer)}"
        message = f"the server starts healthy and answers its first request {what}"
        raise failed(server, message, explain)
    if died(server):
        raise failed(server, "the server died after its first request", explain)


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
