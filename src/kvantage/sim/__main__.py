"""`python -m kvantage.sim`: one simulated server, in real or scaled time, behind the golden server's HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys

import click

from kvantage.core import KvantageError
from kvantage.golden.options import Options
from kvantage.golden.server import GoldenServer
from kvantage.sim.serve import arm_from_json, encoder, simulated
from kvantage.sim.source import SimSource


@click.command()
@click.option("--arm", required=True, help="The arm as JSON: name, engine, model, settings, speculation, ...")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", default=0, show_default=True, help="0 takes any free port.")
@click.option("--speed", default=1.0, show_default=True, help="Virtual seconds a real one.")
@click.option("--while-stdin", is_flag=True, help="Stop when standard input closes (when the parent ends).")
def command(arm: str, host: str, port: int, speed: float, while_stdin: bool) -> None:
    """Serve one arm, simulated: no model, no tokens, an engine's scheduling, pool and times.

    Its addresses, metrics and log lines are those of the engine that it is like. The address is printed.
    """
    try:
        if not 0 < speed <= 10_000:
            raise click.BadParameter("a speed is above 0 and at most 10,000", param_hint="--speed")
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(_serve(arm, host, port, speed, while_stdin))
    except KvantageError as error:
        click.echo(f"kvantage sim: {error}", err=True)
        sys.exit(error.exit_code)


async def _serve(text: str, host: str, port: int, speed: float, while_stdin: bool) -> None:
    arm = arm_from_json(text)
    engine, front, context = simulated(arm, speed)
    source = SimSource(engine, front, encoder(arm.model), context, speed=speed, say=_say)
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    for line in front.boot_lines():
        _say(line)
    options = Options(token_ids=True)
    async with GoldenServer(source, options=options, host=host, port=port) as server:
        _say(f"serving at {server.url}")
        if while_stdin:
            reader = asyncio.StreamReader()
            await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
            closed = asyncio.ensure_future(reader.read())
            closed.add_done_callback(lambda _: stop.set())
        await stop.wait()


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    command()
