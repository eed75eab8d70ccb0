"""`per_layer_config`: single layers that have other sizes than the rest, as newer config files write them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvantage.planner.fields import Fields
from kvantage.planner.pattern import Kind

# Second names that a family has for a size in some of its layers: the layer's own word wins over both.
_TWINS = {
    "head_dim": ("global_head_dim", "swa_head_dim"),
    "num_key_value_heads": ("num_global_key_value_heads", "swa_num_key_value_heads"),
    "v_head_dim": ("swa_v_head_dim",),
}


def own_layer(fields: Fields, kind: Kind, i: int) -> tuple[Fields, Kind] | None:
    """The fields and the kind of layer `i` where `per_layer_config` changes it, else None.

    A `sliding_window` of null there keeps every token; `skip` names parts that the layer leaves out. Raises
    UsageError on a part that is not known.
    """
    listed = fields.values.get("per_layer_config")
    if listed is None:
        return None
    if not isinstance(listed, Mapping):
        raise fields.refusal(f"`per_layer_config` is {listed!r}: an object by layer number was expected")
    own = next((value for key, value in listed.items() if _number(fields, key) == i), None)
    if own is None:
        return None
    if not isinstance(own, Mapping):
        raise fields.refusal(f"`per_layer_config` says {own!r} of layer {i}: an object was expected")
    twins: dict[str, Any] = {
        twin: own[name] for name, names in _TWINS.items() if name in own for twin in names
    }
    if "sliding_window" in own and kind in ("full", "sliding"):
        kind = "sliding" if own["sliding_window"] else "full"
    if _skips_attention(fields, own.get("skip"), i):
        kind = "none"
    return Fields(
        {**fields.values, **twins, **own}, fields.outer, fields.where, fields.defaults, fields.notes
    ), kind


def _number(fields: Fields, key: Any) -> int:
    if not str(key).isdecimal():
        raise fields.refusal(f"`per_layer_config` has an entry `{key}`: a layer number was expected")
    return int(key)


def _skips_attention(fields: Fields, skip: Any, i: int) -> bool:
    if not skip:
        return False
    parts = [str(part).lower() for part in skip] if isinstance(skip, list) else [str(skip).lower()]
    for part in parts:
        if not any(word in part for word in ("attn", "attention", "mlp", "ffn", "moe", "feed_forward")):
            raise fields.refusal(f"`per_layer_config` leaves out `{part}` in layer {i}: not known")
    return any("attn" in part or "attention" in part for part in parts)
