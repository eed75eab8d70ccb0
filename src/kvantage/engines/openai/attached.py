"""A server that somebody else started: which engine stands behind its address, asked politely."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kvantage.core import ArmSettings, UsageError
from kvantage.engines.answers import json_of, text_of
from kvantage.engines.recognise import engines_of_metrics, owner_of_models

HINT = "engine_options: {url: http://HOST:PORT, key_env: NAME}, NAME being the variable that holds the key"


@dataclass(frozen=True)
class Attached:
    """What a server tells at the addresses that engines have. Each part may be missing.

    `engine` is None for one that is not recognised; `evidence` says by what it was.
    """

    engine: str | None = None
    version: str | None = None
    evidence: str = ""
    models: tuple[str, ...] = ()
    info: Mapping[str, Any] = field(default_factory=dict)
    props: Mapping[str, Any] = field(default_factory=dict)
    slots: Sequence[Mapping[str, Any]] = ()
    metrics: str = ""


def key_of(arm: ArmSettings) -> str | None:
    """The key, from the environment variable that `engine_options.key_env` names; it is stored nowhere.

    Raises UsageError where the variable is named and not set.
    """
    name = arm.engine_options.get("key_env")
    if name is None:
        return None
    key = os.environ.get(str(name))
    if not key:
        raise UsageError(f"the environment variable {name}, which should hold the server's key, is not set")
    return key


async def look_at(url: str, key: str | None = None) -> Attached:
    """Ask a server who it is: /v1/models, /version, /server_info, /props, /slots and /metrics, each once."""
    models, version, info, props, slots, metrics = await asyncio.gather(
        json_of(f"{url}/v1/models", key=key),
        json_of(f"{url}/version", key=key),
        json_of(f"{url}/server_info", key=key, timeout_s=30),
        json_of(f"{url}/props", key=key),
        json_of(f"{url}/slots", key=key),
        text_of(f"{url}/metrics", key=key),
    )
    if not isinstance(info, Mapping) or isinstance(info.get("vllm_config"), str):  # text, unless asked
        info = await json_of(f"{url}/server_info?config_format=json", key=key, timeout_s=30)
    return told(models, version, info, props, slots, metrics)


def told(models: Any, version: Any, info: Any, props: Any, slots: Any, metrics: str) -> Attached:
    """Put the answers together; None is 'no such address'."""
    listed = models.get("data") if isinstance(models, Mapping) else None
    names = [one.get("id") for one in listed if isinstance(one, Mapping)] if isinstance(listed, list) else []
    number = version.get("version") if isinstance(version, Mapping) else None
    by_metrics = engines_of_metrics(metrics)
    info = info if isinstance(info, Mapping) else {}
    props = props if isinstance(props, Mapping) else {}
    engine: str | None = None
    evidence = ""
    if "internal_states" in info or "max_total_num_tokens" in info:
        engine, evidence, number = "sglang", "/server_info", info.get("version") or number
    elif "default_generation_settings" in props:
        engine, evidence, number = "llamacpp", "/props", props.get("build_info")
    elif by_metrics:
        engine, evidence = by_metrics[0], "the names of its metrics"
    elif owner := owner_of_models(models):
        engine, evidence = owner, "/v1/models"
    elif isinstance(number, str):
        engine, evidence = "vllm", "/version"
    return Attached(
        engine=engine,
        version=str(number) if number else None,
        evidence=evidence,
        models=tuple(name for name in names if isinstance(name, str)),
        info=info,
        props=props,
        slots=[slot for slot in slots if isinstance(slot, Mapping)] if isinstance(slots, list) else [],
        metrics=metrics,
    )
