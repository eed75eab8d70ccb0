"""Another machine as a host, reached by ssh: its key verified, ours from the agent or a file."""

from __future__ import annotations

import asyncio
import json
import shlex
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvantage.core import ArmFailed, HostFacts, UsageError
from kvantage.hosts import guard, remote
from kvantage.hosts.logfile import lines_from, whole_bytes
from kvantage.hosts.machine import processor
from kvantage.hosts.process import MARK
from kvantage.hosts.side import SideLoop
from kvantage.study import Node

if TYPE_CHECKING:
    import asyncssh

GRACE_S = 20.0
SILENCE_S = 120.0
"""A server ends when it has not heard from home for so long: its machine was cut off."""
BEAT_S = 10.0
LAST_WORDS_S = 10.0
CONNECT_S = 30.0

_PORT = "import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); print(s.getsockname()[1])"
_FACTS = (
    "cat /proc/cpuinfo; echo =kvantage=; nproc; sed -n 's/^MemTotal: *//p' /proc/meminfo; uname -rm;"
    " nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv,noheader 2>/dev/null; true"
)


class SshHost:
    """Starts servers on one machine. Nothing is installed there; a Python 3 must be.

    All of ssh's work is done on the side loop, so that it delays no stream that is being timed.
    """

    def __init__(self, node: Node, side: SideLoop) -> None:
        self.node = node
        self._side = side
        self._connection: asyncssh.SSHClientConnection | None = None
        self._connecting = asyncio.Lock()

    async def facts(self) -> HostFacts:
        """Processor, memory, kernel and devices of the machine. Raises ArmFailed when it is out of reach."""
        told = await self._side.run(self._output(_FACTS))
        cpuinfo, _, rest = told.partition("=kvantage=\n")
        cores, memory, kernel, *devices = [*rest.splitlines(), "", "", ""]
        cpu, flags = processor(cpuinfo)
        kib = memory.split(maxsplit=1)[0] if memory else ""
        details: dict[str, Any] = {"kernel": kernel, "reached_by": "ssh"}
        if any(devices):
            details["devices"] = [device for device in devices if device]
        return HostFacts(
            name=self.node.name.strip("[]"),
            cpu=cpu,
            cores=int(cores) if cores.isdigit() else 0,
            memory_bytes=int(kib) * 1024 if kib.isdigit() else 0,
            cpu_flags=flags,
            details=details,
        )

    async def free_port(self) -> int:
        """A loopback port of that machine that nothing listens on."""
        told = await self._side.run(
            self._output(f"{shlex.quote(self.node.python)} -I -S -c {shlex.quote(_PORT)}")
        )
        if not told.strip().isdigit():
            raise ArmFailed(
                f"{self.node.name} has no working `{self.node.python}`",
                hint="hosts: [{name: ..., python: /path/to/python3}]: it watches over the server there",
            )
        return int(told)

    async def forward(self, port: int) -> int:
        """A port of this machine from which that machine's loopback `port` is reached."""

        async def listen() -> int:
            connection = await self._connected()
            listener = await connection.forward_local_port("127.0.0.1", 0, "127.0.0.1", port)
            return int(listener.get_port())

        return await self._side.run(listen())

    async def start(
        self, argv: Sequence[str], env: Mapping[str, str], log_path: Path, cwd: str | None = None
    ) -> SshProcess:
        """Start `argv` there, its output appended to `log_path` here. Raises ArmFailed when it cannot be.

        The environment goes through the connection, and into no command line that others could list.
        """
        log_path.parent.mkdir(parents=True, exist_ok=True)
        source = Path(remote.__file__).read_text(encoding="utf-8")
        command = f"exec {shlex.quote(self.node.python)} -I -S -c {shlex.quote(source)}"
        told = {
            "argv": list(argv),
            "env": {**env, MARK: uuid.uuid4().hex},
            "cwd": cwd,
            "grace_s": GRACE_S,
            "silence_s": SILENCE_S,
            "guard": Path(guard.__file__).read_text(encoding="utf-8"),
        }
        body = json.dumps(told).encode()

        async def begin() -> SshProcess:
            connection = await self._connected()
            process = await connection.create_process(command, encoding=None, stderr=_stdout())
            process.stdin.write(b"%08d" % len(body) + body)
            started = SshProcess(self.node.name, process, log_path, self._side)
            started.begin()
            return started

        return await self._side.run(begin())

    async def follow(self, command: str, take: Callable[[str], None]) -> Callable[[], Awaitable[None]]:
        """Run `command` there and hand on each line that it prints, on the side loop; returns what ends it.

        Raises ArmFailed when the machine is out of reach.
        """

        async def begin() -> tuple[asyncssh.SSHClientProcess[str], asyncio.Task[None]]:
            connection = await self._connected()
            process = await connection.create_process(command, encoding="utf-8", errors="replace")

            async def read() -> None:
                async for line in process.stdout:
                    take(line)

            return process, asyncio.create_task(read())

        try:
            process, reading = await self._side.run(begin())
        except _asyncssh().Error as error:
            raise ArmFailed(f"{self.node.name}: {error}") from error

        async def end() -> None:
            process.close()
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

        return lambda: self._side.run(end())

    async def close(self) -> None:
        """Let the connection go."""

        async def end() -> None:
            if self._connection is not None:
                self._connection.close()
                await self._connection.wait_closed()
                self._connection = None

        await self._side.run(end())

    async def _output(self, command: str) -> str:
        connection = await self._connected()
        told = await connection.run(command, check=False, timeout=CONNECT_S)
        return str(told.stdout or "")

    async def _connected(self) -> asyncssh.SSHClientConnection:
        """The one connection, made when it is first needed or was lost."""
        async with self._connecting:
            if self._connection is None or self._connection.is_closed():
                self._connection = await self._connect()
            return self._connection

    async def _connect(self) -> asyncssh.SSHClientConnection:
        library = _asyncssh()
        node = self.node
        options: dict[str, Any] = {"port": node.port, "preferred_auth": "publickey"}
        if node.user is not None:
            options["username"] = node.user
        if node.key is not None:
            options["client_keys"] = [node.key]
        if node.known_hosts is not None:
            options["known_hosts"] = node.known_hosts
        name = node.name
        try:
            made: asyncssh.SSHClientConnection = await library.connect(
                name.strip("[]"), keepalive_interval=BEAT_S, connect_timeout=CONNECT_S, **options
            )
            return made
        except library.HostKeyNotVerifiable as error:
            raise ArmFailed(
                f"{name}: its host key is not the one that is known ({error})",
                hint=f"log in once by hand (`ssh -p {node.port} {name}`), and compare its fingerprint",
            ) from error
        except library.PermissionDenied as error:
            raise ArmFailed(
                f"{name} takes none of our keys",
                hint="add one to your agent (`ssh-add`), or name its file: hosts: [{name: ..., key: FILE}]",
            ) from error
        except (OSError, library.Error, ValueError) as error:
            raise ArmFailed(f"{name} cannot be reached by ssh: {error}") from error


class SshProcess:
    """A `ServerProcess` on another machine, behind a guard there that ends it when home is gone."""

    def __init__(
        self, host: str, process: asyncssh.SSHClientProcess[bytes], log_path: Path, side: SideLoop
    ) -> None:
        self.host = host
        self._process = process
        self._log_path = log_path
        self._side = side
        self._status: int | None = None
        self._tasks: list[asyncio.Task[None]] = []

    def begin(self) -> None:
        """Follow it; called on the side loop."""
        self._tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._beat())]

    @property
    def pid(self) -> int:
        """0: that of another machine says nothing here."""
        return 0

    @property
    def log_path(self) -> Path:
        return self._log_path

    def exit_code(self) -> int | None:
        """The exit status, negative for a signal, -1 for a lost connection; None while it runs."""
        return self._status

    def log_lines(self, start: int = 0) -> list[str]:
        """What it has printed so far, from byte `start` on."""
        return lines_from(self._log_path, start)

    def log_size(self) -> int:
        """Bytes of its log up to the end of the last whole line."""
        return whole_bytes(self._log_path)

    async def stop(self, grace_s: float = 20.0) -> int:
        """TERM to all of it, KILL after `grace_s`; returns the exit status. Safe to call again."""
        return await self._side.run(self._stop(grace_s))

    async def _stop(self, grace_s: float) -> int:
        reading = self._tasks[0]
        for byte, wait_s in ((b"." if grace_s else b"!", grace_s), (b"!", LAST_WORDS_S)):
            if reading.done():
                break
            with suppress(OSError):
                self._process.stdin.write(byte)
            await asyncio.wait([reading], timeout=max(wait_s, 0.1))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._process.close()
        return self._status if self._status is not None else -1

    async def _read(self) -> None:
        asyncssh = _asyncssh()
        lost = False
        with self._log_path.open("ab", buffering=0) as log:
            try:
                while read := await self._process.stdout.read(1 << 16):
                    log.write(read)
                await self._process.wait_closed()
            except (OSError, asyncssh.Error):
                lost = True
            status = self._process.exit_status
            if lost or status is None:
                log.write(f"kvantage: the connection to {self.host} was lost\n".encode())
                status = -1
            signal = self._process.exit_signal
            self._status = -_signal_number(signal[0]) if signal else status

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(BEAT_S)
            with suppress(OSError):
                self._process.stdin.write(b"\n")


def _signal_number(name: str) -> int:
    import signal

    return int(getattr(signal, f"SIG{name}", signal.SIGKILL))


def _asyncssh() -> Any:
    """The library. Raises UsageError where it is not installed."""
    try:
        import asyncssh
    except ImportError:
        raise UsageError("`hosts` needs asyncssh", hint="pip install 'kvantage[ssh]'") from None
    return asyncssh


def _stdout() -> int:
    """Standard error into standard output."""
    return int(_asyncssh().STDOUT)
