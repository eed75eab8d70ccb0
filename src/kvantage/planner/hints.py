"""What a checkpoint hints about its KV cache. The server's own setting decides, and its log is right."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from kvantage.core import UsageError
from kvantage.planner.dtypes import DTYPES, kv_dtype

MODEL_DTYPE = "model dtype"


@dataclass(frozen=True)
class KvHint:
    """`name` is a KV dtype, `model dtype` where nothing is hinted, or None with a `problem`."""

    name: str | None
    problem: str | None = None

    def bytes(self, model_dtype: str = "bf16") -> float | None:
        """Bytes an element; the model's own where nothing is hinted; None where the hint is not clear."""
        if self.name is None:
            return None
        return float(DTYPES[model_dtype if self.name == MODEL_DTYPE else self.name].size)


def kv_hint(config: Mapping[str, Any], inner: Mapping[str, Any] | None = None) -> KvHint:
    """Read `quantization_config` (or `compression_config`, or a hf_quant_config merged in) of a config."""
    for place in (config, inner or {}):
        for name in ("quantization_config", "compression_config", "quantization"):
            quant = place.get(name)
            if isinstance(quant, Mapping):
                hint = _from_quantization(quant)
                if hint.name != MODEL_DTYPE:
                    return hint
    return KvHint(MODEL_DTYPE)


def _from_quantization(quant: Mapping[str, Any]) -> KvHint:
    for name in (
        "kv_cache_scheme",
        "kv_cache_quant_algo",
        "kv_cache_quant_config",
        "kv_cache_dtype",
        "kv_cache_quant",
    ):
        scheme = quant.get(name)
        if scheme is None or scheme is False or scheme == {}:
            continue
        if isinstance(scheme, str):
            return _named(scheme)
        if isinstance(scheme, Mapping):
            return _described(scheme)
        return KvHint(None, f"`{name}` is {scheme!r}")
    if (quark := _quark(quant)) is not None:
        return quark
    nested = quant.get("quantization")
    return _from_quantization(nested) if isinstance(nested, Mapping) else KvHint(MODEL_DTYPE)


def _quark(quant: Mapping[str, Any]) -> KvHint | None:
    """Quark: `export.kv_cache_group` names layers by pattern; their `output_tensors` are the cache's."""
    export, layers = quant.get("export"), quant.get("layer_quant_config")
    group = export.get("kv_cache_group") if isinstance(export, Mapping) else None
    if not isinstance(group, list) or not group or not isinstance(layers, Mapping):
        return None
    found = [
        config["output_tensors"]
        for name, config in layers.items()
        if any(fnmatchcase(name, str(pattern)) or name == pattern for pattern in group)
        and isinstance(config, Mapping)
        and isinstance(config.get("output_tensors"), Mapping)
    ]
    hints = {_described(scheme) for scheme in found}
    if len(hints) > 1:
        return KvHint(None, "kv_cache_group names layers with different KV dtypes")
    return hints.pop() if hints else KvHint(None, "kv_cache_group names layers that give no KV dtype")


def _named(name: str) -> KvHint:
    plain = re.sub(r"_(affine|cast)$", "", name.lower())  # ModelOpt's ways to find the scales
    if plain in ("static", "dynamic"):  # the first FP8 checkpoints name only how the scales are found
        return KvHint("fp8_e4m3")
    if plain in ("auto", "none", "bf16", "bfloat16", "fp16", "float16"):
        return KvHint(MODEL_DTYPE)
    try:
        return KvHint(kv_dtype(plain).name)
    except UsageError as error:
        return KvHint(None, str(error))


def _described(scheme: Mapping[str, Any]) -> KvHint:
    """`{num_bits, type}`, also one level down (`{"weight": {...}}` or by layer pattern)."""
    bits, kind = scheme.get("num_bits"), str(scheme.get("type", "")).lower()
    if bits is None and isinstance(scheme.get("dtype"), str):
        return _named(str(scheme["dtype"]))
    if bits is None:
        inner = next((value for value in scheme.values() if isinstance(value, Mapping)), None)
        return _described(inner) if inner is not None else KvHint(None, f"the KV scheme {dict(scheme)!r}")
    known = {(8, "int"): "int8", (8, "float"): "fp8_e4m3", (4, "int"): "int4", (4, "float"): "nvfp4"}
    name = known.get((bits, kind)) if isinstance(bits, int) else None
    if name is None and bits == 16:
        return KvHint(MODEL_DTYPE)
    return KvHint(name, None if name else f"a KV scheme of {bits} bits and type `{kind}` is not known")
