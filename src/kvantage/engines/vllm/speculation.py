"""An arm's speculation in vLLM's words, and what is known of each method."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvantage.core import Speculation, UsageError
from kvantage.engines.spelling import did_you_mean
from kvantage.engines.vllm.checkpoint import located
from kvantage.engines.vllm.dtypes import kv_dtype_name

DROPS_A_BLOCK = frozenset({"eagle", "eagle3", "mtp", "dflash", "dspark"})
"""Methods that read the target's hidden states: vLLM computes the last block of every hit again for them."""

LOSSY = frozenset({"synthetic", "fly"})
"""Values of `rejection_sample_method` under which acceptance or output is not the target's own."""

OPTIONS = frozenset(
    {
        "attention_backend",
        "disable_eagle_block_drop",
        "disable_padded_drafter_batch",
        "draft_load_config",
        "draft_sample_method",
        "draft_tensor_parallel_size",
        "enforce_eager",
        "max_model_len",
        "moe_backend",
        "num_speculative_tokens_per_batch_size",
        "parallel_drafting",
        "prompt_lookup_max",
        "prompt_lookup_min",
        "quantization",
        "rejection_sample_method",
        "synthetic_acceptance_length",
        "synthetic_acceptance_rates",
        "use_heterogeneous_vocab",
        "use_local_argmax_reduction",
    }
)
"""Further fields of `--speculative-config` that an arm may give under `speculation.options`."""


def speculative_config(speculation: Speculation) -> dict[str, Any] | None:
    """The value of `--speculative-config`, or None without speculation.

    Raises UsageError for an option that is not known.
    """
    if not speculation.on:
        return None
    config: dict[str, Any] = {"method": speculation.method, "num_speculative_tokens": speculation.drafts}
    if speculation.draft is not None:
        config["model"] = located(speculation.draft)
    if speculation.draft_revision is not None:
        config["revision"] = speculation.draft_revision
    if speculation.draft_kv_dtype is not None:
        config["kv_cache_dtype"] = kv_dtype_name(speculation.draft_kv_dtype)
    for name, value in speculation.options.items():
        if name not in OPTIONS:
            raise UsageError(f"speculation option `{name}` is not known", hint=did_you_mean(name, OPTIONS))
        config[name] = value
    return config


def simulated_words(config: Mapping[str, Any]) -> str | None:
    """`name=value` under which drafts are accepted by chance or loosely, not verified; else None."""
    names = ("rejection_sample_method", "synthetic_acceptance_rates", "synthetic_acceptance_length")
    for name in names:
        value = config.get(name)
        if value in LOSSY if name == names[0] else value is not None:
            return f"{name}={value}"
    return None
