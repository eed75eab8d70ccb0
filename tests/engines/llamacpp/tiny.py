"""A Llama of a few thousand random weights in GGUF, so that the real llama-server can be tried in seconds."""

from __future__ import annotations

from pathlib import Path

import numpy as np

WIDTH, HEADS, KV_HEADS, LAYERS, INNER, CONTEXT = 64, 2, 1, 2, 128, 2048
SPECIAL = ("<unk>", "<s>", "</s>")


def write_model(path: Path, seed: int = 0) -> Path:
    """Write the model: byte tokens, random weights, the same for the same seed; it emits printable ASCII."""
    import gguf

    tokens = [*SPECIAL, *(f"<0x{byte:02X}>" for byte in range(256)), "\u2581", "a", "b"]
    kinds = [gguf.TokenType.UNKNOWN, gguf.TokenType.CONTROL, gguf.TokenType.CONTROL]
    kinds += [gguf.TokenType.BYTE] * 256 + [gguf.TokenType.NORMAL] * 3
    random = np.random.default_rng(seed)

    def weights(*shape: int) -> np.ndarray:
        return (random.standard_normal(shape) * 0.2).astype(np.float32)

    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_name("tiny")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([token.encode() for token in tokens])
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types([int(kind) for kind in kinds])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(True)
    writer.add_tensor("token_embd.weight", weights(len(tokens), WIDTH))
    writer.add_tensor("output_norm.weight", np.ones(WIDTH, np.float32))
    output = weights(len(tokens), WIDTH)
    printable = np.array([0x20 <= place - len(SPECIAL) < 0x7F for place in range(len(tokens))])
    output[~printable] = 0
    writer.add_tensor("output.weight", output)
    head = WIDTH // HEADS
    for layer in range(LAYERS):
        block = f"blk.{layer}"
        writer.add_tensor(f"{block}.attn_norm.weight", np.ones(WIDTH, np.float32))
        writer.add_tensor(f"{block}.ffn_norm.weight", np.ones(WIDTH, np.float32))
        writer.add_tensor(f"{block}.attn_q.weight", weights(WIDTH, WIDTH))
        writer.add_tensor(f"{block}.attn_k.weight", weights(KV_HEADS * head, WIDTH))
        writer.add_tensor(f"{block}.attn_v.weight", weights(KV_HEADS * head, WIDTH))
        writer.add_tensor(f"{block}.attn_output.weight", weights(WIDTH, WIDTH))
        writer.add_tensor(f"{block}.ffn_gate.weight", weights(INNER, WIDTH))
        writer.add_tensor(f"{block}.ffn_up.weight", weights(INNER, WIDTH))
        writer.add_tensor(f"{block}.ffn_down.weight", weights(WIDTH, INNER))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
