"""A picture drawn by kvantage itself: one plain shape on white, as a PNG, with nothing but zlib."""

from __future__ import annotations

import base64
import struct
import zlib

COLOURS: dict[str, tuple[int, int, int]] = {
    "red": (220, 30, 30),
    "green": (20, 150, 50),
    "blue": (30, 70, 220),
    "yellow": (240, 210, 30),
    "black": (0, 0, 0),
}
SHAPES = ("circle", "square", "triangle")


def draw(shape: str, colour: str, size: int = 128) -> bytes:
    """The PNG file of a filled shape in the middle of a white square of `size` pixels a side.

    Raises ValueError for a shape or a colour that isn't known.
    """
    if shape not in SHAPES or colour not in COLOURS:
        raise ValueError(f"can't draw a {colour} {shape}")
    ink, paper = bytes(COLOURS[colour]), b"\xff\xff\xff"
    rows = []
    for y in range(size):
        rows.append(b"\x00")  # filter: none
        rows.append(b"".join(ink if _inside(shape, x, y, size) else paper for x in range(size)))
    header = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)
    body = _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(b"".join(rows), 9))
    return b"\x89PNG\r\n\x1a\n" + body + _chunk(b"IEND", b"")


def data_uri(png: bytes) -> str:
    """The picture as a `data:` URI, for an `image_url` part."""
    return "data:image/png;base64," + base64.b64encode(png).decode("ascii")


def _inside(shape: str, x: int, y: int, size: int) -> bool:
    across, down = (x + 0.5) / size - 0.5, (y + 0.5) / size - 0.5
    if shape == "circle":
        return across * across + down * down <= 0.36 * 0.36
    if shape == "square":
        return abs(across) <= 0.32 and abs(down) <= 0.32
    return -0.36 <= down <= 0.32 and abs(across) <= (down + 0.36) / 0.68 * 0.38


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
