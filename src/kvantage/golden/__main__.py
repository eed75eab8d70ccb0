"""`python -m kvantage.golden`: the golden server in a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import Callable
from typing import Any, Literal, get_args, get_origin

import click

from kvantage.core import UsageError
from kvantage.golden.options import HELP, HINTS, Options
from kvantage.golden.script import Script
from kvantage.golden.server import GoldenServer


def _with_options(function: Callable[..., None]) -> Callable[..., None]:
    """A flag for each of `Options`, named as it is."""
    for name in reversed(HELP):
        hint = HINTS[name]
        default = getattr(Options(), name)
        flag = f"--{name.replace('_', '-')}"
        settings: dict[str, Any] = {
            "default": default,
            "show_default": default is not None,
            "help": HELP[name],
        }
        if hint is bool:
            flag = f"{flag}/--no-{name.replace('_', '-')}"
        elif get_origin(hint) is Literal:
            settings["type"] = click.Choice(get_args(hint))
        else:
            settings["type"] = next(iter(get_args(hint)), hint)
        function = click.option(flag, name, **settings)(function)
    return function


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", default=0, show_default=True, help="0 takes any free port.")
@click.option("--limit", type=int, default=None, help="At most so many requests run; others wait.")
@click.option("--while-stdin", is_flag=True, help="Stop when standard input closes (when the parent ends).")
@_with_options
def command(host: str, port: int, limit: int | None, while_stdin: bool, **options: Any) -> None:
    """Serve streams whose times, tokens and faults are known, and log when each chunk was really written.

    The first line printed is the address. Each option may also be given by a request, in its query or
    as `golden: {...}` in its body.

    \b
      kvantage golden --ttft-ms 50 --step-ms 20 --tokens-per-chunk 3
    """
    try:
        chosen = Options(**options)
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(_serve(chosen, host, port, limit, while_stdin))
    except UsageError as error:
        click.echo(f"kvantage golden: {error}", err=True)
        sys.exit(error.exit_code)


async def _serve(options: Options, host: str, port: int, limit: int | None, while_stdin: bool) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with GoldenServer(Script(options, limit=limit), options=options, host=host, port=port) as server:
        print(server.url, flush=True)
        if while_stdin:
            reader = asyncio.StreamReader()
            await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
            closed = asyncio.ensure_future(reader.read())
            closed.add_done_callback(lambda _: stop.set())
        await stop.wait()


if __name__ == "__main__":
    command()
