"""Write trained models as folders that vLLM and transformers load: config, bf16 weights, tokenizer.

python lab/export.py CHECKPOINT.pt FOLDER --tokenizer lab/build/tokenizer.json
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from model import Dense, DenseShape, Dflash, DflashShape, Mla, MlaShape, shape_of

TEMPLATE = Path(__file__).parent.parent / "src/kvantage/nano/chat_template.jinja"
POSITIONS = 16384

KINDS: dict[str, tuple[type, type]] = {
    "mla": (Mla, MlaShape),
    "dense": (Dense, DenseShape),
    "dflash": (Dflash, DflashShape),
}


def save(model: nn.Module, path: Path) -> None:
    """Keep a model in a checkpoint: its kind, its sizes and its weights in bf16."""
    kind = next(k for k, (made, _) in KINDS.items() if isinstance(model, made))
    state = {
        k: v.detach().cpu().to(torch.float32 if "bias" in k else torch.bfloat16)
        for k, v in model.state_dict().items()
    }
    torch.save({"kind": kind, "shape": shape_of(model), "state": state}, path)


def load(path: Path, device: str = "cpu") -> Any:
    """The model of a checkpoint, in float32 weights of bf16 values."""
    kept = torch.load(path, map_location="cpu", weights_only=True)
    made, shape = KINDS[kept["kind"]]
    sizes = {k: tuple(v) if isinstance(v, list) else v for k, v in kept["shape"].items()}
    model = made(shape(**sizes))
    model.load_state_dict({k: v.float() for k, v in kept["state"].items()})
    return model.to(device)


def weights(model: nn.Module) -> dict[str, Tensor]:
    """The tensors of the checkpoint under the names that servers expect."""
    made: dict[str, Tensor] = {}
    for own, tensor in model.state_dict().items():
        ahead = isinstance(model, Mla) and own.startswith("mtp.")
        name = _mtp_name(own, model.shape.layers) if ahead else own
        if name.endswith(("experts_in", "experts_out")):
            made.update(_split(name, tensor, model))
        else:
            made[name] = tensor
    return {
        k: v.detach().cpu().to(torch.float32 if "bias" in k else torch.bfloat16).contiguous()
        for k, v in made.items()
    }


def _mtp_name(name: str, layers: int) -> str:
    rest = name.removeprefix("mtp.")
    if rest.startswith("layer."):
        return f"model.layers.{layers}.{rest.removeprefix('layer.')}"
    if rest.startswith("norm."):
        return f"model.layers.{layers}.shared_head.{rest}"
    return f"model.layers.{layers}.{rest}"


def _split(name: str, tensor: Tensor, model: nn.Module) -> dict[str, Tensor]:
    shape: MlaShape = model.shape  # type: ignore[assignment]
    stem = name.rsplit(".", 1)[0]
    made = {}
    for i in range(shape.experts):
        part = slice(i * shape.expert, (i + 1) * shape.expert)
        if name.endswith("experts_in"):
            gate, up = tensor.chunk(2, 0)
            made[f"{stem}.experts.{i}.gate_proj.weight"] = gate[part]
            made[f"{stem}.experts.{i}.up_proj.weight"] = up[part]
        else:
            made[f"{stem}.experts.{i}.down_proj.weight"] = tensor[:, part]
    return made


def config(model: nn.Module, target_layers: int = 0) -> dict[str, Any]:
    """The config.json of a model."""
    common: dict[str, Any] = {
        "bos_token_id": None,
        "eos_token_id": 2,
        "pad_token_id": 0,
        "torch_dtype": "bfloat16",
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "max_position_embeddings": POSITIONS,
        "attention_bias": False,
        "attention_dropout": 0.0,
        "initializer_range": 0.02,
        "use_cache": True,
    }
    if isinstance(model, Mla):
        s = model.shape
        return {
            "architectures": ["DeepseekV3ForCausalLM"],
            "model_type": "deepseek_v3",
            **common,
            "vocab_size": s.vocabulary,
            "hidden_size": s.hidden,
            "num_hidden_layers": s.layers,
            "num_attention_heads": s.heads,
            "num_key_value_heads": s.heads,
            "q_lora_rank": None,
            "kv_lora_rank": s.lora,
            "qk_nope_head_dim": s.nope,
            "qk_rope_head_dim": s.rope,
            "v_head_dim": s.value,
            "intermediate_size": s.dense,
            "moe_intermediate_size": s.expert,
            "n_routed_experts": s.experts,
            "n_shared_experts": 1,
            "num_experts_per_tok": s.active,
            "first_k_dense_replace": 1,
            "moe_layer_freq": 1,
            "n_group": 1,
            "topk_group": 1,
            "topk_method": "noaux_tc",
            "scoring_func": "sigmoid",
            "norm_topk_prob": True,
            "routed_scaling_factor": 1.0,
            "moe_router_dtype": "float32",
            "num_nextn_predict_layers": 1,
            "rope_theta": s.theta,
            "rope_interleave": True,
            "tie_word_embeddings": False,
        }
    s = model.shape
    made = {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        **common,
        "vocab_size": getattr(s, "vocabulary", 2048),
        "hidden_size": s.hidden,
        "num_hidden_layers": s.layers,
        "num_attention_heads": s.heads,
        "num_key_value_heads": s.groups,
        "head_dim": s.head,
        "intermediate_size": s.inner,
        "rope_theta": s.theta,
        "tie_word_embeddings": True,
        "sliding_window": None,
        "use_sliding_window": False,
    }
    if isinstance(model, Dflash):
        made |= {
            "architectures": ["DFlashDraftModel"],
            "tie_word_embeddings": False,
            "block_size": model.shape.block,
            "num_target_layers": target_layers,
            "dflash_config": {
                "mask_token_id": model.shape.mask,
                "target_layer_ids": list(model.shape.taps),
            },
        }
    return made


def export(model: nn.Module, folder: Path, tokenizer: Path, target_layers: int = 0) -> int:
    """Write a model folder; returns its size in bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file(weights(model), folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "model.safetensors").chmod(0o644)
    _write(folder / "config.json", config(model, target_layers))
    shutil.copyfile(tokenizer, folder / "tokenizer.json")
    _write(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "eos_token": "<|im_end|>",
            "pad_token": "<|endoftext|>",
            "model_max_length": POSITIONS,
            "clean_up_tokenization_spaces": False,
        },
    )
    if not isinstance(model, Dflash):
        shutil.copyfile(TEMPLATE, folder / "chat_template.jinja")
        _write(
            folder / "generation_config.json",
            {"do_sample": False, "eos_token_id": [2, 0], "pad_token_id": 0},
        )
    return sum(f.stat().st_size for f in folder.iterdir())


def _write(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tokenizer", type=Path, default=Path("lab/build/tokenizer.json"))
    parser.add_argument("--target-layers", type=int, default=0)
    arguments = parser.parse_args()
    model = load(arguments.checkpoint)
    size = export(model, arguments.folder, arguments.tokenizer, arguments.target_layers)
    print(f"{arguments.folder}: {size:,} bytes, {sum(p.numel() for p in model.parameters()):,}")


if __name__ == "__main__":
    main()
