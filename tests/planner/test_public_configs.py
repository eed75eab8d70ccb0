"""Spellings of public configs, bytes worked out by hand: 2 x heads x head size x 2 a layer."""

from __future__ import annotations

from typing import Any

import pytest

from kvantage.core import UsageError
from kvantage.planner.checkpoint import Checkpoint
from kvantage.planner.drafts import drafter_of
from kvantage.planner.dtypes import kv_dtype
from kvantage.planner.geometry import geometry_of
from kvantage.planner.hints import kv_hint

from .cases import geometry

BF16 = kv_dtype("bf16")
GQA = {
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "torch_dtype": "bfloat16",
}
LAYER = 2 * 8 * 128 * 2
"""Bytes a token of one layer of GQA."""
DELTA = {
    "linear_num_value_heads": 32,
    "linear_num_key_heads": 16,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
}
BAILING = {"num_attention_heads": 64, "head_dim": 128, "hidden_size": 8192, "layer_group_size": 4}
MLA = {"kv_lora_rank": 512, "qk_rope_head_dim": 64}
MHA_7B = {"hidden_size": 4096, "num_attention_heads": 32, "torch_dtype": "bfloat16"}


def named(architecture: str, model_type: str, **fields: Any) -> dict[str, Any]:
    return {"architectures": [architecture], "model_type": model_type, "torch_dtype": "bfloat16", **fields}


BARE: list[tuple[str, dict[str, Any], int, int, int | None]] = [
    ("every 6th layer is global", {**GQA, "num_hidden_layers": 12, "sliding_window": 1024,
     "sliding_window_pattern": 6}, 2 * LAYER, 10 * LAYER * 1024, 0),
    ("chunks but where no rope is", {**GQA, "num_hidden_layers": 4, "attention_chunk_size": 8192,
     "no_rope_layers": [1, 1, 1, 0]}, LAYER, 3 * LAYER * 8192, 0),
    ("windows from a layer on", {**GQA, "num_hidden_layers": 4, "sliding_window": 1024,
     "use_sliding_window": True, "max_window_layers": 3}, 3 * LAYER, LAYER * 1024, 0),
    ("one window a layer", {**GQA, "num_hidden_layers": 4, "sliding_window": [512, None, 1024, None]},
     2 * LAYER, LAYER * (512 + 1024), 0),
    ("windows that repeat", {**GQA, "num_hidden_layers": 4, "interleaved_sliding_window": [None, 1024]},
     2 * LAYER, 2 * LAYER * 1024, 0),
    ("full attention each 4th layer", {**GQA, "num_hidden_layers": 8, "full_attention_interval": 4, **DELTA},
     2 * LAYER, 0, 6 * (8192 * 3 * 2 + 32 * 128 * 128 * 4)),
    ("multi-query", {**MHA_7B, "num_hidden_layers": 32, "multi_query": True}, 32 * 2 * 128 * 2, 0, 0),
    ("null key/value heads", {**MHA_7B, "num_hidden_layers": 32, "num_key_value_heads": None},
     32 * 2 * 4096 * 2, 0, 0),
    ("head counts by layer", {**MHA_7B, "num_hidden_layers": 3, "num_key_value_heads_per_layer": [4, 2, 1]},
     7 * 2 * 128 * 2, 0, 0),
]  # fmt: skip
NAMED: list[tuple[str, dict[str, Any], int, int, int | None]] = [
    ("chatglm without groups", named("ChatGLMModel", "chatglm", **MHA_7B, num_layers=28, kv_channels=128,
     multi_query_attention=False, multi_query_group_num=2), 28 * 2 * 4096 * 2, 0, 0),
    ("the first falcon-40b", named("RWForCausalLM", "RefinedWeb", n_layer=60, hidden_size=8192, n_head=128,
     n_head_kv=8), 60 * 2 * 8 * 64 * 2, 0, 0),
    ("the first falcon-7b", named("RWForCausalLM", "RefinedWebModel", n_layer=32, hidden_size=4544, n_head=71,
     multi_query=True), 32 * 2 * 64 * 2, 0, 0),
    ("mpt, multi-query", named("MPTForCausalLM", "mpt", n_layers=32, d_model=4096, n_heads=32,
     attn_config={"attn_type": "multiquery_attention"}), 32 * 2 * 128 * 2, 0, 0),
    ("phi-4-multimodal: a window longer than the context", named("Phi4MMForCausalLM", "phi4mm",
     num_hidden_layers=32, hidden_size=3072, num_attention_heads=24, num_key_value_heads=8,
     sliding_window=262144, max_position_embeddings=131072), 32 * LAYER, 0, 0),
    ("deepseek-ocr, a DeepSeek-V2 without MLA", named("DeepseekOCRForCausalLM", "deepseek_vl_v2",
     language_config={"model_type": "deepseek_v2", "num_hidden_layers": 12, "kv_lora_rank": None,
     "use_mla": False, "v_head_dim": 0, "hidden_size": 1280, "num_attention_heads": 10,
     "num_key_value_heads": 10}), 12 * 2 * 1280 * 2, 0, 0),
    ("qwen3-omni, nested twice", named("Qwen3OmniMoeForConditionalGeneration", "qwen3_omni_moe",
     thinker_config={"model_type": "qwen3_omni_moe_thinker", "text_config": {"head_dim": 128,
     "model_type": "qwen3_omni_moe_text", "num_hidden_layers": 48, "hidden_size": 2048,
     "num_attention_heads": 32, "num_key_value_heads": 4}}), 48 * 2 * 4 * 128 * 2, 0, 0),
    ("hunyuan-a13b", named("HunYuanMoEV1ForCausalLM", "hunyuan_v1_moe", **GQA, num_hidden_layers=32,
     use_cla=False), 32 * LAYER, 0, 0),
    ("grok-1", named("Grok1ModelForCausalLM", "grok-1", **GQA, num_hidden_layers=64), 64 * LAYER, 0, 0),
    ("step-3: one group, heads of 256", named("Step3VLForConditionalGeneration", "step3_vl",
     text_config={"model_type": "step3_text", "num_hidden_layers": 61, "hidden_size": 7168,
     "num_attention_heads": 64, "num_attention_groups": 1, "head_dim": 256}), 61 * 2 * 256 * 2, 0, 0),
    ("step-3.5: windowed layers have other groups", named("Step3p5ForCausalLM", "step3p5", hidden_size=4096,
     num_hidden_layers=4, num_attention_heads=64, num_attention_groups=8, head_dim=128, sliding_window=512,
     layer_types=["full_attention", *["sliding_attention"] * 3],
     attention_other_setting={"num_attention_groups": 4, "head_dim": 64}), LAYER, 3 * LAYER // 4 * 512, 0),
    ("mimo-v2: windowed layers have twice the heads", named("MiMoV2FlashForCausalLM", "mimo_v2_flash",
     num_hidden_layers=2, num_attention_heads=64, num_key_value_heads=4, head_dim=192, v_head_dim=128,
     sliding_window=128, layer_types=["full_attention", "sliding_attention"]),
     4 * (192 + 128) * 2, 8 * (192 + 128) * 2 * 128, 0),
    ("k-exaone", named("ExaoneMoEForCausalLM", "exaone_moe", **GQA, num_hidden_layers=8, sliding_window=128,
     sliding_window_pattern="LLLG"), 2 * LAYER, 6 * LAYER * 128, 0),
    ("llava-1.5 writes only what differs from its class", named("LlavaForConditionalGeneration", "llava",
     text_config={"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 32064}),
     32 * 2 * 4096 * 2, 0, 0),
    ("a shell whose text model names a class only", named("NewShellForConditionalGeneration", "new_shell",
     text_config={"architectures": ["LlamaForCausalLM"], **GQA, "num_hidden_layers": 2}), 2 * LAYER, 0, 0),
    ("a shell that counts the layers itself", named("Qwen2VLForConditionalGeneration", "qwen2_vl", **GQA,
     num_hidden_layers=2, text_config={"model_type": "qwen2_vl_text", "num_key_value_heads": 4}),
     LAYER, 0, 0),
    ("ring-linear: lightning, GQA each 5th layer", named("BailingMoeLinearV2ForCausalLM",
     "bailing_moe_linear", num_hidden_layers=20, layer_group_size=5, num_attention_heads=16, head_dim=128,
     num_key_value_heads=4, hidden_size=2048), 4 * 2 * 4 * 128 * 2, 0, 16 * 16 * 128 * 128 * 4),
    ("ring-2.5: lightning, MLA each 4th", named("BailingMoeV2_5ForCausalLM", "bailing_hybrid", **BAILING,
     **MLA, num_hidden_layers=8), 2 * 1152, 0, 6 * 64 * 128 * 128 * 4),
    ("bailing v3: KDA, a last group that is not whole is MLA", named("BailingMoeV3ForCausalLM",
     "bailing_hybrid", **BAILING, **MLA, num_hidden_layers=10, short_conv_kernel_size=4), 4 * 1152, 0,
     6 * (3 * 8192 * 3 * 2 + 64 * 128 * 128 * 4)),
    ("falcon-mamba-7b: the inner width wins over `expand`", named("FalconMambaForCausalLM", "falcon_mamba",
     num_hidden_layers=64, hidden_size=4096, intermediate_size=8192, expand=16, state_size=16, conv_kernel=4),
     0, 0, 64 * (8192 * 3 * 2 + 8192 * 16 * 4)),
    ("pangu-ultra-moe, its first spelling of MLA", named("PanguUltraMoEForCausalLM", "pangu_ultra_moe",
     num_hidden_layers=61, attention_kv_lora_dim=512, attention_qk_rope_dim=64), 61 * 1152, 0, 0),
    ("gemma 4 without a list: the last layer is global", named("Gemma4ForCausalLM", "gemma4_text",
     num_hidden_layers=8), 2 * 2 * 4 * 512 * 2, 6 * 2 * 4 * 256 * 2 * 512, 0),
    ("sizes of single layers", named("Gemma4ForCausalLM", "gemma4_text", num_hidden_layers=6, head_dim=256,
     num_key_value_heads=16, sliding_window=1024, layer_types=[*["sliding_attention"] * 5, "full_attention"],
     per_layer_config={"05": {"head_dim": 512, "num_key_value_heads": 4}}),
     2 * 4 * 512 * 2, 5 * 2 * 16 * 256 * 2 * 1024, 0),
    ("single layers without attention, with another window", named("LagunaForCausalLM", "laguna", **GQA,
     num_hidden_layers=4, sliding_window=512, layer_types=["sliding_attention"] * 4,
     per_layer_config={"1": {"sliding_window": None}, "2": {"sliding_window": 128},
     "3": {"skip": ["self_attn"]}}), LAYER, LAYER * (512 + 128), 0),
]  # fmt: skip


@pytest.mark.parametrize(
    ("config", "per_token", "per_sequence", "state"),
    [row[1:] for row in (*BARE, *NAMED)],
    ids=[row[0] for row in (*BARE, *NAMED)],
)
def test_bytes_of_a_spelling(
    config: dict[str, Any], per_token: int, per_sequence: int, state: int | None
) -> None:
    found = geometry(config)
    assert found.kv_bytes_per_token(BF16) == per_token
    assert found.kv_bytes_per_sequence(BF16) == per_sequence
    assert found.state_bytes() == state


def test_a_head_that_is_declared_around_the_text_model() -> None:
    text = {"model_type": "glm4v_moe_text", **GQA, "num_hidden_layers": 46}
    found = geometry(
        named("Glm4vMoeForConditionalGeneration", "glm4v_moe", text_config=text, num_mtp_layers=1)
    )
    assert (found.mtp.declared, found.mtp.kv_bytes_per_token(BF16)) == (1, LAYER)
    assert not found.mtp.implied


def test_a_head_whose_weights_are_there_and_that_no_config_declares() -> None:
    config = named("LlamaForCausalLM", "llama", **GQA, num_hidden_layers=2)
    for name, verdict in (
        ("mtp.layers.0.norm.weight", "not declared; its weights are there"),
        ("model.layers.1.mlp.up_proj.weight", "none declared"),
    ):
        assert geometry_of(Checkpoint("model", config, tensors=(name,))).mtp.verdict == verdict


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (named("Gemma4VisionModel", "gemma4_vision", num_hidden_layers=16), "Gemma4VisionModel"),
        (named("MllamaForConditionalGeneration", "mllama", text_config={"model_type": "mllama_text_model"}),
         "MllamaForConditionalGeneration"),
        ({**GQA, "num_hidden_layers": 2, "sliding_window": [1, 2, 3]}, "3 windows are listed for 2 layers"),
        ({**GQA, "num_hidden_layers": 2, "per_layer_config": {"0": {"skip": ["rotor"]}}}, "rotor"),
        ({**GQA, "num_hidden_layers": 2, "per_layer_config": {"first": {}}}, "first"),
        ({**MLA, "num_hidden_layers": 2, "per_layer_config": {"0": {"head_dim": 1}}}, "per_layer_config"),
        ({"num_hidden_layers": 2, "model_type": "llama"}, "num_attention_heads|hidden_size"),
    ],
)  # fmt: skip
def test_what_is_not_known_is_refused_in_words(config: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        geometry(config)


@pytest.mark.parametrize(
    ("config", "kind", "per_token"),
    [
        ({"model_type": "eagle", "model": {**GQA, "model_type": "llama", "num_hidden_layers": 1}}, "eagle",
         LAYER),
        ({**GQA, "architectures": ["LiLiCorrDraftModel"], "block_size": 16, "num_hidden_layers": 5}, "dflash",
         5 * LAYER),
        # heads of 128 by its class, not 2560 / 32
        ({"architectures": ["DFlashDraftModel"], "model_type": "qwen3", "hidden_size": 2560, "block_size": 16,
          "num_attention_heads": 32, "num_key_value_heads": 8, "num_hidden_layers": 5}, "dflash", 5 * LAYER),
        # it reads its target's cache
        (named("Gemma4AssistantForCausalLM", "gemma4_assistant", text_config={"num_hidden_layers": 4}),
         "heads", 0),
    ],
)  # fmt: skip
def test_drafters(config: dict[str, Any], kind: str, per_token: int) -> None:
    found = drafter_of(Checkpoint("draft", config))
    assert (found.kind, found.kv_bytes_per_token(BF16)) == (kind, per_token)


def quark(key: str, value: str) -> dict[str, Any]:
    return {
        "quant_method": "quark",
        "export": {"kv_cache_group": ["*k_proj", "*v_proj"]},
        "layer_quant_config": {
            "*k_proj": {"output_tensors": {"dtype": key}},
            "*v_proj": {"output_tensors": {"dtype": value}},
            "*q_proj": {"output_tensors": None},
        },
    }


@pytest.mark.parametrize(
    ("quant", "name"),
    [
        (quark("fp8_e4m3", "fp8_e4m3"), "fp8_e4m3"),
        (quark("fp8_e4m3", "int8"), None),
        (
            {"quant_method": "quark", "export": {"kv_cache_group": []}, "layer_quant_config": {}},
            "model dtype",
        ),
        ({"quant_method": "modelopt", "kv_cache_quant_algo": "FP8_CAST"}, "fp8_e4m3"),
        ({"quant_method": "modelopt", "kv_cache_quant_algo": "NVFP4_AFFINE"}, "nvfp4"),
        ({"quant_method": "modelopt", "kv_cache_quant_algo": "NONE"}, "model dtype"),
    ],
)
def test_kv_hints(quant: dict[str, Any], name: str | None) -> None:
    assert kv_hint({"quantization_config": quant}).name == name
