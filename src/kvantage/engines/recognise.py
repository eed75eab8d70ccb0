"""Which engine wrote a text or an answer: by what stands in it, since nothing else can be trusted to say."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_METRICS = re.compile(r"^(?:ray_)?(vllm|sglang|llamacpp)[:_][a-z_]+(?:\{[^}\n]*\})? ", re.MULTILINE)
_LOGS = {
    "sglang": re.compile(
        r"\b(?:Decode|Prefill) batch[.,]? |server_args=|max_total_num_tokens=|Mamba Cache is allocated|"
        r"KV Cache is allocated|Memory pool end|capped to \d+ by the mamba|than the profiled value|"
        r"sglang\.launch_server|Max running requests is reset to|SIMULATE_ACC_LEN|Load weight end\.|"
        r"#retracted_reqs: \d|\baccept len: \d|sliding window memory pool\.|"
        r"SWAKVPool mem usage|DSV4 (?:pool|mem)"
    ),
    "vllm": re.compile(
        r"SpecDecoding metrics:|Speculative metrics:|KV cache size: [\d,]+ tokens|max_num_seqs|"
        r"Available KV cache memory:|Avg generation throughput:|# (?:GPU|CUDA|cuda|CPU|cpu) blocks: \d|"
        r"vLLM API server|Maximum concurrency for [\d,]+ tokens|Initializing an? (?:V\d )?LLM engine|"
        r"\(EngineCore|Current kv cache memory in use is|is preempted by PreemptionMode|"
        r"larger than the available KV cache memory|non-default args: |\bvllm serve |vllm\.entrypoints\."
    ),
    "llamacpp": re.compile(
        r"llama_kv_cache|llama_context:|print_timing|draft acceptance(?: rate)? = |"
        r"statistics +[\w-]+: #calls|llama_model_load|common_params|srv +(?:llama_server|load_model)|"
        r"error while handling argument|^error: invalid argument: -|KV self size|"
        r"--spec-synth|LLAMA_ARG_SPEC_SYNTH|^n_drafted +=",
        re.MULTILINE,
    ),
}
_VLLM_FINGERPRINT = re.compile(r"vllm-(\d[\w.]*)")
_LLAMACPP_FINGERPRINT = re.compile(r"b\d+-[0-9a-f]{6,}$")


def engines_of_metrics(text: str) -> tuple[str, ...]:
    """Engines whose metrics a dump holds, in order."""
    return tuple(dict.fromkeys(_METRICS.findall(text)))


def engines_of_log(text: str) -> tuple[str, ...]:
    """Engines whose lines a log holds, the one with most of them first."""
    scores = {engine: len(pattern.findall(text)) for engine, pattern in _LOGS.items()}
    return tuple(sorted((name for name, score in scores.items() if score), key=lambda name: -scores[name]))


def engine_of_answer(answer: Mapping[str, Any]) -> str | None:
    """The engine of a response, by fields that no other has."""
    fingerprint = str(answer.get("system_fingerprint") or "")
    if _VLLM_FINGERPRINT.match(fingerprint) or "kv_transfer_params" in answer:
        return "vllm"
    if isinstance(answer.get("metrics"), Mapping):
        return "vllm"
    if "timings" in answer or "predicted_n" in answer or _LLAMACPP_FINGERPRINT.match(fingerprint):
        return "llamacpp"
    choices = answer.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else {}
    marks = ("meta_info", "sglext", "matched_stop")
    told = any(mark in answer or (isinstance(first, Mapping) and mark in first) for mark in marks)
    return "sglang" if told else None


def engine_of_stream(text: str) -> str | None:
    """The engine of a stream's text, by the fields of its chunks."""
    if '"system_fingerprint":"vllm' in text or '"kv_transfer_params"' in text:
        return "vllm"
    if '"timings":' in text:
        return "llamacpp"
    return "sglang" if '"sglext"' in text or '"matched_stop"' in text or '"meta_info"' in text else None


def version_of_answer(answer: Mapping[str, Any]) -> str | None:
    """The engine's version in a response's fingerprint, where it puts one there."""
    fingerprint = str(answer.get("system_fingerprint") or "")
    if found := _VLLM_FINGERPRINT.match(fingerprint):
        return found[1]
    return fingerprint if _LLAMACPP_FINGERPRINT.match(fingerprint) else None


def owner_of_models(models: Any) -> str | None:
    """The engine that a list of models names as their owner."""
    listed = models.get("data") if isinstance(models, Mapping) else None
    owners = (
        [one.get("owned_by") for one in listed if isinstance(one, Mapping)]
        if isinstance(listed, list)
        else []
    )
    return next((owner for owner in owners if owner in _LOGS), None)
