"""Which architectures we know, and what each means where its config leaves something out.

The defaults are those of the public configuration classes (transformers 5.24); a config's own word always
wins. An architecture that is not here is refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from kvantage.core import UsageError
from kvantage.planner.fields import NESTED, text_config

Windows = Literal["none", "all", "tail", "period", "listed"]
Recurrent = Literal["none", "kda", "own_kda", "delta", "mamba1", "mamba2", "lightning", "lru", "conv"]


@dataclass(frozen=True)
class Family:
    """How an architecture reads its config.

    windows   which layers are windowed where no list says so: none, all, those from `max_window_layers` on
              (`tail`), all but each `period`-th, or none without a list (`listed`)
    flagged   a window counts only where `use_sliding_window` is true
    latent    MLA; `sparse` adds DSA's FP8 layout with scales
    recurrent what its recurrent layers keep; `every` puts full attention in each `every`-th layer where no
              list says so
    doubled   each layer counted holds two attentions (LongCat)
    """

    name: str
    windows: Windows = "none"
    period: int = 0
    flagged: bool = False
    latent: bool = False
    sparse: bool = False
    recurrent: Recurrent = "none"
    every: int = 0
    parallel: bool = False
    doubled: bool = False
    mtp: int = 0
    defaults: Mapping[str, Any] = field(default_factory=dict)


UNNAMED = Family("a config that names no architecture")

_PLAIN = [
    "llama",
    "qwen",
    "qwen2_vl",
    "qwen2_5_vl",
    "qwen3_vl",
    "qwen3_vl_moe",
    "yi",
    "aquila",
    "baichuan",
    "internlm",
    "internlm2",
    "internlm3",
    "olmo",
    "olmo2",
    "olmoe",
    "flex_olmo",
    "granite",
    "granitemoe",
    "granitemoeshared",
    "stablelm",
    "gpt_neox",
    "gptj",
    "codegen",
    "opt",
    "bloom",
    "mpt",
    "cohere",
    "seed_oss",
    "nemotron",
    "phi",
    "arcee",
    "apertus",
    "helium",
    "persimmon",
    "starcoder2_moe",
    "xverse",
    "minicpm",
    "deepseek",
    "ernie4_5",
    "ernie4_5_moe",
    "hunyuan_v1_dense",
    "hunyuan_v1_moe",
    "hunyuan",
    "dots1",
    "glm4_moe",
    "glm4v_moe",
    "hy_v3",
    "solar_open",
    "solar",
    "jais",
    "jais2",
    "chatglm",
    "gpt2",
    "exaone",
    "iquestcoder",
    "nanochat",
    "command_r",
    "mimo",
    "minimax_m2",
    "bailing_moe",
    "bailing_moe_v2",
    "grok1",
    "arctic",
    "dbrx",
    "smollm",
    "nemotron_nas",
    "decilm",
    "orion",
    "hyperclovax",
    "telechat",
    "teleflm",
    "step1",
    "sarvam_moe",
    "param2moe",
    "minicpmv",
    "molmo",
    "dots_ocr",
    "keye",
]

_FAMILIES = [
    *(Family(name) for name in _PLAIN),
    Family("gpt_bigcode", defaults={"num_key_value_heads": 1}),
    Family("falcon"),
    Family("gemma", defaults={"head_dim": 256}),
    Family("qwen2", windows="tail", flagged=True, defaults={"max_window_layers": 28}),
    Family("qwen2_moe", windows="tail", flagged=True, defaults={"max_window_layers": 28}),
    Family("qwen3", windows="tail", flagged=True, defaults={"max_window_layers": 28, "head_dim": 128}),
    Family("qwen3_moe", windows="tail", flagged=True, defaults={"max_window_layers": 28}),
    Family("smollm3", windows="tail", flagged=True, defaults={"max_window_layers": 28}),
    Family("glm", defaults={"num_key_value_heads": 2, "head_dim": 128}),
    Family("glm4", defaults={"num_key_value_heads": 2, "head_dim": 128}),
    Family("glm4v", defaults={"num_key_value_heads": 2}),
    Family("mistral", windows="all", defaults={"num_key_value_heads": 8}),
    Family("mixtral", windows="all", defaults={"num_key_value_heads": 8}),
    Family("ministral", windows="all", defaults={"num_key_value_heads": 8}),
    Family("ministral3", windows="all", defaults={"num_key_value_heads": 8, "head_dim": 128}),
    Family("phi3", windows="all"),
    Family("phi4_multimodal", windows="all"),
    Family("phimoe", windows="all", defaults={"num_key_value_heads": 8}),
    Family("starcoder2", windows="all", defaults={"num_key_value_heads": 2}),
    Family(
        "gemma2",
        windows="period",
        period=2,
        defaults={
            "num_attention_heads": 8,
            "num_key_value_heads": 4,
            "head_dim": 256,
            "sliding_window": 4096,
        },
    ),
    Family("vaultgemma", windows="period", period=2, defaults={"head_dim": 256, "sliding_window": 4096}),
    Family(
        "gemma3",
        windows="period",
        period=6,
        defaults={
            "num_attention_heads": 8,
            "num_key_value_heads": 4,
            "head_dim": 256,
            "sliding_window": 4096,
        },
    ),
    Family(
        "gemma3n",
        windows="period",
        period=5,
        defaults={
            "num_attention_heads": 8,
            "num_key_value_heads": 2,
            "head_dim": 256,
            "sliding_window": 512,
            "num_kv_shared_layers": 15,
        },
    ),
    Family(
        "gemma4",
        windows="period",
        period=6,
        defaults={
            "num_attention_heads": 8,
            "num_key_value_heads": 4,
            "head_dim": 256,
            "global_head_dim": 512,
            "sliding_window": 512,
        },
    ),
    Family(
        "gpt_oss",
        windows="period",
        period=2,
        defaults={"num_key_value_heads": 8, "head_dim": 64, "sliding_window": 128},
    ),
    Family("cohere2", windows="period", period=4, defaults={"sliding_window": 4096}),
    Family("olmo3", windows="period", period=4, defaults={"sliding_window": 4096}),
    Family("exaone4", windows="period", period=4),
    Family("exaone_moe", windows="period", period=4),
    Family("llama4", defaults={"num_key_value_heads": 8, "head_dim": 128, "attention_chunk_size": 8192}),
    Family("afmoe", windows="period", period=4, defaults={"head_dim": 128}),
    Family(
        "laguna",
        windows="listed",
        defaults={"num_key_value_heads": 8, "head_dim": 128, "sliding_window": 512},
    ),
    Family("mimo_v2_flash", windows="listed"),
    Family("mimo_v2", windows="listed"),
    Family("step3p5", windows="listed"),
    Family("step3p7", windows="listed"),
    Family("granite_swa", windows="listed"),
    Family("granitemoe_swa", windows="listed"),
    Family("pangu_embedded", windows="listed"),
    Family("step3_text", defaults={"num_key_value_heads": 1, "head_dim": 256}),
    Family("deepseek_v2", latent=True),
    Family("deepseek_v3", latent=True),
    Family("kimi_k2", latent=True),
    Family("kimi_k25", latent=True),
    Family("glm4_moe_lite", latent=True),
    Family("mistral4", latent=True),
    Family("sarvam_mla", latent=True),
    Family("axk1", latent=True),
    Family("longcat_flash", latent=True, doubled=True),
    Family("pangu_ultra_moe", latent=True),
    Family("deepseek_v32", latent=True, sparse=True),
    Family("glm_moe_dsa", latent=True, sparse=True),
    Family(
        "glm5_next",
        latent=True,
        sparse=True,
        recurrent="kda",
        every=4,
        defaults={"index_kpool": 16},
    ),
    Family("kimi_linear", latent=True, recurrent="kda"),
    Family("kimi_k3", latent=True, recurrent="kda"),
    Family("bailing_hybrid", latent=True, recurrent="own_kda"),
    Family("bailing_moe_linear", recurrent="lightning"),
    Family("qwen3_next", recurrent="delta", every=4, mtp=1),
    Family("qwen3_5", recurrent="delta", every=4),
    Family("qwen3_5_moe", recurrent="delta", every=4),
    Family("olmo_hybrid", recurrent="delta", every=4),
    Family("nemotron_h", recurrent="mamba2", defaults={"num_key_value_heads": 8, "head_dim": 128}),
    Family("bamba", recurrent="mamba2", defaults={"num_key_value_heads": 8}),
    Family("granitemoehybrid", recurrent="mamba2"),
    Family("falcon_h1", recurrent="mamba2", parallel=True, defaults={"num_key_value_heads": 8}),
    Family("zamba2", recurrent="mamba2"),
    Family("jamba", recurrent="mamba1", defaults={"num_key_value_heads": 8}),
    Family("mamba", recurrent="mamba1"),
    Family("falcon_mamba", recurrent="mamba1"),
    Family("mamba2", recurrent="mamba2"),
    Family("minimax", recurrent="lightning", defaults={"num_key_value_heads": 8}),
    Family("minimax_text_01", recurrent="lightning"),
    Family("minimax_m1", recurrent="lightning"),
    Family("recurrent_gemma", recurrent="lru"),
    Family("lfm2", recurrent="conv", defaults={"num_key_value_heads": 8}),
    Family("lfm2_moe", recurrent="conv", defaults={"num_key_value_heads": 8}),
    Family(
        "lfm3", recurrent="conv", defaults={"num_key_value_heads": 4, "head_dim": 128, "sliding_window": 256}
    ),
]


_SHELL = {"num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32}


def _key(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


_BY_KEY = {_key(family.name): family for family in _FAMILIES}
_BY_KEY |= {
    _key(alias): _BY_KEY[_key(name)]
    for alias, name in {
        "refinedweb": "falcon",
        "RefinedWebModel": "falcon",
        "rw": "falcon",
        "starcoder": "gpt_bigcode",
        "phi_msft": "phi",
        "qwen2_5": "qwen2",
        "glm46v": "glm4v_moe",
        "minimax_text": "minimax_text_01",
        "glm_4_moe": "glm4_moe",
        "deepseek_v3_2": "deepseek_v32",
        "ernie4_5_vl_moe": "ernie4_5_moe",
        "nemotron_h_omni": "nemotron_h",
        "nemotronh_puzzle": "nemotron_h",
        "gemma4_unified": "gemma4",
        "hunyuan_moe": "hunyuan_v1_moe",
        "cohere2_moe": "cohere2",
        "grok": "grok1",
        "gptneox": "gpt_neox",
        "Grok1Model": "grok1",
        "gpt_sw3": "gpt2",
        "HunYuanMoEV1": "hunyuan_v1_moe",
        "HunYuanDenseV1": "hunyuan_v1_dense",
        "stablelm_epoch": "stablelm",
        "QuantMixtral": "mixtral",
        "Fairseq2Llama": "llama",
        "phi4mm": "phi4_multimodal",
        "phi3v": "phi3",
        "qwen2_5_omni": "qwen2",
        "qwen3_omni_moe": "qwen3_moe",
        "deci": "decilm",
        "telechat2": "telechat",
        "telechat3": "telechat",
        "MistralLarge3": "deepseek_v3",
        "longcat_flash_ngram": "longcat_flash",
        "BailingMoeV2_5": "bailing_hybrid",
        "BailingMoeV3": "bailing_hybrid",
        "BailingMoeLinearV2": "bailing_moe_linear",
        "sarvam_mla_moe": "sarvam_mla",
        "minicpmo": "minicpmv",
        "keye_vl1_5": "keye",
        "step3": "step3_text",
    }.items()
}

# A multimodal shell is known by the language model inside it; named alone it says nothing of the geometry.
_SUFFIX = re.compile(
    r"(?:For(?:Causal|ConditionalGeneration|SequenceClassification|TokenClassification|Vision|Reward|Process).*"
    r"|LMHead.*|LLMModel|Model|Text)$"
)


def find_family(config: Mapping[str, Any], where: str) -> Family:
    """The family of a config, by its text model's `model_type`, its own, or its `architectures`.

    A config that names none of them is read by its fields. Raises UsageError that names an unknown one.
    """
    inner = text_config(config)
    types = [str(c["model_type"]) for c in (inner, config) if isinstance(c.get("model_type"), str)]
    named = config.get("architectures") or inner.get("architectures") or []
    architectures = [str(name) for name in named] if isinstance(named, list) else [str(named)]
    by_type = next((found for name in types if (found := _lookup(name))), None)
    by_name = next((found for name in architectures if (found := _by_architecture(name))), None)
    if not by_type and not isinstance(inner.get("model_type"), str):  # a shell over a class name
        named = inner.get("architectures")
        for name in named if isinstance(named, list) else []:
            by_type = by_type or _by_architecture(str(name))
    nested = any(isinstance(config.get(name), Mapping) for name in NESTED)
    if by_type and (by_name or nested or not architectures):
        return by_type
    if by_name and not types:
        return by_name
    if not types and not architectures:
        return UNNAMED
    name = (architectures or types)[0]
    kind = f" (model_type `{types[0]}`)" if architectures and types else ""
    raise UsageError(
        f"the architecture `{name}`{kind} is not known to the planner, and its cache is not guessed",
        where=where,
        hint="Known: docs/planner.md. `kvantage run` measures what the planner cannot predict.",
    )


def known() -> list[str]:
    """The names of all architectures that the planner reads, in alphabetical order."""
    return sorted(family.name for family in _FAMILIES)


def head_defaults(config: Mapping[str, Any]) -> dict[str, Any]:
    """The head size that a drafter's `model_type` implies where its config leaves it out."""
    named = config.get("model_type")
    family = _lookup(named) if isinstance(named, str) else None
    return {name: value for name, value in (family or UNNAMED).defaults.items() if name == "head_dim"}


def shell_defaults(family: Family) -> dict[str, int]:
    """What a text model nested in a multimodal shell leaves out: such files write only what differs."""
    return dict(_SHELL) if family.name in ("llama", "mistral", "mixtral", "qwen2", "qwen3") else {}


def _by_architecture(name: str) -> Family | None:
    return _lookup(_SUFFIX.sub("", name))


def _lookup(name: str) -> Family | None:
    key = _key(name)
    if key in _BY_KEY:
        return _BY_KEY[key]
    for suffix in ("text", "vl", "vlmoe", "omni", "llm"):
        if key.endswith(suffix) and key.removesuffix(suffix) in _BY_KEY:
            return _BY_KEY[key.removesuffix(suffix)]
    return None
