"""Bytes a token, a sequence and a state, against published figures and the shared cases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvantage.core import UsageError
from kvantage.planner.attention import head_dim, own_indexers
from kvantage.planner.checkpoint import Checkpoint, read_checkpoint
from kvantage.planner.drafts import block_size, drafter_kind, drafter_of
from kvantage.planner.dtypes import kv_dtype
from kvantage.planner.fields import Fields
from kvantage.planner.geometry import describe, geometry_of
from kvantage.planner.hints import kv_hint
from kvantage.planner.layers import Heads, Indexer, Latent
from kvantage.planner.mtp import has_mtp_weights

from .cases import CONFIGS, case, config, geometry, model

BF16, FP8 = kv_dtype("bf16"), kv_dtype("fp8_e4m3")
LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "num_hidden_layers": 2,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "torch_dtype": "bfloat16",
}


@pytest.mark.parametrize(
    ("name", "per_token", "per_sequence", "state"),
    [
        ("llama-3.1-8b", 131072, 0, 0),
        ("llama-3.1-70b", 327680, 0, 0),
        ("qwen3-8b", 147456, 0, 0),
        ("qwen3-30b-a3b", 98304, 0, 0),
        ("gemma-2-9b", 21 * 8192, 21 * 8192 * 4096, 0),
        ("gemma-3-4b", 5 * 4096, 29 * 4096 * 1024, 0),
        ("gemma-3-270m", 3 * 1024, 15 * 1024 * 512, 0),
        ("gpt-oss-120b", 18 * 2048, 18 * 2048 * 128, 0),
        ("mistral-7b-v0.1", 0, 131072 * 4096, 0),
        ("llama-4-scout", 12 * 4096, 36 * 4096 * 8192, 0),
        ("deepseek-v3", 61 * 1152, 0, 0),
        ("deepseek-v3.2", 78324, 0, 0),
        ("glm-5", 100152, 0, 0),
        ("glm-5.2", 92628, 0, 0),
        ("glm-5.3-flash", 11627, 0, 34 * (3 * 8192 * 3 * 2 + 64 * 128 * 128 * 4)),
        ("kimi-linear-48b", 7 * 1152, 0, 20 * (3 * 4096 * 3 * 2 + 32 * 128 * 128 * 4)),
        ("kimi-k3", 27648, 0, None),
        ("qwen3-next-80b-a3b", 12 * 2048, 0, 36 * (8192 * 3 * 2 + 32 * 128 * 128 * 4)),
        ("qwen3.5-9b", 8 * 4096, 0, 24 * (8192 * 3 * 2 + 32 * 128 * 128 * 4)),
        ("nemotron-h-4b", 4 * 4096, 0, 24 * ((7168 + 2 * 8 * 128) * 3 * 2 + 7168 * 128 * 4)),
        ("jamba-v0.1", 4 * 4096, 0, 28 * (8192 * 3 * 2 + 8192 * 16 * 4)),
        ("lfm2-1.2b", 6 * 2048, 0, 10 * 2048 * 2 * 2),
        ("minimax-text-01", 10 * 4096, 0, 70 * 64 * 128 * 128 * 4),
    ],
)
def test_bytes_of_public_models(name: str, per_token: int, per_sequence: int, state: int | None) -> None:
    found = model(name)
    assert found.kv_bytes_per_token(BF16) == per_token
    assert found.kv_bytes_per_sequence(BF16) == per_sequence
    assert found.state_bytes() == state


@pytest.mark.parametrize(
    ("name", "bf16", "scaled", "raw"),
    [
        ("deepseek-v3.2", (78324, 1284), (48068, 788), None),
        ("glm-5", (100152, 1284), (61464, 788), 55224),
        ("glm-5.2", (92628, 1284), (53940, 788), 47700),
        ("glm-5.3-flash", (11627, 1057), (6171, 561), 5995),
    ],
)
def test_sparse_attention_with_its_indexer_and_scales(
    name: str, bf16: tuple[int, int], scaled: tuple[int, int], raw: int | None
) -> None:
    found = model(name)
    for tp in (1, 2, 8):  # a latent is not divided over ranks
        assert (found.kv_bytes_per_token(BF16, tp), found.mtp.kv_bytes_per_token(BF16, tp)) == bf16
        assert (found.kv_bytes_per_token(FP8, tp), found.mtp.kv_bytes_per_token(FP8, tp)) == scaled
    if raw:
        assert found.kv_bytes_per_token(FP8, scaled=False) == raw


def test_state_is_divided_over_ranks() -> None:
    found = model("glm-5.3-flash")
    sizes = [round((found.state_bytes(tp) or 0) / 2**20, 2) for tp in (1, 2, 4, 8)]
    assert sizes == [140.78, 70.39, 35.2, 17.6]


def test_mamba_groups_are_repeated_where_ranks_outnumber_them() -> None:
    layer = model("nemotron-h-4b").state_layers[0].state
    assert layer is not None
    assert layer.numbers(8)[0] == (7168 * 3) // 8 + 2 * 1 * 128 * 3
    assert layer.numbers(16)[0] == (7168 * 3) // 16 + 2 * 1 * 128 * 3


def test_case_glm53_flash() -> None:
    row = case("cfg-glm53-flash")
    found, want = geometry(row["input"]), row["expected"]
    assert len(found.attention_layers) == want["kv_layers"]
    assert found.kv_bytes_per_token(FP8) == want["kv_bytes_per_token_fp8"]
    assert found.kv_bytes_per_token(BF16) == want["kv_bytes_per_token_bf16"]
    assert len(found.mtp.layers) == want["mtp_arm_extra_layers"]
    mtp = found.mtp.kv_bytes_per_token(FP8)
    assert mtp == want["mtp_kv_bytes_per_token_fp8"]
    assert round(mtp / found.kv_bytes_per_token(FP8), 4) == want["mtp_kv_overhead"]
    assert found.state_bytes() is None
    assert found.indexer_bytes_per_token() == 0
    assert any("indexer" in note for note in found.notes)


def test_case_kimi_k3_lists_are_counted_from_one() -> None:
    row = case("cfg-kimi-k3-lists")
    want = row["expected"]
    full = [*range(4, 93, 4), 93]
    assert len(full) == 24
    text = dict(row["input"]["text_config"])
    text["linear_attn_config"] = {
        "full_attn_layers": full,
        "kda_layers": [i for i in range(1, 94) if i not in full],
    }
    found = geometry({"text_config": text})
    assert len(found.attention_layers) == want["kv_layers"]
    assert found.kv_bytes_per_token(BF16) == want["kv_bytes_per_token_bf16"]
    assert want["naive"] == 93 * 1152


def test_case_head_dim_declared_wins() -> None:
    row = case("cfg-head-dim-declared")
    want = row["expected"]
    declared = head_dim(Fields(row["input"], {}, ""))
    derived = head_dim(Fields({k: v for k, v in row["input"].items() if k != "head_dim"}, {}, ""))
    assert derived == want["derived_head_dim"]
    assert row["input"]["kv_bytes_with_derived"] * declared // derived == want["kv_bytes"]
    assert 1 - derived / declared == want["undercount"]


def test_case_sliding_window_that_is_switched_off() -> None:
    row = case("cfg-sliding-disabled")
    found, want = geometry(row["input"]), row["expected"]
    assert found.kv_bytes_per_token(BF16) == want["kv_bytes_per_token"]
    assert found.layer_counts()["windowed"] == want["sliding_layers"]
    assert head_dim(found.fields) == want["head_dim"]


def test_sliding_window_that_is_on_begins_at_max_window_layers() -> None:
    fields = dict(case("cfg-sliding-disabled")["input"], use_sliding_window=True)
    found = geometry(fields)
    assert found.layer_counts() == {"full": 21, "windowed": 3, "recurrent": 0, "neither": 0}
    assert found.kv_bytes_per_sequence(BF16) == 3 * 4096 * 32768


def test_case_mtp_declared_and_not_in_the_index(tmp_path: Path) -> None:
    row = case("cfg-mtp-declared-not-present")
    want = row["expected"]
    body = dict(model("mtp-left-out").fields.values, **row["input"]["config"])
    (tmp_path / "config.json").write_text(json.dumps(body))
    (tmp_path / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": {f"model.layers.{i}.mlp.gate.weight": "a.safetensors" for i in range(92)}})
    )
    (tmp_path / row["input"]["files"][0]).write_bytes(b"")
    found = geometry_of(read_checkpoint(str(tmp_path))).mtp
    assert (found.declared > 0) is want["mtp_declared"]
    assert found.in_index is want["mtp_weights_in_index"]
    assert found.verdict == want["verdict"]


@pytest.mark.parametrize(
    "name",
    ["model.layers.92.eh_proj.weight", "mtp.layers.0.input_layernorm.weight", "model.mtp.0.norm.weight"],
)
def test_mtp_that_is_in_the_index(tmp_path: Path, name: str) -> None:
    (tmp_path / "config.json").write_text(json.dumps(dict(model("mtp-left-out").fields.values)))
    (tmp_path / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": {name: "a.safetensors"}})
    )
    found = geometry_of(read_checkpoint(str(tmp_path))).mtp
    assert found.in_index is True
    assert found.verdict == "available"


def test_mtp_names_are_read_from_a_single_safetensors_file(tmp_path: Path) -> None:
    header = json.dumps({"__metadata__": {}, "model.layers.92.eh_proj.weight": {}}).encode()
    (tmp_path / "config.json").write_text(json.dumps(dict(model("mtp-left-out").fields.values)))
    (tmp_path / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + b"0" * 64)
    found = geometry_of(read_checkpoint(str(tmp_path)))
    assert found.mtp.in_index is True
    assert found.weights_bytes == 8 + len(header) + 64


def test_case_kv_cache_scheme() -> None:
    row = case("cfg-kv-cache-scheme")
    for fields, want in zip(row["input"], row["expected"], strict=True):
        hint = kv_hint(fields)
        assert hint.name == want["kv_hint"]
        assert hint.bytes() == want["bytes"]


@pytest.mark.parametrize(
    ("quant", "name"),
    [
        ({"quant_method": "fp8", "kv_cache_scheme": "static"}, "fp8_e4m3"),
        ({"quant_method": "modelopt", "kv_cache_quant_algo": "FP8"}, "fp8_e4m3"),
        ({"quant_method": "modelopt", "quantization": {"kv_cache_quant_algo": "NVFP4"}}, "nvfp4"),
        ({"kv_cache_scheme": {"num_bits": 4, "type": "float"}}, "nvfp4"),
        ({"kv_cache_quant_config": {"*k_proj": {"output_tensors": {"dtype": "fp8_e4m3"}}}}, "fp8_e4m3"),
        ({"quant_method": "x", "kv_cache_scheme": {"num_bits": 3, "type": "int"}}, None),
        ({"quant_method": "awq", "bits": 4}, "model dtype"),
    ],
)
def test_kv_hints_in_other_spellings(quant: dict[str, Any], name: str | None) -> None:
    assert kv_hint({"quantization_config": quant}).name == name


def test_the_hinted_dtype_is_the_models_own_and_comes_first() -> None:
    hinted = dict(LLAMA, quantization_config={"kv_cache_scheme": {"num_bits": 8, "type": "float"}})
    entries = describe(geometry(hinted))
    assert [entry["kv_dtype"] for entry in entries][:2] == ["fp8_e4m3", "bf16"]
    assert entries[0]["kv_bytes_per_token"] == 2 * 2 * 16 * 2


def test_case_dflash_drafters() -> None:
    row = case("cfg-dflash-drafter")
    for fields, want in zip(row["input"], row["expected"], strict=True):
        found = drafter_of(Checkpoint("draft", fields))
        assert found.kind == "dflash"
        assert found.block_size == want["block_size"]
        assert found.max_drafts == want["max_drafts"]
        assert found.max_accept_len == want["max_accept_len"]
        assert found.kv_bytes_per_token(BF16) == want["draft_kv_bytes_per_token_bf16"]
        assert found.kv_bytes_per_token(FP8) == want["draft_kv_bytes_per_token_fp8"]


def test_dflash2_heads_are_split_over_ranks_and_then_repeated() -> None:
    found = drafter_of(config("glm-5.3-flash-dflash2"))
    assert [found.kv_bytes_per_token(BF16, tp) for tp in (1, 2, 4, 8, 16)] == [32768, 16384, 8192, 4096, 4096]


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"architectures": ["LlamaForCausalLMEagle3"]}, "eagle"),
        ({"speculators_model_type": "eagle3"}, "eagle"),
        ({"architectures": ["DSparkDraftModel"], "dspark_block_size": 7}, "dflash"),
        ({"model_type": "medusa"}, "heads"),
        (LLAMA, None),
    ],
)
def test_kinds_of_drafters(fields: dict[str, Any], kind: str | None) -> None:
    assert drafter_kind(fields) == kind


def test_a_speculators_config_nests_its_layers() -> None:
    found = drafter_of(
        Checkpoint(
            "draft",
            {
                "architectures": ["Eagle3Speculator"],
                "speculators_model_type": "eagle3",
                "transformer_layer_config": {
                    "num_hidden_layers": 1,
                    "num_key_value_heads": 8,
                    "head_dim": 128,
                },
            },
        )
    )
    assert found.kv_bytes_per_token(BF16) == 4096


def test_block_sizes_that_disagree_are_refused() -> None:
    with pytest.raises(UsageError, match=r"\[8, 16\]"):
        block_size({"block_size": 16, "dflash_config": {"block_size": 8}})
    with pytest.raises(UsageError, match="block_size"):
        block_size({"dflash_config": {}})
    assert block_size({"dspark_block_size": 7}) == 8


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"architectures": ["FooBarForCausalLM"], "model_type": "foobar"}, "FooBarForCausalLM"),
        ({"architectures": ["FooBarForCausalLM"]}, "FooBarForCausalLM"),
        ({"architectures": None, "model_type": "foobar"}, "foobar"),
        ({"num_hidden_layers": None}, "num_hidden_layers"),
        ({"layer_types": ["full_attention", "quantum_attention"]}, "quantum_attention"),
        ({"layer_types": ["full_attention"]}, "1 layer types for 2 layers"),
        ({"layer_types": ["full_attention", "sliding_attention"]}, "sliding_window"),
        ({"num_hidden_layers": "two"}, "num_hidden_layers"),
        ({"kv_lora_rank": 512}, "kv_lora_rank"),
        ({"is_encoder_decoder": True}, "encoder-decoder"),
        ({"torch_dtype": "float13"}, "float13"),
    ],
)
def test_the_unknown_is_refused_by_name(change: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        geometry({**LLAMA, **change})


def test_a_missing_rotary_part_is_refused_and_zero_is_not() -> None:
    bare = {"num_hidden_layers": 2, "kv_lora_rank": 512}
    with pytest.raises(UsageError, match="qk_rope_head_dim"):
        geometry(bare)
    assert geometry(dict(bare, qk_rope_head_dim=0)).kv_bytes_per_token(BF16) == 2 * 1024


def test_a_windowed_config_without_an_architecture_is_not_guessed() -> None:
    with pytest.raises(UsageError, match="sliding_window"):
        geometry({"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "sliding_window": 32})


def test_layers_that_share_keys_keep_none() -> None:
    found = geometry(
        {
            "model_type": "gemma3n_text",
            "num_hidden_layers": 10,
            "num_kv_shared_layers": 5,
            "hidden_size": 64,
            "sliding_window": 512,
            "torch_dtype": "bfloat16",
        }
    )
    assert found.layer_counts() == {"full": 1, "windowed": 4, "recurrent": 0, "neither": 5}


def test_shared_indexers_are_counted_once() -> None:
    fields = Fields({"index_topk_freq": 4, "index_skip_topk_offset": 3}, {}, "")
    assert sum(own_indexers(fields, 78)) == 21
    assert own_indexers(Fields({"index_topk_pattern": "FSSF"}, {}, ""), 4) == [True, False, False, True]
    assert own_indexers(Fields({"indexer_types": ["full", "shared"]}, {}, ""), 2) == [True, False]


@pytest.mark.parametrize(
    "fields",
    [
        {"layers_block_type": ["mamba", "attention", "mamba", "mamba"]},
        {"layer_types": ["linear_attention", "full_attention", "linear_attention", "linear_attention"]},
        {"hybrid_override_pattern": "M*MM", "num_hidden_layers": None},
        {"attn_layer_indices": [1]},
        {"attn_layer_period": 4, "attn_layer_offset": 1},
    ],
)
def test_one_hybrid_in_every_spelling(fields: dict[str, Any]) -> None:
    mamba = {
        "mamba_n_heads": 4,
        "mamba_d_head": 16,
        "mamba_d_state": 8,
        "mamba_d_conv": 4,
        "mamba_n_groups": 1,
    }
    found = geometry({**LLAMA, **mamba, "model_type": "bamba", "architectures": ["BambaForCausalLM"],
                      "num_hidden_layers": 4, **fields})  # fmt: skip
    assert found.layer_counts()["recurrent"] == 3
    assert found.kv_bytes_per_token(BF16) == 2 * 16 * 2 * 2
    assert found.state_bytes() == 3 * ((64 + 16) * 3 * 2 + 64 * 8 * 4)


def test_every_fixture_is_read_from_its_folder() -> None:
    for folder in sorted(path for path in CONFIGS.iterdir() if path.is_dir()):
        checkpoint = read_checkpoint(str(folder))
        kind = drafter_kind(checkpoint.config)
        total = (drafter_of(checkpoint) if kind else geometry_of(checkpoint)).kv_bytes_per_token(BF16)
        assert total > 0 or folder.name == "mistral-7b-v0.1"


@given(
    heads=st.integers(1, 128),
    dim=st.integers(1, 512),
    layers=st.integers(1, 20),
    tp=st.sampled_from([1, 2, 4, 8, 16]),
)
def test_heads_are_never_split_below_one(heads: int, dim: int, layers: int, tp: int) -> None:
    one = Heads(heads, dim, dim)
    assert one.elements(tp) >= 2 * dim
    assert one.elements(tp) * tp <= max(one.elements(), 2 * dim * tp)
    if heads % tp == 0:
        assert one.elements(tp) * tp == one.elements()
    assert one.token_bytes(BF16, tp) == 2 * one.token_bytes(FP8, tp)


@given(rank=st.sampled_from([128, 256, 512]), rope=st.integers(0, 128), pool=st.integers(1, 16))
def test_a_latent_is_bounded_by_its_raw_and_its_16_bit_form(rank: int, rope: int, pool: int) -> None:
    latent = Latent(rank, rope, sparse=True, indexer=Indexer(128, pool))
    raw, scaled = latent.token_bytes(FP8, scaled=False), latent.token_bytes(FP8)
    assert raw < scaled < latent.token_bytes(BF16)
    assert (latent.indexer or Indexer(1)).token_bytes() * pool >= 132


@given(
    length=st.integers(1, 100_000),
    window=st.integers(1, 10_000),
    full=st.integers(0, 6),
    slid=st.integers(0, 6),
)
def test_a_sequence_holds_no_more_than_its_windows(length: int, window: int, full: int, slid: int) -> None:
    kinds = ["full_attention"] * full + ["sliding_attention"] * slid
    if not kinds:
        return
    found = geometry(
        {**LLAMA, "layer_types": kinds, "num_hidden_layers": len(kinds), "sliding_window": window}
    )
    at = found.kv_bytes_at(length, BF16)
    assert at <= found.kv_bytes_per_token(BF16) * length + found.kv_bytes_per_sequence(BF16)
    if length >= window:
        assert at == found.kv_bytes_per_token(BF16) * length + found.kv_bytes_per_sequence(BF16)


def test_a_dspark_block_counts_drafts_only() -> None:
    found = drafter_of(
        Checkpoint(
            "draft",
            {
                "architectures": ["DSparkDraftModel"],
                "num_hidden_layers": 5,
                "num_key_value_heads": 8,
                "head_dim": 128,
                "block_size": 7,
            },
        )
    )
    assert (found.block_size, found.max_drafts) == (8, 7)


def test_a_head_that_the_config_does_not_declare_is_implied() -> None:
    assert model("qwen3-next-80b-a3b").mtp.implied
    names = ["model.visual.blocks.99.attn.weight", "audio_tower.layers.99.fc.weight", "model.layers.3.x"]
    assert not has_mtp_weights(names, 48)
    assert has_mtp_weights([*names, "model.language_model.layers.48.eh_proj.weight"], 48)
