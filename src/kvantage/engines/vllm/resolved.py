"""The engine's resolved settings, from /server_info, flat."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from kvantage.core import masked_text, secret_name

_NOISE = re.compile(
    r"(port|_ip|instance_id|served_model_name|SHM_BUFFER_NAME|URL|CACHE_ROOT|CONFIG_ROOT|_cache_dir|cache_dir"
    r"|local_cache_dir|BUILD_\w+|hf_token)$"
)
_LONGEST = 300
_SECTIONS = (
    "model_config",
    "cache_config",
    "parallel_config",
    "scheduler_config",
    "attention_config",
    "compilation_config",
    "kernel_config",
    "load_config",
    "lora_config",
    "speculative_config",
    "structured_outputs_config",
    "optimization_level",
    "performance_mode",
)


def resolved(info: Any) -> dict[str, Any]:
    """`{section.field: value}` of what decides how the server serves; empty where it does not tell.

    Ports, addresses and names that differ between any two boots are left out, and so are private fields
    and the drafter's and the target's whole configurations inside of `speculative_config`.
    """
    config = info.get("vllm_config") if isinstance(info, Mapping) else None
    if not isinstance(config, Mapping):
        return {}
    flat = dict(leaves({name: config[name] for name in _SECTIONS if name in config}))
    env = info.get("vllm_env")
    if isinstance(env, Mapping):
        flat |= dict(leaves({"env": env}))
    return flat


def leaves(tree: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Scalars and short lists below `tree`."""
    for name, value in tree.items():
        path = f"{above}{name}"
        if str(name).startswith("_") or _NOISE.search(str(name)) or secret_name(str(name)):
            continue
        if isinstance(value, Mapping):
            if not (above.startswith("speculative_config.") and str(name).endswith("_config")):
                yield from leaves(value, f"{path}.")
        elif isinstance(value, (list, tuple)):
            text = json.dumps(value, default=str)
            if len(text) <= _LONGEST:
                yield path, text
        elif isinstance(value, str):
            yield path, masked_text(value[:_LONGEST])
        else:
            yield path, value


def speculation_of(info: Any) -> dict[str, Any] | None:
    """The drafting part as resolved: {} when nothing drafts, None where it is not told."""
    config = info.get("vllm_config") if isinstance(info, Mapping) else None
    if not isinstance(config, Mapping) or "speculative_config" not in config:
        return None
    told = config["speculative_config"]
    if not isinstance(told, Mapping):
        return {}
    return {
        name: value
        for name, value in told.items()
        if value not in (None, False, 0, "", [], {})
        and not isinstance(value, Mapping)
        and not str(name).endswith("_ip")
    }
