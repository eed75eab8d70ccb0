"""Paths in a study file: relative to the file itself, or `package:` for what ships with kvantage."""

from __future__ import annotations

import os
from importlib import resources
from pathlib import Path

PACKAGE = "package:"


def looks_like_path(text: str) -> bool:
    """True for `./x`, `../x`, `/x`, `~/x` and `package:x`: everything else is a name, passed on as it is."""
    return text in (".", "..", "~") or text.startswith(("./", "../", "/", "~/", PACKAGE))


def absolute(text: str, folder: Path | None) -> str:
    """`text` as an absolute path, relative ones taken from `folder`; `package:` paths stay as they are.

    Links are not followed: an environment's `bin/python` is one, and what it points to is another.
    """
    if text.startswith(PACKAGE) or folder is None:
        return text
    return os.path.abspath(folder / Path(text).expanduser())  # noqa: PTH100 (Path.resolve follows links)


def locate(text: str) -> str:
    """Where a path of a loaded study lies on this machine: `package:nano/qwen3` becomes a folder."""
    if not text.startswith(PACKAGE):
        return text
    return str(Path(str(resources.files("kvantage"))) / text.removeprefix(PACKAGE))
