"""The kernel's own stamps of what arrives at a socket: exact, however late the process reads it."""

from __future__ import annotations

import socket
import struct
import sys
from collections.abc import Sequence

NOTES_BYTES = 64
_SO_TIMESTAMPNS = 35
_read_timespec = struct.Struct("qq").unpack_from


def ask_for_stamps(of: socket.socket) -> bool:
    """Have reads by `recvmsg` carry stamps; False where the system has none (it is Linux's)."""
    if sys.platform != "linux":
        return False
    of.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
    return True


def stamping() -> socket.socket:
    """A socket that only keeps the kernel stamping: it begins a moment after the first one asks."""
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    ask_for_stamps(made)
    return made


def arrival_ns(notes: Sequence[tuple[int, int, bytes]], wall_ns: int, now_ns: int) -> int | None:
    """When the last segment of a read arrived, by time.monotonic_ns, or None where it was not told.

    The kernel stamps by the wall clock; `wall_ns` (time.time_ns) and `now_ns` (time.monotonic_ns) are both
    clocks just after the read, in that order.
    """
    if not notes:
        return None
    seconds, nanoseconds = _read_timespec(notes[0][2])
    return int(seconds * 1_000_000_000 + nanoseconds - wall_ns + now_ns)
