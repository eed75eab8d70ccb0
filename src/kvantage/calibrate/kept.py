"""Where this machine's calibration is kept."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
from pathlib import Path
from typing import Any

from kvantage.calibrate.calibration import Calibration
from kvantage.version import __version__


def machine() -> dict[str, Any]:
    """What a calibration holds for: the processor, how many of it, the kernel and the interpreter."""
    cpu = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                cpu = line.partition(":")[2].strip()
                break
    return {
        "cpu": cpu,
        "cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def folder() -> Path:
    """Where calibrations are kept: `$XDG_CACHE_HOME/kvantage`, or `~/.cache/kvantage`."""
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "kvantage"


def place() -> Path:
    """This machine's own file."""
    words = json.dumps([__version__, platform.node(), machine()], sort_keys=True)
    return folder() / f"calibration-{hashlib.sha256(words.encode()).hexdigest()[:12]}.json"


def store(calibration: Calibration) -> Path:
    """Keep it for this machine. A quick one never replaces a full one. Raises OSError."""
    path = place()
    known = load_stored()
    if calibration.quick and known is not None and not known.quick:
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(f".{os.getpid()}.tmp")
    draft.write_text(json.dumps(calibration.to_json(), indent=1) + "\n")
    draft.replace(path)
    return path


def load_stored() -> Calibration | None:
    """This machine's calibration by this version of kvantage, or None."""
    try:
        return Calibration.from_json(json.loads(place().read_text()))
    except (OSError, ValueError):
        return None
