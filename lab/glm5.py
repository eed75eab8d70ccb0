"""The MLA toy model in the shape of GLM-5 (`glm_moe_dsa`): the same function, in the architecture that the study serves.

    python lab/glm5.py src/kvantage/nano/mla OUT

Nothing is trained. Heads, experts and head sizes are padded with zeros to what the GPU kernels take; the query's low-rank
pair is an identity in disguise (A undoes the layer norm's weights, so that the norm between A and B changes nothing); the
softmax scale of the larger head is folded into the query. The sparse attention's indexer is random: up to `index_topk`
tokens it selects every one of them, so answers there are those of the model that was trained.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

HEADS, NOPE, ROPE, VALUE, EXPERTS = 16, 192, 64, 256, 16
INDEX = {"index_topk": 2048, "index_n_heads": 32, "index_head_dim": 128}
NEVER = -1e4
"""The routing bias of an expert that is only there to fill a kernel's shape."""


def padded(weight: torch.Tensor, *shape: int) -> torch.Tensor:
    """The weight in the first corner of zeros."""
    out = weight.new_zeros(*shape)
    out[tuple(slice(0, size) for size in weight.shape)] = weight
    return out


def attention(tensors: dict[str, torch.Tensor], prefix: str, old: dict[str, int]) -> dict[str, torch.Tensor]:
    """One layer's attention in GLM-5's names and sizes."""
    heads, nope, value = old["num_attention_heads"], old["qk_nope_head_dim"], old["v_head_dim"]
    norm = tensors[f"{prefix}.input_layernorm.weight"].float()
    rank = norm.numel()
    query = tensors[f"{prefix}.self_attn.q_proj.weight"].float() * norm
    query = query.view(heads, nope + ROPE, rank) * math.sqrt((NOPE + ROPE) / (nope + ROPE))
    wide = query.new_zeros(HEADS, NOPE + ROPE, rank)
    wide[:heads, :nope], wide[:heads, NOPE:] = query[:, :nope], query[:, nope:]
    both = tensors[f"{prefix}.self_attn.kv_b_proj.weight"].view(heads, nope + value, -1)
    latent = both.new_zeros(HEADS, NOPE + VALUE, both.shape[-1])
    latent[:heads, :nope], latent[:heads, NOPE : NOPE + value] = both[:, :nope], both[:, nope:]
    out = tensors[f"{prefix}.self_attn.o_proj.weight"].view(rank, heads, value)
    draw = torch.Generator().manual_seed(len(prefix) + int(prefix.rsplit(".", 1)[-1]))

    def random(*shape: int) -> torch.Tensor:
        return (torch.randn(*shape, generator=draw) * 0.02).to(torch.bfloat16)

    indexer = {
        "wq_b.weight": random(INDEX["index_n_heads"] * INDEX["index_head_dim"], rank),
        "wk.weight": random(INDEX["index_head_dim"], rank),
        "k_norm.weight": torch.ones(INDEX["index_head_dim"]),
        "k_norm.bias": torch.zeros(INDEX["index_head_dim"]),
        "weights_proj.weight": random(INDEX["index_n_heads"], rank),
    }
    mine = {
        "q_a_proj.weight": torch.diag(1 / norm).to(torch.bfloat16),
        "q_a_layernorm.weight": torch.ones(rank, dtype=torch.bfloat16),
        "q_b_proj.weight": wide.reshape(-1, rank).to(torch.bfloat16),
        "kv_a_proj_with_mqa.weight": tensors[f"{prefix}.self_attn.kv_a_proj_with_mqa.weight"],
        "kv_a_layernorm.weight": tensors[f"{prefix}.self_attn.kv_a_layernorm.weight"],
        "kv_b_proj.weight": latent.reshape(HEADS * (NOPE + VALUE), -1),
        "o_proj.weight": padded(out, rank, HEADS, VALUE).reshape(rank, -1),
        **{f"indexer.{name}": weight for name, weight in indexer.items()},
    }
    return {f"{prefix}.self_attn.{name}": weight.contiguous().clone() for name, weight in mine.items()}


def converted(tensors: dict[str, torch.Tensor], old: dict[str, int]) -> dict[str, torch.Tensor]:
    """Every tensor of the checkpoint, the MTP layer's too."""
    out = {name: weight for name, weight in tensors.items() if ".self_attn." not in name}
    for layer in range(old["num_hidden_layers"] + old["num_nextn_predict_layers"]):
        prefix = f"model.layers.{layer}"
        out |= attention(tensors, prefix, old)
        if f"{prefix}.mlp.gate.weight" not in tensors:
            continue
        count = old["n_routed_experts"]
        out[f"{prefix}.mlp.gate.weight"] = padded(
            tensors[f"{prefix}.mlp.gate.weight"], EXPERTS, old["hidden_size"]
        )
        bias = torch.full((EXPERTS,), NEVER)
        bias[:count] = tensors[f"{prefix}.mlp.gate.e_score_correction_bias"]
        out[f"{prefix}.mlp.gate.e_score_correction_bias"] = bias
        for extra in range(count, EXPERTS):
            for part in ("gate_proj", "up_proj", "down_proj"):
                like = tensors[f"{prefix}.mlp.experts.0.{part}.weight"]
                out[f"{prefix}.mlp.experts.{extra}.{part}.weight"] = torch.zeros_like(like)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", type=Path)
    parser.add_argument("out", type=Path)
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    old = json.loads((asked.source / "config.json").read_text())
    layers, dense = old["num_hidden_layers"], old["first_k_dense_replace"]
    new = old | {
        "architectures": ["GlmMoeDsaForCausalLM"],
        "model_type": "glm_moe_dsa",
        "num_attention_heads": HEADS,
        "num_key_value_heads": HEADS,
        "q_lora_rank": old["hidden_size"],
        "qk_nope_head_dim": NOPE,
        "qk_head_dim": NOPE + ROPE,
        "head_dim": ROPE,
        "v_head_dim": VALUE,
        "n_routed_experts": EXPERTS,
        "mlp_layer_types": ["dense"] * dense + ["sparse"] * (layers - dense),
        "indexer_rope_interleave": True,
        "rope_parameters": {"rope_theta": old["rope_theta"], "rope_type": "default"},
        **INDEX,
    }
    (asked.out / "config.json").write_text(json.dumps(new, indent=2) + "\n")
    tensors = converted(load_file(asked.source / "model.safetensors"), old)
    save_file(tensors, asked.out / "model.safetensors", metadata={"format": "pt"})
    for other in asked.source.iterdir():
        if other.name not in ("config.json", "model.safetensors"):
            shutil.copy(other, asked.out / other.name)


if __name__ == "__main__":
    main()
