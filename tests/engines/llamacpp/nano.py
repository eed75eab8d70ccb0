"""kvantage's own nano models in GGUF, for tests with the real llama-server: written, never shipped."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np

NANO = Path(__file__).parents[3] / "src" / "kvantage" / "nano"

_LAYER = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_WHOLE = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight"}


def tensors(path: Path) -> dict[str, np.ndarray]:
    """A safetensors file's BF16 or F32 tensors as float32."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    head: dict[str, Any] = json.loads(data[8 : 8 + length])
    found = {}
    for name, told in head.items():
        if name != "__metadata__":
            start, end = (8 + length + offset for offset in told["data_offsets"])
            if told["dtype"] == "BF16":
                wide = np.frombuffer(data[start:end], "<u2").astype("<u4") << 16
                found[name] = wide.view("<f4").reshape(told["shape"])
            else:
                found[name] = np.frombuffer(data[start:end], "<f4").reshape(told["shape"])
    return found


def gguf_name(name: str) -> str:
    """llama.cpp's name of a Qwen3 tensor."""
    if name in _WHOLE:
        return _WHOLE[name]
    _, _, layer, rest = name.split(".", 3)
    return f"blk.{layer}.{_LAYER[rest.removesuffix('.weight')]}.weight"


def write_nano(name: str, folder: Path) -> Path:
    """Write `model.gguf` of a Qwen3-shaped nano model into a folder, its tokenizer.json beside it."""
    import gguf

    source = NANO / name
    config = json.loads((source / "config.json").read_text())
    # The drafter shares the target's tokenizer, and may lie there without one.
    home = source if (source / "tokenizer.json").exists() else NANO / "qwen3"
    tokenizer = json.loads((home / "tokenizer.json").read_text())
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(home / "tokenizer.json", folder / "tokenizer.json")
    path = folder / "model.gguf"
    writer = gguf.GGUFWriter(str(path), "qwen3")
    writer.add_name(name)
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_theta"])
    words = {place: word for word, place in tokenizer["model"]["vocab"].items()}
    special = {token["id"]: token for token in tokenizer["added_tokens"]}
    names = [special[i]["content"] if i in special else words[i] for i in range(config["vocab_size"])]
    kinds = [
        gguf.TokenType.CONTROL
        if i in special and special[i]["special"]
        else gguf.TokenType.USER_DEFINED
        if i in special
        else gguf.TokenType.NORMAL
        for i in range(config["vocab_size"])
    ]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(names)
    writer.add_token_types([int(kind) for kind in kinds])
    merges = tokenizer["model"]["merges"]
    writer.add_token_merges([merge if isinstance(merge, str) else " ".join(merge) for merge in merges])
    writer.add_eos_token_id(config["eos_token_id"])
    writer.add_pad_token_id(config["pad_token_id"])
    writer.add_add_bos_token(False)
    writer.add_chat_template((NANO / "chat_template.jinja").read_text())
    for tensor, values in tensors(source / "model.safetensors").items():
        writer.add_tensor(gguf_name(tensor), np.ascontiguousarray(values))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
