"""A tiny process between kvantage and a server, so that no server outlives kvantage.

Run by path (`python -I -S guard.py FD PARENT_PID GRACE_S [keep] -- argv...`), with the standard library
alone. It starts `argv`, adopts every process that comes of it (Linux child subreaper, so also those that
change their session or lose their parent), and ends them all when

- it is told to by SIGTERM, SIGINT or SIGHUP,
- the other end of the pipe FD closes, or its parent is no longer PARENT_PID: kvantage died, however it died,
- the server itself ends, leaving children (with `keep`, only when it failed: a script that went well may
  leave its server in the background, and the guard stays until that ends).

It then ends as the server ended: with its status, or by its signal.
"""

from __future__ import annotations

import ctypes
import os
import resource
import select
import signal
import sys
import time
from pathlib import Path
from types import FrameType

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
CANNOT_START = 127
LAST_WORDS_S = 2.0


def children_of(pid: int) -> list[int]:
    """All living descendants of `pid`, nearest first. Zombies are left out."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if fields[0] not in "ZX":
                parents.setdefault(int(fields[1]), []).append(int(entry.name))
    found: list[int] = []
    queue = [pid]
    while queue:
        below = parents.get(queue.pop(0), [])
        found += below
        queue += below
    return found


def send(pids: list[int], sign: int) -> None:
    """Signal each process that is still there."""
    for pid in pids:
        try:
            os.kill(pid, sign)
        except (ProcessLookupError, PermissionError):
            continue


def reap(server: int) -> int | None:
    """Collect ended children; the wait status of `server` if it was among them."""
    status = None
    while True:
        try:
            pid, ended = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return status
        if pid == 0:
            return status
        if pid == server:
            status = ended


def die_with_guard(guard: int) -> None:
    """In the child: be killed should the guard be killed."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != guard:
        os._exit(CANNOT_START)


def start(argv: list[str]) -> int:
    """Fork and execute `argv` in the guard's process group; returns its pid."""
    guard = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    try:
        for sign in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(sign, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        die_with_guard(guard)
        os.execvp(argv[0], argv)
    except OSError as error:
        os.write(2, f"cannot start {argv[0]}: {error.strerror}\n".encode())
    os._exit(CANNOT_START)


def end(server: int, status: int | None, grace_s: float) -> int:
    """TERM to the group, then to what is left, then KILL; returns the server's wait status."""
    me = os.getpid()
    if status is None:
        os.killpg(0, signal.SIGTERM)  # this process is of the group, and takes note
    stages = ((grace_s, signal.SIGTERM), (LAST_WORDS_S, signal.SIGKILL), (LAST_WORDS_S, signal.SIGKILL))
    for wait_s, then in stages:
        until = time.monotonic() + wait_s
        while True:
            ended = reap(server)
            status = ended if ended is not None else status
            left = children_of(me)
            if not left and status is not None:
                return status
            if status is not None and then == signal.SIGTERM:
                break  # the server itself is gone: what it left behind is told at once
            if time.monotonic() >= until:
                break
            time.sleep(0.02)
        send(children_of(me), then)
    ended = reap(server)
    return ended if ended is not None else (status if status is not None else signal.SIGKILL)


def finish(status: int) -> None:
    """End this process as `status` says."""
    if os.WIFSIGNALED(status):
        sign = os.WTERMSIG(status)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if sign != signal.SIGKILL:
            signal.signal(sign, signal.SIG_DFL)
        os.kill(os.getpid(), sign)
    os._exit(os.waitstatus_to_exitcode(status))


def main(arguments: list[str]) -> None:
    """See the module's docstring."""
    pipe, parent, grace_s = int(arguments[0]), int(arguments[1]), float(arguments[2])
    argv = arguments[arguments.index("--") + 1 :]
    keep = arguments[3] == "keep"
    os.set_inheritable(pipe, False)
    if os.getpriority(os.PRIO_PROCESS, 0) < 0:  # kvantage may run ahead of others; a server must not
        os.setpriority(os.PRIO_PROCESS, 0, 0)
    if os.getpgrp() != os.getpid():
        os.setpgid(0, 0)
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    told = False

    def tell(_sign: int, _frame: FrameType | None) -> None:
        nonlocal told
        told = True

    for sign in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(sign, tell)
    signal.signal(signal.SIGCHLD, lambda _sign, _frame: None)
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)

    server = start(argv)
    status: int | None = None
    while not told and os.getppid() == parent:
        readable, _, _ = select.select([pipe, wake_read], [], [], 1.0)
        if wake_read in readable:
            os.read(wake_read, 4096)
        if pipe in readable and not os.read(pipe, 1):
            break
        ended = reap(server)
        status = ended if ended is not None else status
        if status is not None and not (keep and status == 0 and children_of(os.getpid())):
            break
    finish(end(server, status, grace_s))


if __name__ == "__main__":
    main(sys.argv[1:])
