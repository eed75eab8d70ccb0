"""Servers that kvantage starts on other machines, by ssh: one, or a group that serves one model together."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from kvantage.core import ArmSettings, Engine, HostFacts, Launch, Observer, Server
from kvantage.hosts.group import start_group
from kvantage.hosts.side import SideLoop
from kvantage.hosts.ssh import SshHost
from kvantage.runner.way import PreparedArm
from kvantage.study import Node, resolve_env

USUAL_PORT = 30000
"""Shown before anything is asked of the machines; at boot it is one that is free there."""


class Remote:
    """The study's `hosts`. A server that listens on loopback alone is reached through the connection."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = nodes
        self._side = SideLoop()
        self._hosts = [SshHost(node, self._side) for node in nodes]

    @property
    def hosts(self) -> tuple[SshHost, ...]:
        """The machines, the one that serves requests first."""
        return tuple(self._hosts)

    def problems(self, engine: Engine, arm: ArmSettings) -> list[str]:
        return engine.problems(arm, self._unseen())

    def prepare(self, engine: Engine, arm: ArmSettings) -> PreparedArm:
        return self._prepared(engine, arm, USUAL_PORT, self._unseen())

    async def renew(self, arm: PreparedArm) -> PreparedArm:
        first = self._hosts[0]
        return self._prepared(arm.engine, arm.settings, await first.free_port(), await first.facts())

    async def facts(self, arm: PreparedArm) -> HostFacts:
        first, *others = await asyncio.gather(*(host.facts() for host in self._hosts))
        more = [
            {"host": one.name, "cpu": one.cpu, "memory_bytes": one.memory_bytes, **one.details}
            for one in others
        ]
        return replace(first, details={**first.details, "other_machines": more}) if more else first

    async def start(self, arm: PreparedArm, log_path: Path, observer: Observer, within_s: float) -> Server:
        launch = arm.launch
        commands = launch.per_node or (launch.argv,)
        process = await start_group(self._hosts, commands, resolve_env(launch.env), log_path)
        try:
            if _on_loopback(launch):
                port = await self._hosts[0].forward(arm.port)
                return replace(arm.server(process), url=f"http://127.0.0.1:{port}")
        except BaseException:
            await process.stop(0.0)
            raise
        return arm.server(process)

    async def close(self) -> None:
        await asyncio.gather(*(host.close() for host in self._hosts))
        await self._side.close()

    def _unseen(self) -> HostFacts:
        return HostFacts(self._nodes[0].name, "not looked at yet", 0, 0)

    def _prepared(self, engine: Engine, arm: ArmSettings, port: int, facts: HostFacts) -> PreparedArm:
        launch = engine.command(arm, facts, port)
        commands = launch.per_node or (launch.argv,)
        how = tuple(
            f"ssh {node.name}: {shlex.join(argv)}" for node, argv in zip(self._nodes, commands, strict=True)
        )
        return PreparedArm(arm, engine, launch, port, f"http://{self._nodes[0].name}:{port}", how)


def _on_loopback(launch: Launch) -> bool:
    """Whether the server listens on its own machine alone: unless `--host` says otherwise."""
    argv = launch.argv
    hosts = [argv[place + 1] for place, word in enumerate(argv[:-1]) if word == "--host"]
    return not hosts or hosts[-1] in ("127.0.0.1", "localhost", "::1")
