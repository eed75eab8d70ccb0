"""What a text is, and which engine wrote it: by what stands in it, never by its name."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kvantage.engines.recognise import (
    engine_of_answer,
    engine_of_stream,
    engines_of_log,
    engines_of_metrics,
    owner_of_models,
)
from kvantage.inspection.document import Kind

_HELP = re.compile(r"^-{1,2}[a-z][\w-]*,? .*--help\b|^ *-h, +--help\b|^usage: ", re.MULTILINE)
_STREAM = re.compile(r"(?:^|\r)(?:\d+\.\d+ )?data:", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Recognised:
    """A kind, the engines that it speaks of (a log may hold lines of several), and parsed JSON if it is."""

    kind: Kind
    engines: tuple[str, ...] = ()
    data: Any = None


def recognise(text: str) -> Recognised:
    """What the text is; `unknown` where nothing in it is known."""
    text = text.removeprefix("\ufeff")
    if text.lstrip()[:1] in ("{", "["):
        data = _json(text)
        if data is not None:
            return recognise_json(data)
    if _STREAM.search(text):
        return Recognised("stream", _one(engine_of_stream(text)))
    found = engines_of_metrics(text)
    if found or text.startswith("# HELP "):
        return Recognised("metrics", found)
    engines = engines_of_log(text)
    if engines and _HELP.search(text):
        return Recognised("help", engines[:1])
    return Recognised("log", engines) if engines else Recognised("unknown")


def _json(text: str) -> Any:
    """The text as one JSON value, or as a list of the values of its lines; None where it is neither."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        lines = [json.loads(line) for line in text.split("\n") if line.strip()]
    except (ValueError, RecursionError):
        return None
    return lines if all(isinstance(line, dict) and _is_answer(line) for line in lines) else None


def recognise_json(data: Any) -> Recognised:
    """What a JSON value is."""
    if isinstance(data, list):
        members = [one for one in data if isinstance(one, dict)]
        if members and all("n_ctx" in one and "speculative" in one for one in members):
            return Recognised("server", ("llamacpp",), data)
        if members and len(members) == len(data) and all(map(_is_answer, members)):
            engine = next((found for one in members if (found := engine_of_answer(one))), None)
            return Recognised("response", _one(engine), members)
        return Recognised("unknown")
    if not isinstance(data, dict):
        return Recognised("unknown")
    if "vllm_config" in data:
        return Recognised("server", ("vllm",), data)
    if "internal_states" in data or "max_total_num_tokens" in data:
        return Recognised("server", ("sglang",), data)
    if "default_generation_settings" in data:
        return Recognised("server", ("llamacpp",), data)
    if _is_answer(data):
        return Recognised("response", _one(engine_of_answer(data)), [data])
    if "model_type" in data or "architectures" in data:
        return Recognised("config", (), data)
    if _is_list_of_models(data):
        return Recognised("server", _one(owner_of_models(data)), data)
    if set(data) == {"version"} and isinstance(data["version"], str):
        return Recognised("server", (), data)
    return Recognised("unknown")


def _is_answer(data: Mapping[str, Any]) -> bool:
    marks = (
        "usage",
        "choices",
        "timings",
        "meta_info",
        "sglext",
        "predicted_n",
        "eval_count",
        "completion_tokens",
        "error",
    )
    if data.get("object") == "error":
        return True
    metrics = data.get("metrics")
    return any(mark in data for mark in marks) or (
        isinstance(metrics, dict) and "speculative_decoding" in metrics
    )


def _is_list_of_models(data: Mapping[str, Any]) -> bool:
    return data.get("object") == "list" and isinstance(data.get("data"), list)


def _one(engine: str | None) -> tuple[str, ...]:
    return (engine,) if engine else ()
