"""kvantage's own toy models as GGUF, so that its first study runs on llama.cpp too.

`python -m kvantage.engines.llamacpp.toys FOLDER` writes FOLDER/qwen3 and FOLDER/qwen3-draft. It knows these
models alone: for any other, llama.cpp's own `convert_hf_to_gguf.py` is the tool. Needs `kvantage[llamacpp]`.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kvantage.core import ExitCode, UsageError
from kvantage.study.paths import PACKAGE, locate

TOYS = ("qwen3", "qwen3-draft")
"""The target and its draft model, which share a tokenizer."""

USAGE = "usage: python -m kvantage.engines.llamacpp.toys FOLDER"
ENDING = "model.gguf"

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
_WHOLE = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}


def tensors(path: Path) -> dict[str, npt.NDArray[np.float32]]:
    """A safetensors file's BF16 and F32 tensors as float32, which holds both exactly.

    Raises ValueError for any other type.
    """
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    head: dict[str, Any] = json.loads(data[8 : 8 + length])
    found: dict[str, npt.NDArray[np.float32]] = {}
    for name, told in head.items():
        if name == "__metadata__":
            continue
        start, end = (8 + length + offset for offset in told["data_offsets"])
        if told["dtype"] == "BF16":
            wide = np.frombuffer(data[start:end], "<u2").astype("<u4") << 16
            found[name] = wide.view(np.float32).reshape(told["shape"])
        elif told["dtype"] == "F32":
            found[name] = np.frombuffer(data[start:end], np.float32).reshape(told["shape"])
        else:
            raise ValueError(f"{path}: {name} is {told['dtype']}, not BF16 or F32")
    return found


def gguf_name(name: str) -> str:
    """llama.cpp's name of a Qwen3 tensor."""
    if name in _WHOLE:
        return _WHOLE[name]
    _, _, layer, rest = name.split(".", 3)
    return f"blk.{layer}.{_LAYER[rest.removesuffix('.weight')]}.weight"


def write_toy(name: str, folder: Path) -> Path:
    """Write one of `TOYS` into a folder, its tokenizer.json beside it; returns the model's file.

    Raises UsageError without the package `gguf`.
    """
    if importlib.util.find_spec("gguf") is None:
        raise UsageError("writing GGUF needs the package gguf", hint="pip install 'kvantage[llamacpp]'")
    import gguf

    source = Path(locate(f"{PACKAGE}nano/{name}"))
    config = json.loads((source / "config.json").read_text())
    tokenizer = json.loads((source / "tokenizer.json").read_text())
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source / "tokenizer.json", folder / "tokenizer.json")
    path = folder / ENDING
    writer = gguf.GGUFWriter(str(path), "qwen3")
    writer.add_name(f"kvantage {name}")
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
    places = range(config["vocab_size"])
    kind = gguf.TokenType
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list([special[i]["content"] if i in special else words[i] for i in places])
    writer.add_token_types(
        [
            int(
                kind.NORMAL
                if i not in special
                else kind.CONTROL
                if special[i]["special"]
                else kind.USER_DEFINED
            )
            for i in places
        ]
    )
    merges = tokenizer["model"]["merges"]
    writer.add_token_merges([merge if isinstance(merge, str) else " ".join(merge) for merge in merges])
    writer.add_eos_token_id(config["eos_token_id"])
    writer.add_pad_token_id(config["pad_token_id"])
    writer.add_add_bos_token(False)
    writer.add_chat_template((source / "chat_template.jinja").read_text())
    for tensor, values in tensors(source / "model.safetensors").items():
        writer.add_tensor(gguf_name(tensor), np.ascontiguousarray(values))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def main(arguments: Sequence[str]) -> int:
    """Write both; returns the exit code."""
    if len(arguments) != 1 or arguments[0].startswith("-"):
        print(USAGE, file=sys.stderr)
        return int(ExitCode.USAGE)
    try:
        for name in TOYS:
            path = write_toy(name, Path(arguments[0]) / name)
            print(f"{path}: {path.stat().st_size / (1 << 20):.1f} MiB")
    except UsageError as error:
        print(f"{error.message} ({error.hint})", file=sys.stderr)
        return int(ExitCode.USAGE)
    except OSError as error:
        print(f"{error.filename}: {error.strerror}", file=sys.stderr)
        return int(ExitCode.STORAGE)
    return int(ExitCode.OK)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
