"""Configs with fields torn out or replaced by nonsense: read, or refused in words, and never a crash."""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvantage.core import Speculation, UsageError
from kvantage.planner.checkpoint import Checkpoint, read_checkpoint
from kvantage.planner.drafts import drafter_kind, drafter_of
from kvantage.planner.geometry import geometry_of
from kvantage.planner.machine import read_machine
from kvantage.planner.page import drafter_alone_json, geometry_json
from kvantage.planner.plan import ArmAsked, Asked, make_plan

from .cases import CONFIGS

WHOLE = [
    json.loads((folder / "config.json").read_text())
    for folder in sorted(CONFIGS.iterdir())
    if folder.is_dir()
]
NONSENSE: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    -1,
    2,
    3.5,
    10**9,
    "x",
    "",
    [],
    [1],
    ["a"],
    {},
    {"a": 1},
    [None],
    "auto",
]
FIELDS = [
    "layer_types",
    "sliding_window",
    "use_sliding_window",
    "kv_lora_rank",
    "index_topk_pattern",
    "block_configs",
    "attn_config",
    "quantization_config",
    "linear_attn_config",
    "hybrid_override_pattern",
    "num_nextn_predict_layers",
    "num_key_value_heads",
    "text_config",
    "architectures",
    "model_type",
    "dflash_config",
    "sliding_window_pattern",
    "index_head_dim",
    "n_routed_experts",
    "per_layer_config",
    "attention_other_setting",
    "interleaved_sliding_window",
    "no_rope_layers",
    "use_mla",
    "model",
    "sliding_windows",
    "num_kv_shared_layers",
    "layer_group_size",
]
MACHINE = read_machine("h200")


def torn(seed: int) -> dict[str, Any]:
    draw = random.Random(seed)
    config = copy.deepcopy(draw.choice(WHOLE))
    for _ in range(draw.randint(1, 4)):
        place = config
        while (
            inner := [key for key in place if isinstance(place[key], dict) and place[key]]
        ) and draw.random() < 0.6:
            place = place[draw.choice(inner)]
        name = draw.choice([*place, *FIELDS])
        if draw.random() < 0.3:
            place.pop(name, None)
        else:
            place[name] = draw.choice(NONSENSE)
    return dict(config)


@settings(max_examples=400, deadline=None)
@given(seed=st.integers(0, 10**9), engine=st.sampled_from(["vllm", "sglang", "llamacpp"]))
def test_a_torn_config_is_read_or_refused(seed: int, engine: str) -> None:
    config, refusal = torn(seed), None
    try:
        if drafter_kind(config):
            drafter_alone_json(drafter_of(Checkpoint("torn", config)))
            return
        found = geometry_of(Checkpoint("torn", config))
        json.dumps(geometry_json(found, 2))
        make_plan(Asked(found, engine, [ArmAsked("none"), ArmAsked("mtp", Speculation("mtp", 3))], MACHINE))
    except UsageError as error:
        refusal = str(error)
    assert refusal is None or len(refusal) > 10


def test_a_gguf_file_is_refused_in_a_sentence(tmp_path: Path) -> None:
    file = tmp_path / "model-q4.gguf"
    file.write_bytes(b"GGUF\x03")
    with pytest.raises(UsageError, match=r"model-q4\.gguf` is a GGUF file"):
        read_checkpoint(str(file))
