"""Runs on another machine, at the far end of ssh: hands a server to the guard, and listens to home.

Sent as text (`python3 -I -S -c SOURCE`), with the standard library alone. From stdin come 8 digits, as many
bytes of JSON (argv, env, cwd, grace_s, the guard's own source), then single bytes: any is a sign of life, `.`
ends the server, `!` ends it at once. Silence for `silence_s`, or the end of stdin, ends it too: home is gone.
"""

from __future__ import annotations

import json
import os
import select
import signal
import threading
from typing import Any


def read_exactly(line: int, size: int) -> bytes:
    """That many bytes, or fewer when the line ends."""
    read = b""
    while len(read) < size and (more := os.read(line, size - len(read))):
        read += more
    return read


def listen(line: int, lifeline: int, silence_s: float, guard: dict[str, Any]) -> None:
    """Close the guard's lifeline when it is told to, or when nothing is heard any more."""
    held = True
    while True:
        heard = os.read(line, 64) if select.select([line], [], [], silence_s)[0] else b""
        if held and (not heard or b"." in heard or b"!" in heard):
            os.close(lifeline)
            held = False
        if b"!" in heard:
            guard["send"](guard["children_of"](os.getpid()), signal.SIGKILL)
        if not heard:
            return


def main() -> None:
    """See the module's docstring."""
    told = json.loads(read_exactly(0, int(read_exactly(0, 8))))
    line = os.dup(0)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(1, 2)
    os.environ.update(told["env"])
    if told["cwd"]:
        os.chdir(told["cwd"])
    guard: dict[str, Any] = {"__name__": "guard"}
    exec(compile(told["guard"], "guard", "exec"), guard)
    heard, lifeline = os.pipe()
    given = (line, lifeline, told["silence_s"], guard)
    threading.Thread(target=listen, args=given, daemon=True).start()
    guard["main"]([str(heard), str(os.getppid()), str(told["grace_s"]), "--", *told["argv"]])


if __name__ == "__main__":
    main()
