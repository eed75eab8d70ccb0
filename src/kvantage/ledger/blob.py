"""A request's chunk times and token ids as little-endian blobs: eight bytes a time, four a count."""

from __future__ import annotations

import sys
from array import array

import numpy as np
from numpy.typing import NDArray

from kvantage.core import ChunkTimes


def pack_chunks(chunks: ChunkTimes) -> bytes:
    """All times (int64), then all token counts (int32)."""
    return _little(chunks.times_ns) + _little(chunks.tokens)


def unpack_chunks(blob: bytes, count: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The inverse of `pack_chunks`, as arrays; raises ValueError when the blob has another length."""
    if len(blob) != 12 * count:
        raise ValueError(f"{count} chunks take {12 * count} bytes, not {len(blob)}")
    times = np.frombuffer(blob, dtype="<i8", count=count)
    tokens = np.frombuffer(blob, dtype="<i4", count=count, offset=8 * count)
    return times, tokens


def pack_ids(ids: tuple[int, ...]) -> bytes:
    """Token ids as int32."""
    return _little(array("i", ids))


def unpack_ids(blob: bytes) -> tuple[int, ...]:
    """The inverse of `pack_ids`."""
    return tuple(int(i) for i in np.frombuffer(blob, dtype="<i4"))


def _little(values: array[int]) -> bytes:
    if sys.byteorder == "big":
        values = array(values.typecode, values)
        values.byteswap()
    return values.tobytes()
