"""Servers that the person starts: by commands of their own, or by hand while kvantage waits."""

from __future__ import annotations

import asyncio
import shlex
import sys
import time
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from kvantage.core import ArmFailed, ArmSettings, Engine, HostFacts, Observer, Server
from kvantage.engines.answers import json_of
from kvantage.hosts.local import LocalHost
from kvantage.hosts.scripts import Commands, follow, start_by_command
from kvantage.runner.way import PreparedArm, machine_under
from kvantage.study import Boot, filled_in, resolve_env

BETWEEN_LOOKS_S = 0.25


class Scripted:
    """Runs the study's `boot.start` and `boot.stop`, or asks for what `manual` needs.

    The server is told from the one before it by the name that it serves, which `{flags}` gives it.
    """

    def __init__(self, boot: Boot, folder: Path, host: LocalHost, *, interactive: bool | None = None) -> None:
        self._boot = boot
        self._folder = folder
        self._host = host
        self._interactive = sys.stdin.isatty() if interactive is None else interactive

    def problems(self, engine: Engine, arm: ArmSettings) -> list[str]:
        if self._boot.manual and not self._interactive:
            return [
                "`boot.manual` asks you to restart the server, and nobody is there to be asked (the input is"
                " no terminal): run it in a terminal, or give `boot.start` and `boot.stop`"
            ]
        return engine.problems(arm, machine_under(self._boot.url or "", self._host))

    def prepare(self, engine: Engine, arm: ArmSettings) -> PreparedArm:
        url = self._boot.url or ""
        port = self._host.free_port() if "{port}" in url else urlsplit(url).port
        url = filled_in(url, port=str(port))
        port = port or (443 if url.startswith("https:") else 80)
        launch = engine.command(arm, machine_under(url, self._host), port)
        made = PreparedArm(arm, engine, launch, port, url)
        commands = self._commands(made)
        if self._boot.manual:
            how = (f"restart the server at {url} with", f"  {shlex.join(launch.flags)}")
        else:
            stop = (f"and in the end: {commands.stop}",) if commands.stop else ()
            how = (f"cd {shlex.quote(str(self._folder))} && {commands.start}", *stop)
        return replace(made, how=how)

    async def renew(self, arm: PreparedArm) -> PreparedArm:
        return self.prepare(arm.engine, arm.settings)

    async def facts(self, arm: PreparedArm) -> HostFacts:
        return machine_under(arm.url, self._host)

    async def start(self, arm: PreparedArm, log_path: Path, observer: Observer, within_s: float) -> Server:
        commands = self._commands(arm)
        if self._boot.manual:
            process = follow(commands, log_path, self._host, from_start=False)
            flags = shlex.join(arm.launch.flags)
            observer.on(
                "ask", text=f"restart the server at {arm.url} as arm {arm.settings.name}, with\n  {flags}"
            )
        else:
            env = resolve_env(arm.launch.env)
            process = await start_by_command(commands, env, log_path, self._host)
        server = arm.server(process)
        try:
            await _until_it_is_there(server, within_s)
        except BaseException:
            await process.stop(5.0)
            raise
        return server

    async def close(self) -> None:
        return None

    def _commands(self, arm: PreparedArm) -> Commands:
        words = {
            "flags": shlex.join(arm.launch.flags),
            "arm": arm.settings.name,
            "port": str(arm.port),
        }

        def filled(text: str | None) -> str | None:
            return None if text is None else filled_in(text, **words)

        logs = tuple(filled_in(one, **words) for one in self._boot.logs)
        return Commands(filled(self._boot.start), filled(self._boot.stop), logs, self._folder)


async def _until_it_is_there(server: Server, within_s: float) -> None:
    """Wait until the address serves this arm's name, and not an earlier one's.

    Returns too when the start command failed: then the engine says why, from the log. Raises ArmFailed.
    """
    until = time.monotonic() + within_s
    while True:
        names = await served_names(server.url)
        if server.served_name in names:
            return
        if server.process is not None and server.process.exit_code() is not None:
            return
        if time.monotonic() > until:
            there = f"serves {', '.join(names)}, not {server.served_name}" if names else "does not answer"
            raise ArmFailed(
                f"{server.url} {there} after {within_s:.0f} s",
                hint="hand {flags} on to the server: they hold the name that it must serve"
                if names
                else "is `boot.url` right, and does the server listen there and not on loopback alone?",
            )
        await asyncio.sleep(BETWEEN_LOOKS_S)


async def served_names(url: str, key: str | None = None) -> tuple[str, ...]:
    """The models that an address lists; none where it does not answer."""
    told = await json_of(f"{url}/v1/models", timeout_s=5, key=key)
    listed = told.get("data") if isinstance(told, dict) else None
    names = [one.get("id") for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    return tuple(name for name in names if isinstance(name, str))
