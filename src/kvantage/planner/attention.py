"""A layer's attention from its config: heads or a latent, windows, indexers, layers that keep nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kvantage.planner.families import UNNAMED, Family
from kvantage.planner.fields import Fields
from kvantage.planner.layers import Heads, Indexer, Latent, Layer, State
from kvantage.planner.own import own_layer
from kvantage.planner.pattern import Kind, window_size
from kvantage.planner.states import conv_state, recurrent_state


def head_dim(fields: Fields) -> int:
    """The size of a head: what the config declares wins over hidden_size / num_attention_heads."""
    declared = fields.integer("head_dim")
    if declared:
        return declared
    if fields.defaults.get("doubled_heads"):
        return 2 * fields.need("hidden_size") // fields.need("num_attention_heads")
    return fields.need("hidden_size") // fields.need("num_attention_heads")


def kv_heads(fields: Fields, family: Family = UNNAMED) -> int:
    """How many key/value heads: declared, or by multi-query flags, or as many as query heads (plain MHA)."""
    nested = fields.values.get("attn_config")
    if isinstance(nested, Mapping):
        if isinstance(nested.get("kv_n_heads"), int):
            return int(nested["kv_n_heads"])
        if nested.get("attn_type") == "multiquery_attention":
            return 1
    if family.name == "falcon" and not _grouped_falcon(fields):
        return 1 if fields.values.get("multi_query", True) else fields.need("num_attention_heads")
    if family.name == "gpt_bigcode" and fields.values.get("multi_query") is False:
        return fields.need("num_attention_heads")
    if family.name == "chatglm" and not fields.values.get("multi_query_attention", True):
        return fields.need("num_attention_heads")
    declared = fields.integer("num_key_value_heads")
    if declared:
        return declared
    if family is UNNAMED and fields.values.get("multi_query") is True:
        return 1
    return fields.need("num_attention_heads")


def _grouped_falcon(fields: Fields) -> bool:
    """True where Falcon's declared groups count; its first 40B (type `RefinedWeb`) has no flag for them."""
    named = (fields.values.get("model_type"), fields.outer.get("model_type"))
    return bool(fields.values.get("new_decoder_architecture")) or (
        "RefinedWeb" in named and fields.has("num_key_value_heads")
    )


def build_layers(fields: Fields, family: Family, kinds: Sequence[Kind]) -> tuple[list[Layer], str | None]:
    """The layers of a model, and why the state of its recurrent layers is not known where it is not."""
    latent = is_latent(fields, family)
    problem: str | None = None
    state: State | None = None
    if any(kind in ("recurrent", "both") for kind in kinds):
        found = recurrent_state(fields, family)
        state, problem = (found, None) if isinstance(found, State) else (None, found)
    if latent and fields.values.get("per_layer_config"):
        raise fields.refusal("per_layer_config changes layers of a model with a latent: not known")
    indexers = _indexers(fields, family, kinds) if latent else {}
    shared = fields.integer("num_kv_shared_layers") or 0
    blocks = fields.sequence("block_configs")
    layers = []
    for i, kind in enumerate(kinds):
        attention: Heads | Latent | None = None
        if kind in ("full", "sliding", "chunked", "both") and i < len(kinds) - shared:
            if latent:
                attention = latent_attention(fields, sparse=bool(indexers), indexer=indexers.get(i))
            elif blocks is not None:
                attention = _block_attention(fields, blocks, i)
            else:
                its, its_kind = own_layer(fields, kind, i) or (fields, kind)
                attention = None if its_kind == "none" else head_attention(its, family, its_kind, i)
        own = conv_state(fields) if kind == "conv" else state if kind in ("recurrent", "both") else None
        layers.append(Layer(attention, own, recurrent=kind in ("recurrent", "both", "conv")))
    return layers, problem


def is_latent(fields: Fields, family: Family) -> bool:
    """True for MLA. An architecture that is not known to use it and yet declares a latent is refused."""
    declared = fields.integer("kv_lora_rank")
    if family.latent:
        return fields.values.get("use_mla") is not False  # DeepSeek-VL2-Tiny, DeepSeek-OCR: plain heads
    if declared and family is not UNNAMED:
        raise fields.refusal(f"kv_lora_rank is declared, and {family.name} is not known to cache a latent")
    return bool(declared)


def latent_attention(fields: Fields, *, sparse: bool, indexer: Indexer | None) -> Latent:
    """MLA's latent. A rotary part of 0 is legal; one that is missing is refused."""
    rope = fields.integer("qk_rope_head_dim")
    if rope is None:
        raise fields.refusal("`qk_rope_head_dim` is missing (0 would be legal), and it is not guessed")
    return Latent(fields.need("kv_lora_rank"), rope, sparse=sparse, indexer=indexer)


def head_attention(fields: Fields, family: Family, kind: Kind, i: int) -> Heads:
    """Heads of layer `i`, with the other sizes that windowed or global layers have in some models."""
    listed = fields.raw("num_key_value_heads")
    if isinstance(listed, list):
        if i >= len(listed) or not isinstance(listed[i], int):
            raise fields.refusal(
                f"num_key_value_heads lists {len(listed)} layers; layer {i} is not among them"
            )
        heads = int(listed[i])
    else:
        heads = kv_heads(fields, family)
    size = head_dim(fields)
    value = fields.integer("v_head_dim") or size
    if kind == "sliding":
        twice = 2 if family.name == "mimo_v2_flash" else 1  # its class doubles them where none are declared
        heads = fields.integer("swa_num_key_value_heads") or twice * heads
        size = fields.integer("swa_head_dim") or size
        value = fields.integer("swa_v_head_dim") or value if fields.has("v_head_dim") else size
    elif family.name == "gemma4":
        size = value = fields.integer("global_head_dim") or size
        if fields.raw("attention_k_eq_v"):
            heads = fields.integer("num_global_key_value_heads") or heads
    if kind == "sliding" and isinstance(other := fields.values.get("attention_other_setting"), Mapping):
        heads = _other(other, "num_attention_groups", heads)
        size = value = _other(other, "head_dim", size)
    return Heads(heads, size, value, _window(fields, kind, i))


def _other(setting: Mapping[str, Any], name: str, default: int) -> int:
    value = setting.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else default


def _window(fields: Fields, kind: Kind, i: int) -> int | None:
    if kind == "chunked":
        return fields.need("attention_chunk_size")
    if kind != "sliding":
        return None
    window = window_size(fields, i)
    if window is None:
        raise fields.refusal(
            "layers are listed as sliding, and no sliding_window says how many tokens they keep"
        )
    longest = fields.integer("max_position_embeddings")
    return None if longest and window >= longest else window


def _block_attention(fields: Fields, blocks: Sequence[Any], i: int) -> Heads | None:
    """`block_configs` of pruned models: a layer may have fewer heads, a window, or no attention at all."""
    block = blocks[i] if i < len(blocks) else None
    attention = block.get("attention") if isinstance(block, Mapping) else None
    if not isinstance(attention, Mapping):
        raise fields.refusal(f"block_configs says nothing of the attention of layer {i}")
    if attention.get("no_op") or attention.get("replace_with_linear"):
        return None
    group = attention.get("n_heads_in_group")
    declared = attention.get("num_key_value_heads")
    if isinstance(declared, int) and declared > 0:
        heads = declared
    elif isinstance(group, int) and group > 0:
        heads = fields.need("num_attention_heads") // group
    else:
        raise fields.refusal(f"block_configs does not say how many key/value heads layer {i} has")
    size = head_dim(fields)
    window = attention.get("window_length")
    return Heads(heads, size, size, window if isinstance(window, int) and window > 0 else None)


def _indexers(fields: Fields, family: Family, kinds: Sequence[Kind]) -> dict[int, Indexer]:
    """The layers that keep an indexer of their own, where the config gives an indexer's size."""
    size = fields.integer("index_head_dim")
    if not size:
        if family.sparse:
            fields.notes.append(
                "index_head_dim is not in the config: the indexer's cache and the FP8 scales of sparse "
                "attention are not counted"
            )
        return {}
    if not family.sparse and family is not UNNAMED and not fields.has("index_topk"):
        return {}
    indexer = Indexer(size, max(1, fields.integer("index_kpool") or 1))
    return {
        i: indexer
        for i, (kind, own) in enumerate(zip(kinds, own_indexers(fields, len(kinds)), strict=True))
        if own and kind == "full"
    }


def own_indexers(fields: Fields, count: int) -> list[bool]:
    """True for each layer with its own indexer; the others share the choice of one before them.

    `indexer_types` or `index_topk_pattern` (F and S) list them; `index_topk_freq` f with
    `index_skip_topk_offset` o means: full where max(i - o + 1, 0) is a multiple of f.
    """
    listed = fields.raw("indexer_types")
    if listed is None:
        listed = fields.raw("index_topk_pattern")
    if isinstance(listed, str):
        listed = list(listed)
    if isinstance(listed, list):
        words = [str(word).lower() for word in listed]
        unknown = sorted(set(words) - {"full", "shared", "f", "s", "none", "-"})
        if unknown:
            raise fields.refusal(f"an indexer type is not known: `{unknown[0]}`")
        if len(words) < count:
            raise fields.refusal(f"{len(words)} indexer types for {count} layers")
        return [word in ("full", "f") for word in words[:count]]
    every = max(fields.integer("index_topk_freq") or 1, 1)
    offset = fields.integer("index_skip_topk_offset")
    first = 2 if offset is None else offset
    return [max(i - first + 1, 0) % every == 0 for i in range(count)]
