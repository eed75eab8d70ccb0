"""What a model folder's config.json says that decides whether an arm can be served."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_MIXED = re.compile(
    r"linear_|mamba_|ssm_|kda_|full_att|attn_layer_|attn_type_list|hybrid_|conv_L_cache|attention_chunk_size"
)
_MTP_FIELDS = (
    "num_nextn_predict_layers",
    "mtp_num_hidden_layers",
    "num_mtp_modules",
    "mtp_num_layers",
    "n_predict",
)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A model's configuration; `text` is the language model's part of it. Empty where it is not at hand."""

    config: Mapping[str, Any] = field(default_factory=dict)

    @property
    def known(self) -> bool:
        """True when there is a configuration to look at."""
        return bool(self.config)

    @property
    def text(self) -> Mapping[str, Any]:
        """The language model's own configuration."""
        inner = self.config.get("text_config")
        return inner if isinstance(inner, Mapping) else self.config

    @property
    def mla(self) -> bool:
        """True for latent attention: one compressed vector a token in place of keys and values."""
        return isinstance(self.text.get("kv_lora_rank"), int)

    @property
    def hybrid(self) -> bool:
        """True where layers differ in kind, so that pages are not of one size."""
        kinds = self.text.get("layer_types")
        if isinstance(kinds, list) and len(set(map(str, kinds))) > 1:
            return True
        window = self.text.get("sliding_window") and self.text.get("use_sliding_window") is not False
        return bool(window) or any(map(_MIXED.match, self.text))

    @property
    def mtp_layers(self) -> int:
        """Layers of its own multi-token-prediction head; 0 where it declares none."""
        declared = [self.text.get(name, self.config.get(name)) for name in _MTP_FIELDS]
        return max([n for n in declared if isinstance(n, int)], default=0)

    @property
    def architectures(self) -> tuple[str, ...]:
        """Class names that the checkpoint declares."""
        names = self.config.get("architectures")
        return tuple(map(str, names)) if isinstance(names, list) else ()

    @property
    def draft_block(self) -> int | None:
        """A block drafter's block, its anchor token included: it drafts one token fewer."""
        inner = self.config.get("dflash_config")
        size = self.config.get("block_size", inner.get("block_size") if isinstance(inner, Mapping) else None)
        return size if isinstance(size, int) else None


def is_path(name: str) -> bool:
    """True for a folder rather than a hub's `owner/name`."""
    return name.startswith(("/", "./", "../", "~")) or Path(name).exists()


def located(name: str) -> str:
    """A folder's path with `~` resolved; a hub's name as it is."""
    return str(Path(name).expanduser()) if name.startswith("~") else name


def checkpoint(name: str | None) -> Checkpoint:
    """The configuration of a model folder; an empty one for hub names and unreadable files."""
    if not name or not is_path(name):
        return Checkpoint()
    try:
        config = json.loads((Path(name).expanduser() / "config.json").read_text())
    except (OSError, ValueError):
        return Checkpoint()
    return Checkpoint(config) if isinstance(config, dict) else Checkpoint()


def folder_problem(name: str | None, what: str) -> str | None:
    """Why `name` cannot be a model folder, or None where it can (or is a hub's name)."""
    if not name or not is_path(name):
        return None
    folder = Path(name).expanduser()
    if not folder.is_dir():
        near = _near(folder)
        return f"{what}: there is no folder {name}" + (f"; did you mean {near}?" if near else "")
    if not (folder / "config.json").is_file():
        return f"{what}: {name} holds no config.json, so it is not a model in Hugging Face's form"
    return None


def _near(folder: Path) -> Path | None:
    try:
        names = [entry.name for entry in folder.parent.iterdir() if entry.is_dir()]
    except OSError:
        return None
    close = difflib.get_close_matches(folder.name, names, n=1)
    return folder.parent / close[0] if close else None
