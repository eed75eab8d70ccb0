"""Processes on several machines that serve one model together: one's end is the end of all."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

from kvantage.hosts.ssh import SshHost, SshProcess

BETWEEN_LOOKS_S = 0.5
LAST_LINES = 200
"""Lines of a dead machine's log that are put into the first one's, where the reason is looked for."""


class GroupProcess:
    """A `ServerProcess` of several machines; the first serves requests, and its log is the boot's."""

    def __init__(self, members: Sequence[SshProcess]) -> None:
        self._members = members
        self._dead: int | None = None
        self._watch = asyncio.create_task(self._watching())

    @property
    def pid(self) -> int:
        """0: there are several, on other machines."""
        return 0

    @property
    def log_path(self) -> Path:
        return self._members[0].log_path

    def exit_code(self) -> int | None:
        """The status of the machine whose process ended first, or None while all run."""
        return self._dead

    def log_lines(self, start: int = 0) -> list[str]:
        """The first machine's log from byte `start` on; with the end of another's, when that died."""
        return self._members[0].log_lines(start)

    def log_size(self) -> int:
        """Bytes of the first machine's log up to the end of its last whole line."""
        return self._members[0].log_size()

    async def stop(self, grace_s: float = 20.0) -> int:
        """End all of them; returns the first one's status, or that of the machine that died."""
        self._watch.cancel()
        statuses = await asyncio.gather(*(member.stop(grace_s) for member in self._members))
        return statuses[0] if self._dead is None else self._dead

    async def _watching(self) -> None:
        while True:
            for rank, member in enumerate(self._members):
                code = member.exit_code()
                if code is not None:
                    self._note(rank, member, code)
                    # the others wait for it in vain, and so would our requests
                    await asyncio.gather(*(other.stop(5.0) for other in self._members if other is not member))
                    return
            await asyncio.sleep(BETWEEN_LOOKS_S)

    def _note(self, rank: int, member: SshProcess, code: int) -> None:
        self._dead = code
        with self.log_path.open("a", encoding="utf-8") as log:
            log.write(f"kvantage: {member.host} (rank {rank}) ended with status {code}")
            log.write("; its last lines:\n" if rank else "\n")
            if rank:
                log.writelines(f"{line}\n" for line in member.log_lines()[-LAST_LINES:])


async def start_group(
    hosts: Sequence[SshHost], commands: Sequence[Sequence[str]], env: Mapping[str, str], log_path: Path
) -> GroupProcess | SshProcess:
    """One command a machine, the first machine's log at `log_path`, the others' beside it.

    Raises ArmFailed when one cannot be started; then none is left running.
    """
    paths = [log_path, *(log_path.with_suffix(f".node{rank}.log") for rank in range(1, len(hosts)))]
    started = await asyncio.gather(
        *(host.start(argv, env, path) for host, argv, path in zip(hosts, commands, paths, strict=True)),
        return_exceptions=True,
    )
    members = [one for one in started if isinstance(one, SshProcess)]
    failed = next((one for one in started if isinstance(one, BaseException)), None)
    if failed is not None:
        await asyncio.gather(*(member.stop(0.0) for member in members))
        raise failed
    return members[0] if len(members) == 1 else GroupProcess(members)
