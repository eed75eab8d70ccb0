"""What a drafter keeps of each token of the target: DFlash, EAGLE heads, draft models, or nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from kvantage.core import UsageError
from kvantage.planner.attention import build_layers, head_dim, kv_heads, latent_attention
from kvantage.planner.checkpoint import Checkpoint
from kvantage.planner.dtypes import KvDtype
from kvantage.planner.families import UNNAMED, head_defaults
from kvantage.planner.fields import Fields, text_config
from kvantage.planner.geometry import Geometry, geometry_of, model_dtype
from kvantage.planner.layers import Heads, Latent, Layer
from kvantage.planner.pattern import window_size

DraftKind = Literal["dflash", "eagle", "draft_model", "heads"]


@dataclass(frozen=True)
class Drafter:
    """A drafter's own cache. `block_size` (DFlash) holds one anchor and block_size - 1 drafts.

    `windowed_layers` of its layers look back `window` tokens only; a slot a token is kept all the same.
    """

    name: str
    kind: DraftKind
    layers: tuple[Layer, ...]
    dtype: str
    block_size: int | None = None
    window: int | None = None
    windowed_layers: int = 0
    weights_bytes: int | None = None
    geometry: Geometry | None = None
    fields: Fields | None = None
    notes: tuple[str, ...] = ()

    @property
    def max_drafts(self) -> int | None:
        """The most drafts a step: block_size - 1 (some engines count the anchor in, some do not)."""
        return self.block_size - 1 if self.block_size else None

    @property
    def max_accept_len(self) -> int | None:
        """The most tokens a step can yield, bonus included."""
        return self.block_size

    def kv_bytes_per_token(self, dtype: KvDtype, tp: int = 1) -> int:
        """Bytes a target token on one rank: one slot a token, also where the drafter looks at a window only.

        layers * max(1, kv_heads // tp) * 2 * head_dim * dtype.
        """
        return sum(layer.token_bytes(dtype, tp) for layer in self.layers)

    def state_bytes(self, tp: int = 1) -> int:
        """Recurrent state of a draft model that is itself a hybrid."""
        return (self.geometry.state_bytes(tp) or 0) if self.geometry else 0


def drafter_kind(config: Mapping[str, Any]) -> DraftKind | None:
    """Which kind of drafter a config describes; None for an ordinary model.

    `heads` keep no cache: Medusa and its kin, and Gemma 4's assistants, which read the target's.
    """
    inner = text_config(config)
    named = config.get("architectures") or []
    words = [
        str(word).lower()
        for word in (
            *(named if isinstance(named, list) else [named]),
            config.get("model_type"),
            config.get("speculators_model_type"),
            (config.get("speculators_config") or {}).get("algorithm")
            if isinstance(config.get("speculators_config"), Mapping)
            else None,
        )
        if word
    ]
    text = " ".join(words)
    if re.search(r"dflash|dspark|lilicorr", text) or "dflash_config" in config or "dspark_config" in config:
        return "dflash"
    if "eagle" in text or "draft_vocab_size" in config or "eagle_config" in config:
        return "eagle"
    without = r"medusa|hydra|mlp_speculator|mlpspeculator|gemma4\w*assistant"
    if re.search(without, text) or "medusa_num_heads" in inner:
        return "heads"
    return None


def drafter_of(checkpoint: Checkpoint) -> Drafter:
    """The drafter that a checkpoint holds. An ordinary model is a draft model. Raises UsageError by name."""
    config, where = checkpoint.config, checkpoint.name
    kind = drafter_kind(config)
    if kind is None:
        geometry = geometry_of(checkpoint)
        return Drafter(
            where,
            "draft_model",
            geometry.layers,
            geometry.dtype,
            weights_bytes=checkpoint.weights_bytes,
            geometry=geometry,
            fields=geometry.fields,
            notes=geometry.notes,
        )
    inner = _part(config, "model") or text_config(config)  # an EAGLE config may wrap its model's
    fields = Fields(inner, config, where, head_defaults(inner))
    if kind == "heads":
        return Drafter(
            where, kind, (), model_dtype(fields), weights_bytes=checkpoint.weights_bytes, fields=fields
        )
    layers = _layers(fields, 1 if kind == "eagle" else None)
    window, windowed = _windows(fields)
    return Drafter(
        where,
        kind,
        tuple(layers),
        model_dtype(fields),
        block_size=block_size(config, where) if kind == "dflash" else None,
        window=window,
        windowed_layers=windowed,
        weights_bytes=checkpoint.weights_bytes,
        fields=fields,
        notes=tuple(fields.notes),
    )


def block_size(config: Mapping[str, Any], where: str = "") -> int:
    """The block of a DFlash drafter, anchor included: at the top (DFlash) or in `dflash_config` (DFlash2).

    A DSpark config counts drafts only (also as `dspark_block_size`, or in `dspark_config`): one more is
    the block. Raises UsageError where two places disagree or none says.
    """
    inner = text_config(config)
    found: set[int] = set()
    named = " ".join(
        str(word) for word in (config.get("architectures"), config.get("speculators_model_type"))
    )
    more = 1 if "dspark" in named.lower() or "dspark_config" in config else 0
    for place in (config, inner, _part(config, "dflash_config"), _part(inner, "dflash_config")):
        value = place.get("block_size")
        if isinstance(value, int) and not isinstance(value, bool):
            found.add(value + more)
    spark = [
        value + 1
        for value in (
            config.get("dspark_block_size"),
            _part(config, "dspark_config").get("block_size"),
            _part(config, "dspark_config").get("dspark_block_size"),
        )
        if isinstance(value, int)
    ]
    found |= set(spark)
    if len(found) > 1:
        raise UsageError(f"two block sizes are given: {sorted(found)}; an engine would need one", where=where)
    if not found:
        raise UsageError("no block_size at the top or in dflash_config, and it is not guessed", where=where)
    size = found.pop()
    if size < 2:
        raise UsageError(f"a block of {size} drafts nothing", where=where)
    return size


def _part(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = config.get(name)
    return part if isinstance(part, Mapping) else {}


def _layers(fields: Fields, default: int | None) -> list[Layer]:
    count = fields.integer("num_hidden_layers", default)
    if not count:
        raise fields.refusal("`num_hidden_layers` is missing from the drafter's config")
    attention: Heads | Latent
    if fields.integer("kv_lora_rank"):
        attention = latent_attention(fields, sparse=False, indexer=None)
    elif isinstance(fields.raw("num_key_value_heads"), list):
        return build_layers(fields, UNNAMED, ["full"] * count)[0]
    else:
        size = head_dim(fields)
        attention = Heads(kv_heads(fields), size, fields.integer("v_head_dim") or size)
    return [Layer(attention)] * count


def _windows(fields: Fields) -> tuple[int | None, int]:
    """(window in tokens, layers that have it)."""
    listed, window = fields.raw("layer_types"), window_size(fields)
    if not isinstance(listed, list) or not window:
        return None, 0
    windowed = sum("sliding" in str(kind) for kind in listed)
    if windowed:
        fields.notes.append(
            f"{windowed} draft layers look at {window} tokens only; engines still keep a slot a target token"
        )
    return (window, windowed) if windowed else (None, 0)
