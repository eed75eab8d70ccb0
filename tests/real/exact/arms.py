"""Arms on the nano models whose exactness is known: honest ones, and each way of being wrong."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import yaml

import kvantage

NANO = Path(kvantage.__file__).parent / "nano"
WRONG_DRAFTS = Path(__file__).parents[1] / "wrong_drafts"

HONEST: dict[str, dict[str, Any]] = {
    "none": {},
    "ngram": {"speculation": {"method": "ngram", "drafts": 5, "options": {"prompt_lookup_max": 4}}},
    "draft_model": {
        "speculation": {"method": "draft_model", "draft": "package:nano/qwen3-draft", "drafts": 3}
    },
    "dflash": {"speculation": {"method": "dflash", "draft": "package:nano/qwen3-dflash", "drafts": 5}},
}


MENDED = {"PYTHONPATH": str(WRONG_DRAFTS), "KVANTAGE_MEND": "1"}
"""Without a fault of the CPU build at a temperature, see wrong_drafts: for samples that are to be honest."""


def mended(arm: str) -> dict[str, Any]:
    """An honest arm whose samples are honest too."""
    return {**HONEST[arm], "env": MENDED}


def wrong(rate: float, seed: int = 0, sampled: float = 0.0, log: Path | None = None) -> dict[str, Any]:
    """The draft model with a rule that accepts wrong drafts: `rate` for each token of a greedy answer,
    `sampled` for each draft of a sampled one.
    """
    env = {
        **MENDED,
        "KVANTAGE_WRONG_TOKENS": str(rate),
        "KVANTAGE_WRONG_SAMPLED": str(sampled),
        "KVANTAGE_WRONG_SEED": str(seed),
    }
    return {**HONEST["draft_model"], "env": env | ({"KVANTAGE_WRONG_LOG": str(log)} if log else {})}


def dead(folder: Path) -> dict[str, Any]:
    """A draft model that always proposes the same token: its last norm is nought, so no logit stands out."""
    from safetensors.torch import load_file, save_file

    target = folder / "dead-draft"
    if not target.exists():
        shutil.copytree(NANO / "qwen3-draft", target)
        weights = load_file(target / "model.safetensors")
        weights["model.norm.weight"] *= 0
        save_file(weights, target / "model.safetensors", metadata={"format": "pt"})
    return {"speculation": {"method": "draft_model", "draft": str(target), "drafts": 3}}


def silent() -> dict[str, Any]:
    """n-grams of 400 tokens: speculation is on, and never finds one to draft from."""
    options = {"prompt_lookup_min": 400, "prompt_lookup_max": 400}
    return {"speculation": {"method": "ngram", "drafts": 5, "options": options}}


def study(path: Path, arms: dict[str, Any], dtype: str = "bf16", **phase: Any) -> Path:
    """A study file of these arms with the phase `exactness` alone."""
    made = {
        "model": "package:nano/qwen3",
        "engine": {"name": "vllm", "tool_call_parser": "hermes"},
        "common": {
            "dtype": dtype,
            "context_length": 4096,
            "max_running_requests": 4,
            "pool_bytes": "90MiB",
            "eager": True,
        },
        "control": "none",
        "order": "fixed",
        "arms": arms,
        "phases": {"exactness": {"output_tokens": 256, "concurrency": 4, **phase}},
    }
    path.write_text(yaml.safe_dump(made, sort_keys=False))
    return path
