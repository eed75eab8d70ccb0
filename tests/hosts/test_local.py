"""Real processes: started, watched, stopped, and never left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from kvantage.core import ArmFailed
from kvantage.hosts import LocalHost
from kvantage.hosts.process import LocalProcess, strays

BROOD = """
import os, signal, subprocess, sys, time
subprocess.Popen(["sleep", "300"])                                   # a child
subprocess.Popen(["sleep", "300"], start_new_session=True)           # one in a session of its own
if os.fork() == 0:                                                   # one that lost its parent
    if os.fork() == 0:
        os.setsid()
        if "stubborn" in sys.argv:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(300)
    os._exit(0)
if "deaf" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("started", flush=True)
if "short" in sys.argv:
    sys.exit(5)
time.sleep(300)
"""


async def until(true: object, within_s: float = 10.0) -> None:
    """Wait for a condition."""
    assert callable(true)
    end = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < end, "it did not come about"
        await asyncio.sleep(0.02)


async def brood(tmp_path: Path, *manners: str) -> LocalProcess:
    """A server with three kinds of descendants."""
    process = await LocalHost().start([sys.executable, "-c", BROOD, *manners], {}, tmp_path / "log")
    await until(lambda: "started" in process.log_lines())
    return process


async def test_a_clean_stop(tmp_path: Path) -> None:
    process = await brood(tmp_path)
    assert process.exit_code() is None
    assert len(process.descendants()) == 4
    began = time.monotonic()
    status = await process.stop()
    assert status == process.exit_code() == -signal.SIGTERM
    assert time.monotonic() - began < 4
    assert process.descendants() == []
    assert await process.stop() == status  # again is no harm


async def test_a_process_that_hides_its_environment_is_found(tmp_path: Path) -> None:
    script = "import os, sys; os.execve('/bin/sleep', ['renamed', '300'], {})"
    process = await LocalHost().start([sys.executable, "-c", script], {}, tmp_path / "log")
    await until(lambda: [psutil.Process(pid).name() for pid in process.descendants()] == ["sleep"])
    await process.stop()
    assert process.descendants() == []


async def test_a_server_that_does_not_listen_is_killed(tmp_path: Path) -> None:
    process = await brood(tmp_path, "deaf", "stubborn")
    began = time.monotonic()
    status = await process.stop(grace_s=0.3)
    assert status == -signal.SIGKILL
    assert time.monotonic() - began < 8
    assert process.descendants() == []


async def test_a_second_stop_makes_it_quick(tmp_path: Path) -> None:
    process = await brood(tmp_path, "deaf")
    gentle = asyncio.create_task(process.stop(grace_s=60))
    await asyncio.sleep(0.1)
    assert not gentle.done()
    await process.stop(0.0)
    assert await gentle == process.exit_code()
    assert process.descendants() == []


async def test_what_a_dead_server_leaves_is_ended(tmp_path: Path) -> None:
    process = await brood(tmp_path, "short", "stubborn")
    await until(lambda: process.exit_code() is not None)
    assert process.exit_code() == 5
    assert process.descendants() == []


@pytest.mark.parametrize("manner", [signal.SIGKILL, signal.SIGTERM])
async def test_nothing_outlives_kvantage(tmp_path: Path, manner: signal.Signals) -> None:
    parent = tmp_path / "parent.py"
    parent.write_text(
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from kvantage.hosts import LocalHost\n"
        "async def main():\n"
        f"    process = await LocalHost().start([sys.executable, '-c', {BROOD!r}], {{}},"
        f" Path({str(tmp_path)!r}) / 'log')\n"
        "    while 'started' not in process.log_lines():\n"
        "        await asyncio.sleep(0.02)\n"
        "    print(process._mark, process.pid, flush=True)\n"
        "    await asyncio.sleep(300)\n"
        "asyncio.run(main())\n"
    )
    command = [sys.executable, str(parent)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as kvantage:  # noqa: ASYNC220
        try:
            assert kvantage.stdout is not None
            mark, guard = kvantage.stdout.readline().split()
            await until(lambda: len(strays(mark, int(guard))) == 5)  # four of the brood and the guard
        finally:
            kvantage.send_signal(manner)
    await until(lambda: strays(mark, int(guard)) == [])


async def test_a_killed_guard_takes_the_server_along(tmp_path: Path) -> None:
    process = await LocalHost().start(["sleep", "300"], {}, tmp_path / "log")
    await until(lambda: bool(process.descendants()))
    os.kill(process.pid, signal.SIGKILL)
    await until(lambda: process.descendants() == [])
    assert await process.stop() == -signal.SIGKILL


@pytest.mark.parametrize(
    ("script", "status"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", -9), ("kill -11 $$", -11)]
)
async def test_a_server_ends_as_it_ends(tmp_path: Path, script: str, status: int) -> None:
    process = await LocalHost().start(["sh", "-c", script], {}, tmp_path / "log")
    await until(lambda: process.exit_code() is not None)
    assert process.exit_code() == status == await process.stop()
    assert not list(tmp_path.glob("core*"))


async def test_log_environment_and_folder(tmp_path: Path) -> None:
    log = tmp_path / "deep" / "log"
    for word in ("one", "two"):
        process = await LocalHost().start(
            ["sh", "-c", 'echo "$WORD $PWD"; echo to stderr >&2'], {"WORD": word}, log, cwd=tmp_path
        )
        await until(lambda p=process: p.exit_code() is not None)
        await process.stop()
    assert process.log_lines() == [f"one {tmp_path}", "to stderr", f"two {tmp_path}", "to stderr", ""]
    log.unlink()
    assert process.log_lines() == []


async def test_what_cannot_be_started(tmp_path: Path) -> None:
    host = LocalHost()
    with pytest.raises(ArmFailed, match="cannot start /nowhere/python: no such program"):
        await host.start(["/nowhere/python"], {}, tmp_path / "log")
    with pytest.raises(ArmFailed, match=r"cannot start sh in .*: no such folder"):
        await host.start(["sh"], {}, tmp_path / "log", cwd=tmp_path / "gone")
    (tmp_path / "file").touch()
    with pytest.raises(ArmFailed, match="cannot start sh"):
        await host.start(["sh"], {}, tmp_path / "file" / "log")


async def test_no_handle_is_left_open(tmp_path: Path) -> None:
    host = LocalHost()
    before = psutil.Process().num_fds()
    for _ in range(3):
        process = await host.start(["true"], {}, tmp_path / "log")
        await until(lambda p=process: p.exit_code() is not None)
        await process.stop()
    assert psutil.Process().num_fds() <= before + 1


def test_ports() -> None:
    host = LocalHost()
    port = host.free_port()
    assert host.port_problem(port) is None
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        number = taken.getsockname()[1]
        assert f"port {number} is in use" in str(host.port_problem(number))
        assert host.free_port() != number
    assert "is not a port" in str(host.port_problem(70000))
