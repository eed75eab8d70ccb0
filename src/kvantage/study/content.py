"""What a model folder holds, as a short hash: a drafter trained anew at the same path is another arm."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path

WHOLE_BELOW = 64 * 2**20
"""Files up to this many bytes are hashed whole; larger ones by name, size and time of change."""

_KINDS = (".json", ".safetensors", ".gguf", ".bin", ".jinja", ".model")


def folder_digest(path: str) -> str | None:
    """A hash of a local model's configuration, tokenizer and weights; None for a name of a hub."""
    folder = Path(path)
    if folder.is_file():
        return _digest((_stamp(folder),))
    if not folder.is_dir():
        return None
    files = sorted(file for file in folder.iterdir() if file.suffix in _KINDS and file.is_file())
    return _digest(tuple(_stamp(file) for file in files)) if files else None


def _stamp(file: Path) -> tuple[str, int, int]:
    found = file.stat()
    return str(file), found.st_size, found.st_mtime_ns


@lru_cache(maxsize=256)
def _digest(stamps: tuple[tuple[str, int, int], ...]) -> str:
    whole = hashlib.sha256()
    for path, size, changed_ns in stamps:
        file = Path(path)
        whole.update(f"{file.name}:{size}:".encode())
        whole.update(file.read_bytes() if size <= WHOLE_BELOW else str(changed_ns).encode())
    return whole.hexdigest()[:16]
