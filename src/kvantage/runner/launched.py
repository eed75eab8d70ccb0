"""Servers that kvantage starts itself: on this machine, or by ssh on one or several others."""

from __future__ import annotations

import shlex
from pathlib import Path

from kvantage.core import ArmFailed, ArmSettings, Engine, Host, HostFacts, Observer, Server
from kvantage.runner.way import PreparedArm
from kvantage.study import resolve_env


class Launched:
    """On this machine, each behind a guard that ends it with kvantage."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def problems(self, engine: Engine, arm: ArmSettings) -> list[str]:
        return engine.problems(arm, self._host.facts())

    def prepare(self, engine: Engine, arm: ArmSettings) -> PreparedArm:
        port = self._host.free_port()
        launch = engine.command(arm, self._host.facts(), port)
        machines = enumerate(launch.per_node, start=1)
        commands = tuple(f"machine {number}: {shlex.join(argv)}" for number, argv in machines)
        commands = commands or (shlex.join(launch.argv),)
        return PreparedArm(arm, engine, launch, port, f"http://127.0.0.1:{port}", commands)

    async def renew(self, arm: PreparedArm) -> PreparedArm:
        return self.prepare(arm.engine, arm.settings)

    async def facts(self, arm: PreparedArm) -> HostFacts:
        return self._host.facts()

    async def start(self, arm: PreparedArm, log_path: Path, observer: Observer, within_s: float) -> Server:
        if arm.launch.per_node:
            raise ArmFailed(
                f"it takes {len(arm.launch.per_node)} machines, and this is one",
                hint="name them: `hosts: [spark1, spark2]`, the first one serving requests",
            )
        process = await self._host.start(arm.launch.argv, resolve_env(arm.launch.env), log_path, cwd=None)
        return arm.server(process)

    async def close(self) -> None:
        return None
