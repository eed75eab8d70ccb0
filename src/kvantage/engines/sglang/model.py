"""The little that an arm's model folder says before a start."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_RECURRENT = (
    "linear_attn_config",
    "linear_num_key_heads",
    "mamba_d_state",
    "mamba_num_heads",
    "ssm_state_size",
)


def config_of(model: str | None) -> dict[str, Any]:
    """config.json of a folder; empty for a hub's name and for what cannot be read."""
    if not model:
        return {}
    try:
        config = json.loads((Path(model).expanduser() / "config.json").read_text())
    except (OSError, ValueError):
        return {}
    return config if isinstance(config, dict) else {}


def is_hybrid(model: str | None) -> bool:
    """True where some layers keep a recurrent state in place of keys and values."""
    config = config_of(model)
    inner = config.get("text_config")
    text = inner if isinstance(inner, dict) else config
    kinds = text.get("layer_types")
    linear = isinstance(kinds, list) and any("linear" in str(kind) or "mamba" in str(kind) for kind in kinds)
    return linear or any(text.get(name) for name in _RECURRENT)


def draft_block(draft: str | None) -> int | None:
    """A block drafter's block, its anchor token included: it drafts one token fewer."""
    config = config_of(draft)
    inner = config.get("dflash_config")
    size = config.get("block_size", inner.get("block_size") if isinstance(inner, dict) else None)
    return size if isinstance(size, int) and not isinstance(size, bool) else None
