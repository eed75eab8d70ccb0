"""Data types in vLLM's spelling."""

from __future__ import annotations

_SHORT = {"bf16": "bfloat16", "fp16": "float16", "half": "float16", "fp32": "float32", "float": "float32"}
_FP8 = frozenset({"fp8", "fp8_e4m3", "fp8_e5m2", "fp8_inc"})


def dtype_name(name: str) -> str:
    """`--dtype`'s word for `name`."""
    return _SHORT.get(name, name)


def kv_dtype_name(name: str) -> str:
    """`--kv-cache-dtype`'s word for `name`."""
    return _SHORT.get(name, name)


def is_fp8(name: str | None) -> bool:
    """True for an 8-bit floating-point KV cache."""
    return name in _FP8
