"""Servers that the person starts: by commands of one's own, by hand, or long before kvantage came."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kvantage.hosts.follow import Followers
from kvantage.hosts.local import LocalHost
from kvantage.hosts.logfile import lines_from, whole_bytes
from kvantage.hosts.process import LocalProcess

STOP_COMMAND_S = 120.0
"""How long a `stop` command may take before it is ended itself."""


@dataclass(frozen=True, slots=True)
class Commands:
    """What is run for one boot, all filled in; `cwd` is the folder of the study file."""

    start: str | None
    stop: str | None
    logs: tuple[str, ...] = ()
    cwd: Path | None = None


class ForeignProcess:
    """A `ServerProcess` of a server that is not ours: its log is followed, and stopping ends just that."""

    def __init__(self, log_path: Path, followers: Followers) -> None:
        self._log_path = log_path
        self._followers = followers

    @property
    def pid(self) -> int:
        """0: not known."""
        return 0

    @property
    def log_path(self) -> Path:
        return self._log_path

    def exit_code(self) -> int | None:
        """None: its end shows only in that it no longer answers."""
        return None

    def log_lines(self, start: int = 0) -> list[str]:
        """What came of its log so far, from byte `start` on."""
        self._followers.catch_up()
        return lines_from(self._log_path, start)

    def log_size(self) -> int:
        """Bytes of its log up to the end of the last whole line."""
        self._followers.catch_up()
        return whole_bytes(self._log_path)

    async def stop(self, grace_s: float = 20.0) -> int:
        """Stop following. The server is left alone."""
        del grace_s
        await self._followers.stop()
        return 0


class ScriptedProcess(ForeignProcess):
    """A server that came of a `start` command, and goes by a `stop` command.

    Without `stop`, the server is what `start` runs, in the foreground or behind it, and ends with it. With
    `stop` it may run anywhere (a container, a batch job): then a `start` that ended well is no death.
    """

    def __init__(
        self,
        started: LocalProcess,
        commands: Commands,
        env: Mapping[str, str],
        host: LocalHost,
        followers: Followers,
    ) -> None:
        super().__init__(started.log_path, followers)
        self._started = started
        self._commands = commands
        self._env = env
        self._host = host
        self._stopping: asyncio.Task[int] | None = None

    @property
    def pid(self) -> int:
        return self._started.pid

    def exit_code(self) -> int | None:
        code = self._started.exit_code()
        return None if code == 0 and self._commands.stop is not None else code

    async def stop(self, grace_s: float = 20.0) -> int:
        """Run `stop`, then end what is left of `start`; returns the status of `stop`, 0 where there is none.

        Safe to call again: the command runs once.
        """
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._run_stop())
        status = await asyncio.shield(self._stopping)
        await self._started.stop(grace_s)
        await super().stop(grace_s)
        return status

    async def _run_stop(self) -> int:
        if self._commands.stop is None:
            return 0
        argv = ("/bin/sh", "-c", self._commands.stop)
        command = await self._host.start(argv, self._env, self.log_path, self._commands.cwd)
        try:
            async with asyncio.timeout(STOP_COMMAND_S):
                while command.exit_code() is None:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
        except TimeoutError:
            pass
        return await command.stop(0.0)


async def start_by_command(
    commands: Commands, env: Mapping[str, str], log_path: Path, host: LocalHost
) -> ScriptedProcess:
    """Run `start` in its folder, and follow the logs. Raises ArmFailed when it cannot be run at all.

    What `start` leaves in the background goes on; all of it ends with kvantage, however that ends.
    """
    followers = Followers(host, commands.logs, log_path, commands.cwd, from_start=False)
    argv = ("/bin/sh", "-c", commands.start or "true")
    started = await host.start(argv, env, log_path, commands.cwd, keep_background=True)
    followers.start()
    return ScriptedProcess(started, commands, env, host, followers)


def follow(commands: Commands, log_path: Path, host: LocalHost, *, from_start: bool) -> ForeignProcess:
    """Follow the logs of a server that somebody else starts, or started."""
    log_path.parent.mkdir(parents=True, exist_ok=True)
    log_path.touch()
    followers = Followers(host, commands.logs, log_path, commands.cwd, from_start=from_start)
    followers.start()
    return ForeignProcess(log_path, followers)
