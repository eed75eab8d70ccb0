"""The head of a GGUF file: the few numbers that tell how many bytes a token's cache takes.

Layout as the format's specification (ggml's docs/gguf.md) gives it: magic, version, counts, then typed
key-value pairs, all little-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, BinaryIO

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_MOST_PAIRS = 100_000
_LONGEST = 1 << 24

ELEMENT_BYTES: Mapping[str, Fraction] = {
    "f32": Fraction(4),
    "f16": Fraction(2),
    "bf16": Fraction(2),
    "q8_0": Fraction(34, 32),
    "q5_1": Fraction(24, 32),
    "q5_0": Fraction(22, 32),
    "q4_1": Fraction(20, 32),
    "q4_0": Fraction(18, 32),
    "iq4_nl": Fraction(18, 32),
}
"""Bytes of one element of each KV type: a block of 32 with its scales."""


@dataclass(frozen=True, slots=True)
class Cells:
    """What a token occupies in every layer's cache: elements of K and V together."""

    elements: int

    def bytes(self, kv_type: str) -> Fraction:
        """Bytes of one cell over all layers."""
        return self.elements * ELEMENT_BYTES[kv_type]


def cells_of(path: Path) -> Cells | None:
    """The cell of a model; None where the file cannot be read, or its layers are not all alike.

    Sliding windows and recurrent layers are not all alike: their caches do not grow with the context.
    """
    try:
        with path.open("rb") as file:
            head = read_head(file)
    except (OSError, ValueError, struct.error):
        return None
    name = head.get("general.architecture")

    def number(key: str) -> int | None:
        value = head.get(f"{name}.{key}")
        return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None

    if any(
        str(key).partition(".")[2].startswith(("attention.sliding_window", "ssm.", "wkv")) for key in head
    ):
        return None
    layers, heads, width = number("block_count"), number("attention.head_count"), number("embedding_length")
    kv_heads = number("attention.head_count_kv") or heads
    if layers is None or heads is None or width is None or kv_heads is None:
        return None
    key = number("attention.key_length") or width // heads
    value = number("attention.value_length") or width // heads
    return Cells(layers * kv_heads * (key + value))


def read_head(file: BinaryIO) -> dict[str, Any]:
    """The key-value pairs; arrays are passed over. Raises ValueError for what is no GGUF file."""
    magic, version, _, pairs = struct.unpack("<4sIQQ", file.read(24))
    if magic != b"GGUF" or version < 2 or pairs > _MOST_PAIRS:
        raise ValueError("not a GGUF file that is known")
    found: dict[str, Any] = {}
    for _ in range(pairs):
        key = _text(file)
        (kind,) = struct.unpack("<I", file.read(4))
        value = _value(file, kind)
        if value is not None:
            found[key] = value
    return found


def _text(file: BinaryIO) -> str:
    (length,) = struct.unpack("<Q", file.read(8))
    if length > _LONGEST:
        raise ValueError("a text that is too long")
    return file.read(length).decode("utf-8", "replace")


def _value(file: BinaryIO, kind: int) -> Any:
    if kind == _STRING:
        return _text(file)
    if kind in _SCALARS:
        form = f"<{_SCALARS[kind]}"
        return struct.unpack(form, file.read(struct.calcsize(form)))[0]
    if kind != _ARRAY:
        raise ValueError(f"a value of unknown kind {kind}")
    inner, length = struct.unpack("<IQ", file.read(12))
    if length > _LONGEST:
        raise ValueError("an array that is too long")
    if inner in _SCALARS:
        file.seek(length * struct.calcsize(f"<{_SCALARS[inner]}"), 1)
    else:
        for _ in range(length):
            _value(file, inner)
    return None
