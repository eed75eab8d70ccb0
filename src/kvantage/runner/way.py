"""How an arm's server is come by: started by kvantage, by the person's commands, or running already."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from kvantage.core import ArmSettings, Engine, Host, HostFacts, Launch, Observer, Server, ServerProcess
from kvantage.study import Study


@dataclass(frozen=True)
class PreparedArm:
    """One arm with its engine. `launch` is the command as it would be with `port`.

    `url` is where it will answer, `how` what a dry run shows of how it is come by.
    """

    settings: ArmSettings
    engine: Engine
    launch: Launch
    port: int
    url: str
    how: tuple[str, ...] = ()
    served_name: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    def server(self, process: ServerProcess) -> Server:
        """The server of this arm, once it runs."""
        name = self.served_name or self.settings.name
        return Server(self.settings, self.url, name, self.launch, process, self.headers)


class Way(Protocol):
    """One of the ways to a server; the phases and the ledger behind each are the same."""

    def problems(self, engine: Engine, arm: ArmSettings) -> list[str]:
        """Why this arm's server cannot be come by, each with what would work."""
        ...

    def prepare(self, engine: Engine, arm: ArmSettings) -> PreparedArm:
        """The arm as it would be started now. Raises UsageError when it cannot."""
        ...

    async def renew(self, arm: PreparedArm) -> PreparedArm:
        """The same arm, ready to be started now: on a port that is free."""
        ...

    async def facts(self, arm: PreparedArm) -> HostFacts:
        """The machine under the server."""
        ...

    async def start(self, arm: PreparedArm, log_path: Path, observer: Observer, within_s: float) -> Server:
        """Start it, or wait until it is there. Whether it serves is for the engine to prove.

        Raises ArmFailed when it cannot be started, or does not come within `within_s`.
        """
        ...

    async def close(self) -> None:
        """Let go of what was held for the way itself."""
        ...


def study_folder(study: Study) -> Path:
    """Where the paths and commands of a study start from: its file's folder, or this one."""
    return study.path.absolute().parent if study.path else Path.cwd()


def machine_under(url: str, host: Host) -> HostFacts:
    """This machine for a loopback address; for any other, one of which only the name is known."""
    name = urlsplit(url).hostname or ""
    if name in ("localhost", "::1") or name.startswith("127."):
        return host.facts()
    return HostFacts(name, "not told: the server runs on another machine", 0, 0)
