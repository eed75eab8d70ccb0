"""What a version of SGLang can do. A version that is not known is taken to be a recent one."""

from __future__ import annotations

import importlib.metadata
import re

from kvantage.core import ArmSettings

Release = tuple[int, int, int]

DRAFT_KV_DTYPE: Release = (0, 5, 23)
"""`--speculative-draft-kv-cache-dtype`: 0.5.17 has it not, 0.5.23 has."""

_RELEASE = re.compile(r"v?(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?")


def release_of(version: str | None) -> Release | None:
    """(0, 5, 23) of '0.5.23', 'v0.5.23rc0'; None where the text starts with no release."""
    found = _RELEASE.match(version or "")
    return (int(found[1]), int(found[2]), int(found[3] or 0)) if found else None


def version_of(arm: ArmSettings) -> str | None:
    """The version that the arm says (`engine_options: {version: 0.5.23}`), or the one that is installed here.

    None where neither tells: the server may run anywhere.
    """
    told = arm.engine_options.get("version")
    if told is not None:
        return str(told)
    if "python" in arm.engine_options or "launcher" in arm.engine_options:
        return None
    try:
        return importlib.metadata.version("sglang")
    except importlib.metadata.PackageNotFoundError:
        return None


def older_than(version: str | None, release: Release) -> bool:
    """True when the version is known, and older."""
    known = release_of(version)
    return known is not None and known < release
