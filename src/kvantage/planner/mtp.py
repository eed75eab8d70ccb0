"""A model's own prediction head: what the config declares, and whether its weights are really there."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from kvantage.planner.dtypes import KvDtype
from kvantage.planner.families import Family
from kvantage.planner.fields import Fields
from kvantage.planner.layers import Heads, Layer

UNAVAILABLE = "unavailable or needs remap"
_OWN_NAMES = re.compile(r"(?:^|\.)(?:mtp|mtp_layers|mtp_block|mtp_head|nextn|nextn_predict_layers)(?:\.|$)")
_ELSEWHERE = re.compile(r"visual|vision|audio|encoder|img|image")
_NUMBERED = re.compile(r"(?:^|\.)(?:layers|h|blocks)\.(\d+)\.")


@dataclass(frozen=True)
class Mtp:
    """`declared` layers by the config; `in_index` is None where no list of weights was seen.

    `layers` is what the head itself caches; a server that drafts with it keeps that beside the target's.
    """

    declared: int
    layers: tuple[Layer, ...] = ()
    in_index: bool | None = None
    implied: bool = False

    @property
    def verdict(self) -> str:
        """Whether an arm can count on it: a config's flag alone does not mean that it can be served."""
        if not self.declared:
            return "not declared; its weights are there" if self.in_index else "none declared"
        if self.in_index is None:
            return "declared; its weights were not seen"
        return "available" if self.in_index else UNAVAILABLE

    def kv_bytes_per_token(self, dtype: KvDtype, tp: int = 1, *, scaled: bool = True) -> int:
        """Bytes that each token costs in the head's own cache, on one rank."""
        return sum(layer.token_bytes(dtype, tp, scaled=scaled) for layer in self.layers)


def read_mtp(
    fields: Fields,
    family: Family,
    stack: list[Layer],
    weights: Collection[str] | None,
    files: Collection[str] = (),
) -> Mtp:
    """What is declared, its cache (shaped as the target's full layers), and whether its weights are there."""
    declared = fields.integer("mtp_layers")
    if declared is None:
        declared = family.mtp
        if declared:
            fields.notes.append(f"{family.name} ships {declared} MTP layer that its config does not declare")
    pattern = fields.raw("mtp_hybrid_override_pattern")
    per_head = pattern.count("*") if isinstance(pattern, str) and pattern else 1
    model = next(
        (layer.attention for layer in reversed(stack) if layer.attention and layer.window is None), None
    )
    if model is None:
        model = next((layer.attention for layer in reversed(stack) if layer.attention), None)
    if isinstance(model, Heads):
        model = Heads(model.kv_heads, model.head_dim, model.v_head_dim)
    elif model is not None and model.indexer is None:
        own = next((layer.attention for layer in stack if getattr(layer.attention, "indexer", None)), None)
        model = own or model
    layers = tuple(Layer(model) for _ in range(declared * per_head)) if model else ()
    present: bool | None = None
    if weights is not None:
        present = has_mtp_weights(weights, fields.integer("num_hidden_layers") or len(stack))
    elif any(name.startswith("mtp") and name.endswith(".safetensors") for name in files):
        present = None
    return Mtp(declared, layers, present, implied=not fields.has("mtp_layers") and declared > 0)


def has_mtp_weights(weights: Collection[str], layers: int) -> bool:
    """True where a weight is named after the head, or numbered beyond the model's own layers."""
    for name in weights:
        if _OWN_NAMES.search(name):
            return True
        number = _NUMBERED.search(name)
        if number and int(number[1]) >= layers and not _ELSEWHERE.search(name):
            return True
    return False


def weight_names(index: Mapping[str, Any]) -> list[str] | None:
    """The names in a safetensors index's `weight_map`, or None where it has none."""
    names = index.get("weight_map")
    return list(names) if isinstance(names, Mapping) else None
