"""Servers that somebody else started: measured as they are, never flushed, restarted or reconfigured."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from kvantage.core import ArmFailed, ArmSettings, Engine, HostFacts, Launch, Observer, Server
from kvantage.hosts.local import LocalHost
from kvantage.hosts.scripts import Commands, follow
from kvantage.runner.scripted import served_names
from kvantage.runner.way import PreparedArm, machine_under
from kvantage.study import Attach

LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Attached:
    """The addresses of the study's `attach`, one an arm."""

    def __init__(self, attach: Mapping[str, Attach], folder: Path, host: LocalHost) -> None:
        self._attach = attach
        self._folder = folder
        self._host = host

    def problems(self, engine: Engine, arm: ArmSettings) -> list[str]:
        if arm.name not in self._attach:
            return [
                "no server is attached for it: add it to `attach`, or measure it when it runs by"
                f" `kvantage measure URL --as {arm.name}`"
            ]
        return engine.problems(arm, self._host.facts())

    def prepare(self, engine: Engine, arm: ArmSettings) -> PreparedArm:
        attached = self._attach[arm.name]
        key = os.environ.get(attached.key_env) if attached.key_env else None
        speculation = arm.speculation
        told = f"{speculation.method}, {speculation.drafts} drafts" if speculation.on else "no speculation"
        return PreparedArm(
            settings=arm,
            engine=engine,
            launch=Launch(()),
            port=urlsplit(attached.url).port or 0,
            url=attached.url,
            how=(f"as it runs at {attached.url} ({told}); nothing is started, flushed or stopped",),
            headers={"Authorization": f"Bearer {key}"} if key else {},
        )

    async def renew(self, arm: PreparedArm) -> PreparedArm:
        return arm

    async def facts(self, arm: PreparedArm) -> HostFacts:
        return machine_under(arm.url, self._host)

    async def start(self, arm: PreparedArm, log_path: Path, observer: Observer, within_s: float) -> Server:
        """Nothing is started: its name is asked for, its log followed. Raises ArmFailed without a name."""
        attached = self._attach[arm.settings.name]
        key = os.environ.get(attached.key_env) if attached.key_env else None
        names = await served_names(arm.url, key)
        if not names:
            raise ArmFailed(
                f"{arm.url} lists no model: nothing serves there, or it refuses the key",
                hint="is the address right? `attach: {ARM: {url: ..., key_env: NAME}}`",
            )
        model = arm.settings.model
        name = model if model in names else names[0]
        commands = Commands(None, None, attached.logs, self._folder)
        process = follow(commands, log_path, self._host, from_start=True)
        return Server(arm.settings, arm.url, name, arm.launch, process, arm.headers, remembers=True)

    async def close(self) -> None:
        return None


def confounded(urls: Mapping[str, str]) -> tuple[str, ...]:
    """A sentence where arms run on different hosts: what differs may be the machine's."""
    hosts: dict[str, list[str]] = {}
    for arm, url in urls.items():
        name = urlsplit(url).hostname or url
        hosts.setdefault("this machine" if name in LOOPBACK else name, []).append(arm)
    if len(hosts) < 2:
        return ()
    told = "; ".join(f"{', '.join(arms)} on {host}" for host, arms in hosts.items())
    swap = "; ".join(
        f"`kvantage measure {url} --as {arm} --into FOLDER-swapped`" for arm, url in swapped(urls).items()
    )
    return (
        f"confounded: the arms run on different hosts ({told}), so a difference may be the machine's. To"
        f" tell, start each arm where another was, and measure into a folder of its own: {swap}. A ratio that"
        " is the arm's stays, one that is the machine's turns round; the arm's own is the geometric mean of"
        " both (docs/servers.md)",
    )


def swapped(urls: Mapping[str, str]) -> dict[str, str]:
    """Each arm at the address of the next one on another host, so that every address is used once."""
    by_host: dict[str, list[str]] = {}
    for arm, url in urls.items():
        by_host.setdefault(urlsplit(url).hostname or url, []).append(arm)
    order = [arm for arms in by_host.values() for arm in arms]
    step = max(len(arms) for arms in by_host.values())
    return {arm: urls[order[(place + step) % len(order)]] for place, arm in enumerate(order)}
