"""This machine as a host."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from kvantage.core import ArmFailed, HostFacts
from kvantage.hosts import guard
from kvantage.hosts.machine import machine_facts
from kvantage.hosts.process import MARK, LocalProcess

GRACE_S = 20.0
"""How long a server may take to end after TERM, when its guard ends it alone."""


class LocalHost:
    """Starts servers on this machine, each behind a guard that ends it should kvantage die."""

    def __init__(self) -> None:
        self._facts: HostFacts | None = None

    def facts(self) -> HostFacts:
        """The hardware and system software of this machine, read once."""
        if self._facts is None:
            self._facts = machine_facts()
        return self._facts

    async def start(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        log_path: Path,
        cwd: Path | None = None,
        *,
        keep_background: bool = False,
    ) -> LocalProcess:
        """Start `argv` with `env` added to the environment, its output appended to `log_path`.

        With `keep_background`, what it leaves running when it ends well is kept until `stop`.

        Raises ArmFailed when it cannot be started at all.
        """
        if shutil.which(argv[0]) is None:
            raise ArmFailed(f"cannot start {argv[0]}: no such program", hint="look at the engine's options")
        if cwd is not None and not cwd.is_dir():
            raise ArmFailed(f"cannot start {argv[0]} in {cwd}: no such folder")
        mark = uuid.uuid4().hex
        heard, lifeline = os.pipe()
        command = [sys.executable, "-I", "-S", guard.__file__, str(heard), str(os.getpid()), str(GRACE_S)]
        command += ["keep"] if keep_background else []
        try:
            log_path.parent.mkdir(parents=True, exist_ok=True)
            with log_path.open("ab") as log:
                started = subprocess.Popen(  # noqa: ASYNC220
                    [*command, "--", *argv],
                    env={**os.environ, **env, MARK: mark},
                    cwd=cwd,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    pass_fds=[heard],
                    # A group of its own, so that Ctrl-C reaches us alone, but not a session of its own: where
                    # the kernel schedules by session (autogroup), a busy server in another session was seen
                    # to keep us from a processor for seconds (docs/decisions/0004-one-session.md).
                    process_group=0,
                )
        except OSError as error:
            os.close(lifeline)
            what = error.filename or argv[0]
            raise ArmFailed(f"cannot start {argv[0]}: {what}: {error.strerror}") from error
        finally:
            os.close(heard)
        return LocalProcess(started, lifeline, log_path, mark)

    def free_port(self) -> int:
        """A loopback port that nothing listens on."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port: int = probe.getsockname()[1]
            return port

    def port_problem(self, port: int) -> str | None:
        """Why a server cannot listen on that loopback port, or None when it can."""
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except PermissionError:
                return f"port {port} needs root's rights: choose one above 1023, or leave it out"
            except OverflowError:
                return f"port {port} is not a port: 1024 to 65535, or leave it out"
            except OSError as error:
                return f"port {port} is in use ({error.strerror}): stop what listens there, or leave it out"
        return None
