"""What is recorded of each boot, so that its figures can be told apart from another's."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from kvantage.core import ArmSettings, HostFacts, Launch, UsageError, masked_argv, masked_env

IMAGE_DIGEST = "KVANTAGE_IMAGE_DIGEST"
"""Set by whoever starts a container with kvantage in it: the image's digest cannot be seen from inside."""

_LIBRARIES = (
    *("CUDA_", "NVIDIA_", "NCCL_", "ROCR_", "HIP_", "OMP_", "KMP_", "GOMP_", "MKL_", "OPENBLAS_"),
    *("TORCH", "PYTORCH_", "TRITON_", "HF_", "TRANSFORMERS_", "LD_PRELOAD", "LD_LIBRARY_PATH", "PYTHONPATH"),
)
_COMMIT = re.compile(r"/snapshots/([0-9a-f]{40})(?:/|$)")


def provenance(
    arm: ArmSettings,
    launch: Launch,
    host: HostFacts,
    *,
    record: Sequence[str | Path] = (),
    keep_in: Path | None = None,
) -> dict[str, Any]:
    """Plain JSON: command, environment (secrets masked), versions, model, files, hardware, system.

    `record` names files and folders; each file's hash is kept, and a copy in the folder `keep_in`. Raises
    UsageError for one that cannot be read, OSError when a copy cannot be written.
    """
    found: dict[str, Any] = {
        "command": list(masked_argv(launch.argv)),
        "env": masked_env(launch.env),
        "inherited_env": masked_env(inherited(launch.env, os.environ)),
        "versions": {
            "kvantage": own_version(),
            "kvantage_python": platform.python_version(),
            **launch.versions,
        },
        "model": model_facts(arm.model, arm.revision),
        "hardware": {
            "host": host.name,
            "cpu": host.cpu,
            "cores": host.cores,
            "memory_bytes": host.memory_bytes,
            "amx": host.amx,
        },
        "system": dict(host.details),
        "record": [recorded(file, keep_in) for path in record for file in files_of(Path(path).expanduser())],
    }
    if arm.speculation.draft is not None:
        found["draft"] = model_facts(arm.speculation.draft, arm.speculation.draft_revision)
    if digest := image_digest(launch.env):
        found["image_digest"] = digest
    return found


def inherited(given: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """Variables of kvantage's own environment that the server sees and that may change how it serves.

    Those of drivers and numeric libraries, and those that share a first word with what the engine is given.
    """
    words = {name.partition("_")[0] for name in given if "_" in name}
    return {
        name: environ[name]
        for name in sorted(environ)
        if name not in given and (name.startswith(_LIBRARIES) or name.partition("_")[0] in words)
    }


def own_version() -> str:
    """kvantage's version, `unknown` where it runs uninstalled."""
    try:
        return version("kvantage")
    except PackageNotFoundError:
        return "unknown"


def image_digest(env: Mapping[str, str]) -> str | None:
    """The container image's digest, where somebody told it."""
    return env.get(IMAGE_DIGEST) or os.environ.get(IMAGE_DIGEST) or None


def model_facts(name: str, revision: str | None) -> dict[str, Any]:
    """Name, revision, and for a folder the hash of its config.json and what its weights weigh.

    A folder of the hub's cache tells its commit by its path.
    """
    found: dict[str, Any] = {"name": name}
    folder = Path(name).expanduser()
    if found_commit := _COMMIT.search(str(folder.resolve()) if folder.exists() else name):
        revision = revision or found_commit[1]
    if revision is not None:
        found["revision"] = revision
    config = folder / "config.json"
    if config.is_file():
        found["config_sha256"] = sha256(config)
        weights = [*folder.glob("*.safetensors"), *folder.glob("*.bin"), *folder.glob("*.gguf")]
        found["weights_bytes"] = sum(path.stat().st_size for path in weights)
    return found


def files_of(path: Path) -> list[Path]:
    """The file itself, or every file below a folder, in order."""
    return sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]


def recorded(path: Path, keep_in: Path | None) -> dict[str, Any]:
    """Hash and size of a file of the study, copied under its hash's first letters, so that none is lost."""
    try:
        digest = sha256(path)
        size = path.stat().st_size
    except OSError as error:
        raise UsageError(f"record: {path}: {error.strerror}", hint="name files that can be read") from error
    found: dict[str, Any] = {"path": str(path), "sha256": digest, "bytes": size}
    if keep_in is not None:
        keep_in.mkdir(parents=True, exist_ok=True)
        copy = keep_in / f"{digest[:12]}-{path.name}"
        if not copy.exists():
            shutil.copyfile(path, copy)
        found["copy"] = copy.name
    return found


def sha256(path: Path) -> str:
    """The hash of a file, read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
