"""A model or drafter as it lies on disk or on the hub: its config, the names of its weights, their bytes."""

from __future__ import annotations

import importlib
import json
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from kvantage.core import UsageError
from kvantage.planner.mtp import weight_names

INDEX = "model.safetensors.index.json"
_HEADER_LIMIT = 100 * 2**20


@dataclass(frozen=True)
class Checkpoint:
    """What can be read without loading a weight. `tensors` is None where no list of weights was seen."""

    name: str
    config: Mapping[str, Any]
    tensors: tuple[str, ...] | None = None
    files: tuple[str, ...] = ()
    weights_bytes: int | None = None
    note: str | None = None


def read_checkpoint(model: str, revision: str | None = None) -> Checkpoint:
    """A folder, a config.json, or a hub name. Raises UsageError.

    A hub name is fetched with huggingface-hub where that is installed; without it or without a network, the
    facts of some public models that ship with kvantage are taken, and the checkpoint's note says so.
    """
    path = Path(model).expanduser()
    if path.suffix == ".gguf":
        raise UsageError(
            f"`{model}` is a GGUF file, and the planner reads a config.json",
            hint="Give the folder or the hub name of the model that it was made from.",
        )
    if path.is_dir():
        return _from_folder(path)
    if path.is_file():
        if path.name == "config.json":
            return _from_folder(path.parent, model)
        return Checkpoint(model, _read_json(path))
    if path.suffix == ".json" or path.is_absolute() or model.startswith((".", "~")) or model.count("/") != 1:
        raise UsageError(
            f"there is no model at `{model}`", hint="Give a folder, a config.json or a hub name."
        )
    try:
        return _from_hub(model, revision)
    except UsageError:
        kept = _known(model)
        if kept is None:
            raise
        return kept


def _known(model: str) -> Checkpoint | None:
    """The facts that ship with kvantage, by a model's exact hub name."""
    text = (Path(str(resources.files("kvantage.planner"))) / "known.yaml").read_text(encoding="utf-8")
    for entry in yaml.safe_load(text)["models"]:
        if model in entry["names"]:
            note = f"not read from the hub: facts that ship with kvantage ({entry['source']})"
            return Checkpoint(model, entry["config"], weights_bytes=entry.get("weights_bytes"), note=note)
    return None


def _from_folder(folder: Path, name: str | None = None) -> Checkpoint:
    config_path = folder / "config.json"
    if not config_path.is_file():
        raise UsageError(
            f"there is no config.json in `{folder}`", hint="Give the folder that holds the model."
        )
    config = dict(_read_json(config_path))
    quant = folder / "hf_quant_config.json"
    if quant.is_file():
        config.setdefault("quantization", _read_json(quant).get("quantization"))
    shards = sorted(folder.glob("*.safetensors"))
    files = tuple(path.name for path in shards)
    index_path = folder / INDEX
    if not index_path.is_file():
        index_path = next(iter(sorted(folder.glob("*.safetensors.index.json"))), index_path)
    if index_path.is_file():
        index = _read_json(index_path)
        names = weight_names(index)
        total = (index.get("metadata") or {}).get("total_size")
        size = int(total) if isinstance(total, int | float) else _size(shards)
        return Checkpoint(name or str(folder), config, tuple(names) if names else None, files, size)
    tensors = [tensor for path in shards for tensor in _header(path)]
    return Checkpoint(name or str(folder), config, tuple(tensors) or None, files, _size(shards))


def _from_hub(model: str, revision: str | None) -> Checkpoint:
    if not _reachable():
        raise UsageError(
            f"`{model}` is not a folder or a file here, and the hub cannot be reached",
            hint="Without a network, give the model's folder or its config.json.",
        )
    try:
        hub = importlib.import_module("huggingface_hub")
    except ImportError:
        raise UsageError(
            f"`{model}` is not a folder or a file here, and a hub name needs the package huggingface-hub",
            hint="Give the model's folder or its config.json, or install huggingface-hub.",
        ) from None
    found: dict[str, Mapping[str, Any]] = {}
    for name in ("config.json", INDEX, "hf_quant_config.json"):
        try:
            found[name] = _read_json(Path(hub.hf_hub_download(model, name, revision=revision)))
        except Exception as error:  # the hub's own errors, of many kinds and versions
            if name == "config.json":
                reason = str(error).splitlines()[0] if str(error) else type(error).__name__
                raise UsageError(
                    f"the config of `{model}` could not be fetched: {reason}",
                    hint="Without a network, give the model's folder or its config.json.",
                ) from error
    config = dict(found["config.json"])
    if "hf_quant_config.json" in found:
        config.setdefault("quantization", found["hf_quant_config.json"].get("quantization"))
    index = found.get(INDEX)
    if index is None:
        return Checkpoint(model, config)
    names = weight_names(index)
    total = (index.get("metadata") or {}).get("total_size")
    size = int(total) if isinstance(total, int | float) else None
    return Checkpoint(model, config, tuple(names) if names else None, (), size)


def _reachable(within_s: float = 3.0) -> bool:
    """Whether the hub answers at all, asked once and briefly; behind a proxy it is assumed to."""
    if os.environ.get("HF_HUB_OFFLINE") == "1":
        return False
    if any(os.environ.get(name) for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")):
        return True
    place = urlsplit(os.environ.get("HF_ENDPOINT") or "https://huggingface.co")
    try:
        socket.create_connection((place.hostname or "", place.port or 443), within_s).close()
    except OSError:
        return False
    return True


def _read_json(path: Path) -> Mapping[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot be read: {error}", where=str(path)) from None
    except (json.JSONDecodeError, RecursionError) as error:
        raise UsageError(f"is not JSON: {error}", where=str(path)) from None
    if not isinstance(data, dict):
        raise UsageError("holds no config: a JSON object was expected", where=str(path))
    return data


def _header(path: Path) -> list[str]:
    """The names in a safetensors file: 8 bytes of length, then that much JSON (the format's own header)."""
    try:
        with path.open("rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            if not 0 < length <= _HEADER_LIMIT:
                return []
            header = json.loads(stream.read(length))
    except (OSError, ValueError):
        return []
    return [name for name in header if name != "__metadata__"] if isinstance(header, dict) else []


def _size(shards: list[Path]) -> int | None:
    return sum(path.stat().st_size for path in shards) if shards else None
