"""What a text is, and which engine wrote it: by what stands in it, never by its name."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kvantage.inspection.document import Kind

_STREAM = re.compile(r"(?:^|\r)(?:\d+\.\d+ )?data:", re.MULTILINE)
_METRICS = re.compile(r"^(vllm|sglang|llamacpp)[:_][a-z_]+(?:\{[^}\n]*\})? ", re.MULTILINE)
_LOGS = {
    "sglang": re.compile(
        r"\b(?:Decode|Prefill) batch[.,]? |server_args=|max_total_num_tokens=|Mamba Cache is allocated|"
        r"KV Cache is allocated|Memory pool end|capped to \d+ by the mamba|than the profiled value|"
        r"sglang\.launch_server|Max running requests is reset to"
    ),
    "vllm": re.compile(
        r"SpecDecoding metrics:|Speculative metrics:|KV cache size: [\d,]+ tokens|Available KV cache memory:|"
        r"Avg generation throughput:|# GPU blocks: \d|Maximum concurrency for [\d,]+ tokens|vLLM API server|"
        r"Initializing a V\d LLM engine|\(EngineCore|max_num_seqs"
    ),
    "llamacpp": re.compile(
        r"llama_kv_cache|llama_context:|print_timing|draft acceptance(?: rate)? = |"
        r"statistics +[\w-]+: #calls|llama_model_load|common_params|srv +(?:llama_server|load_model)|"
        r"error while handling argument|^error: invalid argument: -|KV self size",
        re.MULTILINE,
    ),
}
_OWNERS = {"vllm": "vllm", "sglang": "sglang", "llamacpp": "llamacpp"}


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
    found = _METRICS.findall(text)
    if found or text.startswith("# HELP "):
        return Recognised("metrics", tuple(dict.fromkeys(found)))
    scores = {engine: len(pattern.findall(text)) for engine, pattern in _LOGS.items()}
    engines = tuple(sorted((name for name, score in scores.items() if score), key=lambda name: -scores[name]))
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
    return (
        Recognised("server", _one(_owner(data)), data) if _is_list_of_models(data) else Recognised("unknown")
    )


def _is_answer(data: Mapping[str, Any]) -> bool:
    marks = (
        "usage",
        "choices",
        "timings",
        "meta_info",
        "sglext",
        "predicted_n",
        "completion_tokens",
        "error",
    )
    metrics = data.get("metrics")
    return any(mark in data for mark in marks) or (
        isinstance(metrics, dict) and "speculative_decoding" in metrics
    )


def _is_list_of_models(data: Mapping[str, Any]) -> bool:
    return data.get("object") == "list" and isinstance(data.get("data"), list)


def _owner(data: Mapping[str, Any]) -> str | None:
    owners = [one.get("owned_by") for one in data["data"] if isinstance(one, dict)]
    return next((_OWNERS[owner] for owner in owners if owner in _OWNERS), None)


def engine_of_answer(answer: Mapping[str, Any]) -> str | None:
    """The engine of a response, by fields that no other has."""
    fingerprint = str(answer.get("system_fingerprint") or "")
    metrics = answer.get("metrics")
    if fingerprint.startswith("vllm") or "kv_transfer_params" in answer or isinstance(metrics, dict):
        return "vllm"
    if "timings" in answer or "predicted_n" in answer or re.match(r"b\d+-[0-9a-f]{6,}$", fingerprint):
        return "llamacpp"
    choices = answer.get("choices")
    first = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
    if "meta_info" in answer or "sglext" in answer or "meta_info" in first or "sglext" in first:
        return "sglang"
    return "sglang" if "matched_stop" in first else None


def engine_of_stream(text: str) -> str | None:
    """The engine of a stream, by the fields of its chunks."""
    if '"system_fingerprint":"vllm' in text or '"kv_transfer_params"' in text:
        return "vllm"
    if '"timings":' in text:
        return "llamacpp"
    return "sglang" if '"sglext"' in text or '"matched_stop"' in text or '"meta_info"' in text else None


def _one(engine: str | None) -> tuple[str, ...]:
    return (engine,) if engine else ()
