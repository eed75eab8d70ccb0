"""KV bytes a token from a model's configuration, to be checked against what the server granted."""

from __future__ import annotations

from kvantage.engines.vllm.checkpoint import Checkpoint
from kvantage.engines.vllm.dtypes import is_fp8

_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}


def element_bytes(kv_dtype: str | None, model_dtype: str | None) -> int | None:
    """Bytes of one KV element: of the cache's own dtype, or of the model's where it is `auto`."""
    if is_fp8(kv_dtype):
        return 1
    name = model_dtype if kv_dtype in (None, "auto") else kv_dtype
    return _BYTES.get((name or "").removeprefix("torch."))


def layer_bytes(model: Checkpoint, element: int, tensor_parallel: int) -> int | None:
    """KV bytes a token of one layer on one rank; None for layers that this cannot tell.

    Latent attention keeps kv_lora_rank + qk_rope_head_dim elements, on every rank alike; other
    attention keeps a key and a value of head_dim for each of the rank's KV heads.
    """
    text = model.text
    if model.hybrid or "index_head_dim" in text:
        return None
    if model.mla:
        rope = text.get("qk_rope_head_dim", 0)
        return (int(text["kv_lora_rank"]) + int(rope)) * element if isinstance(rope, int) else None
    heads = text.get("num_attention_heads")
    kv_heads = text.get("num_key_value_heads", heads)
    width = text.get("head_dim")
    if width is None and isinstance(heads, int) and heads and isinstance(text.get("hidden_size"), int):
        width = text["hidden_size"] // heads
    if not isinstance(kv_heads, int) or not isinstance(width, int):
        return None
    return max(1, kv_heads // max(1, tensor_parallel)) * 2 * width * element


def layers(model: Checkpoint) -> int | None:
    """Decoder layers."""
    told = model.text.get("num_hidden_layers")
    return told if isinstance(told, int) else None


def target_bytes(model: Checkpoint, element: int | None, tensor_parallel: int) -> int | None:
    """KV bytes a token of the target on one rank."""
    each = layer_bytes(model, element, tensor_parallel) if element and model.known else None
    count = layers(model)
    return each * count if each and count else None


def draft_bytes(
    method: str, target: Checkpoint, draft: Checkpoint, element: int | None, tensor_parallel: int
) -> int | None:
    """KV bytes a token of the drafter on one rank; 0 for one that keeps no KV."""
    if method in ("none", "ngram"):
        return 0
    if method == "mtp" and not draft.known:
        each = layer_bytes(target, element, tensor_parallel) if element and target.known else None
        return each * target.mtp_layers if each and target.mtp_layers else None
    return target_bytes(draft, element, tensor_parallel)
