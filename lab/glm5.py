"""The MLA toy model in the shape of GLM-5 (`glm_moe_dsa`): the same function in the study's own architecture.

    python lab/glm5.py src/kvantage/nano/mla src/kvantage/nano/mla-dflash OUT

writes OUT/target and OUT/dflash. Nothing is trained; what changes is the form, for the GPU's kernels:

- The hidden state stands twice, [x, x] (a kernel of the MTP head takes more than 256): norms see the same
  mean square, what reads it is halved and repeated, what writes it is repeated. Halving is exact.
- Heads, head sizes and experts are padded with zeros, the larger head's softmax scale goes into the query.
- The query's low-rank pair is an identity in disguise: A undoes the layer norm's weights, so that the norm
  between A and B changes nothing.
- One more layer that adds nothing: SGLang cannot hand the last layer's output to a DFlash drafter.
- The sparse attention's indexer is random: up to `index_topk` tokens it selects every one of them, so answers
  there are those of the model that was trained.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

HEADS, NOPE, ROPE, VALUE, EXPERTS = 16, 192, 64, 256, 16
INDEX = {"index_topk": 2048, "index_n_heads": 32, "index_head_dim": 128}
NEVER = -1e4
"""The routing bias of an expert that is only there to fill a kernel's shape."""

Tensors = dict[str, torch.Tensor]


def reads(weight: torch.Tensor, times: int = 1) -> torch.Tensor:
    """A weight [out, times x hidden] that reads hidden states, for doubled ones."""
    parts = weight.view(weight.shape[0], times, -1) / 2
    return torch.cat([parts, parts], -1).reshape(weight.shape[0], -1).contiguous()


def writes(weight: torch.Tensor) -> torch.Tensor:
    """A weight [hidden, in] that makes hidden states, or a norm's [hidden], for doubled ones."""
    return torch.cat([weight, weight]).contiguous()


def attention(tensors: Tensors, prefix: str, old: dict[str, Any], draw: torch.Generator) -> Tensors:
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
    out = both.new_zeros(rank, HEADS, VALUE)
    out[:, :heads, :value] = tensors[f"{prefix}.self_attn.o_proj.weight"].view(rank, heads, value)

    def random(*shape: int) -> torch.Tensor:
        return (torch.randn(*shape, generator=draw) * 0.02).to(torch.bfloat16)

    mine = {
        "q_a_proj.weight": reads(torch.diag(1 / norm).to(torch.bfloat16)),
        "q_a_layernorm.weight": torch.ones(rank, dtype=torch.bfloat16),
        "q_b_proj.weight": wide.reshape(-1, rank).to(torch.bfloat16),
        "kv_a_proj_with_mqa.weight": reads(tensors[f"{prefix}.self_attn.kv_a_proj_with_mqa.weight"]),
        "kv_a_layernorm.weight": tensors[f"{prefix}.self_attn.kv_a_layernorm.weight"],
        "kv_b_proj.weight": latent.reshape(HEADS * (NOPE + VALUE), -1),
        "o_proj.weight": writes(out.reshape(rank, -1)),
        "indexer.wq_b.weight": random(INDEX["index_n_heads"] * INDEX["index_head_dim"], rank),
        "indexer.wk.weight": random(INDEX["index_head_dim"], 2 * rank),
        "indexer.k_norm.weight": torch.ones(INDEX["index_head_dim"]),
        "indexer.k_norm.bias": torch.zeros(INDEX["index_head_dim"]),
        "indexer.weights_proj.weight": random(INDEX["index_n_heads"], 2 * rank),
    }
    return {f"{prefix}.self_attn.{name}": weight for name, weight in mine.items()}


def experts(tensors: Tensors, prefix: str, old: dict[str, Any]) -> Tensors:
    """One layer's experts and dense parts, with experts that are never chosen to fill up."""
    out = {}
    for name, weight in tensors.items():
        if name.startswith(f"{prefix}.mlp.") and name.endswith(("gate_proj.weight", "up_proj.weight")):
            out[name] = reads(weight)
        elif name.startswith(f"{prefix}.mlp.") and name.endswith("down_proj.weight"):
            out[name] = writes(weight)
    gate = f"{prefix}.mlp.gate.weight"
    if gate not in tensors:
        return out
    router = torch.zeros(EXPERTS, tensors[gate].shape[1], dtype=tensors[gate].dtype)
    router[: old["n_routed_experts"]] = tensors[gate]
    bias = torch.full((EXPERTS,), NEVER)
    bias[: old["n_routed_experts"]] = tensors[f"{prefix}.mlp.gate.e_score_correction_bias"]
    out |= {gate: reads(router), f"{prefix}.mlp.gate.e_score_correction_bias": bias}
    for extra in range(old["n_routed_experts"], EXPERTS):
        for part in ("gate_proj", "up_proj", "down_proj"):
            like = out[f"{prefix}.mlp.experts.0.{part}.weight"]
            out[f"{prefix}.mlp.experts.{extra}.{part}.weight"] = torch.zeros_like(like)
    return out


def layer(tensors: Tensors, prefix: str, old: dict[str, Any], draw: torch.Generator) -> Tensors:
    """One layer, its norms and what an MTP layer has beside."""
    out = attention(tensors, prefix, old, draw) | experts(tensors, prefix, old)
    for name in ("input_layernorm", "post_attention_layernorm", "enorm", "hnorm", "shared_head.norm"):
        if (weight := tensors.get(f"{prefix}.{name}.weight")) is not None:
            out[f"{prefix}.{name}.weight"] = writes(weight)
    if (weight := tensors.get(f"{prefix}.eh_proj.weight")) is not None:
        out[f"{prefix}.eh_proj.weight"] = writes(reads(weight, times=2))
    return out


def renamed(tensors: Tensors, old: str, new: str) -> Tensors:
    """Those whose names begin with `old.`, under `new.`."""
    return {
        new + name.removeprefix(old): weight for name, weight in tensors.items() if name.startswith(old + ".")
    }


def target(tensors: Tensors, old: dict[str, Any]) -> Tensors:
    """The whole checkpoint: its layers, one that adds nothing, its MTP layer after that."""
    draw = torch.Generator().manual_seed(0)
    layers = old["num_hidden_layers"]
    out = {
        "model.embed_tokens.weight": writes(tensors["model.embed_tokens.weight"].T).T.contiguous(),
        "lm_head.weight": reads(tensors["lm_head.weight"]),
        "model.norm.weight": writes(tensors["model.norm.weight"]),
    }
    for place in range(layers):
        out |= layer(tensors, f"model.layers.{place}", old, draw)
    idle = renamed(
        layer(tensors, f"model.layers.{layers - 1}", old, draw),
        f"model.layers.{layers - 1}",
        f"model.layers.{layers}",
    )
    silent = ("o_proj.weight", "down_proj.weight")
    out |= {name: weight * 0 if name.endswith(silent) else weight for name, weight in idle.items()}
    mtp = layer(tensors, f"model.layers.{layers}", old, draw)
    return out | renamed(mtp, f"model.layers.{layers}", f"model.layers.{layers + 1}")


def target_config(old: dict[str, Any]) -> dict[str, Any]:
    """GLM-5's config.json of it."""
    layers, dense = old["num_hidden_layers"] + 1, old["first_k_dense_replace"]
    return old | {
        "architectures": ["GlmMoeDsaForCausalLM"],
        "model_type": "glm_moe_dsa",
        "num_hidden_layers": layers,
        "hidden_size": 2 * old["hidden_size"],
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


def drafter(tensors: Tensors, taps: int) -> Tensors:
    """The DFlash drafter for it: it shares the target's embedding and head, and is doubled like them."""
    out = {}
    for name, weight in tensors.items():
        if name == "fc.weight":
            out[name] = writes(reads(weight, times=taps))
        elif name.endswith(("o_proj.weight", "down_proj.weight")):
            out[name] = writes(weight)
        elif name.endswith(("q_norm.weight", "k_norm.weight")):
            out[name] = weight
        elif name.endswith("norm.weight"):
            out[name] = writes(weight)
        else:
            out[name] = reads(weight)
    return out


def kept(folder: Path, config: dict[str, Any], tensors: Tensors, source: Path) -> None:
    """A checkpoint on the disk, its tokenizer beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    save_file(
        {name: weight.contiguous().clone() for name, weight in tensors.items()},
        folder / "model.safetensors",
        metadata={"format": "pt"},
    )
    for other in source.iterdir():
        if other.name not in ("config.json", "model.safetensors"):
            shutil.copy(other, folder / other.name)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("target", type=Path)
    parser.add_argument("dflash", type=Path)
    parser.add_argument("out", type=Path)
    asked = parser.parse_args()
    old = json.loads((asked.target / "config.json").read_text())
    tensors = load_file(asked.target / "model.safetensors")
    kept(asked.out / "target", target_config(old), target(tensors, old), asked.target)
    draft = json.loads((asked.dflash / "config.json").read_text())
    taps = len(draft["dflash_config"]["target_layer_ids"])
    weights = drafter(load_file(asked.dflash / "model.safetensors"), taps)
    draft |= {"hidden_size": 2 * draft["hidden_size"], "num_target_layers": old["num_hidden_layers"] + 1}
    kept(asked.out / "dflash", draft, weights, asked.dflash)


if __name__ == "__main__":
    main()
