"""Why an arm cannot be started here, known before anything is."""

from __future__ import annotations

import json
from typing import Any

from kvantage.core import ArmSettings, HostFacts, UsageError
from kvantage.engines.simulated import INSTEAD, allowed
from kvantage.engines.vllm.build import Build, build_of
from kvantage.engines.vllm.checkpoint import Checkpoint, checkpoint, folder_problem
from kvantage.engines.vllm.command import command
from kvantage.engines.vllm.dtypes import dtype_name, is_fp8
from kvantage.engines.vllm.flags import meaning
from kvantage.engines.vllm.speculation import simulated_words

CPU_PAGE_MULTIPLE = 32


def problems(arm: ArmSettings, host: HostFacts) -> list[str]:
    """Each with what would work; empty when nothing is known to be in the way."""
    found = [
        problem
        for name, what in ((arm.model, "model"), (arm.speculation.draft, "speculation.draft"))
        if (problem := folder_problem(name, what))
    ]
    try:
        command(arm, host, port=1024)
        build = build_of(arm)
    except UsageError as error:
        return [*found, f"{error.message}{f' ({error.hint})' if error.hint else ''}"]
    target, draft = checkpoint(arm.model), checkpoint(arm.speculation.draft)
    found += draft_problems(arm, target, draft)
    found += kv_problems(arm, build)
    found += simulation_problems(arm)
    if build.cpu:
        found += cpu_problems(arm, target, host)
    return found


def draft_problems(arm: ArmSettings, target: Checkpoint, draft: Checkpoint) -> list[str]:
    """A drafter that is not of the method's kind, or cannot draft as much."""
    speculation, found = arm.speculation, []
    if speculation.method == "mtp" and speculation.draft is None and target.known and not target.mtp_layers:
        found.append(
            "speculation `mtp`: the model's config.json declares no MTP head; use `ngram` or a drafter"
        )
    if speculation.method == "dflash" and draft.known:
        if not any("dflash" in name.lower() for name in draft.architectures):
            declared = ", ".join(draft.architectures) or "nothing"
            found.append(
                f"speculation `dflash`: {speculation.draft} declares {declared}, not a DFlash drafter"
            )
        elif draft.draft_block and (speculation.drafts or 0) >= draft.draft_block:
            found.append(
                f"speculation `dflash`: `drafts: {speculation.drafts}` is more than the drafter's block of"
                f" {draft.draft_block} gives; at most {draft.draft_block - 1}"
            )
    vocabularies = target.text.get("vocab_size"), draft.text.get("vocab_size")
    differ = all(vocabularies) and vocabularies[0] != vocabularies[1]
    mixed = speculation.options.get("use_heterogeneous_vocab")
    if speculation.method == "draft_model" and differ and not mixed:
        found.append(
            f"speculation `draft_model`: the drafter has {vocabularies[1]} tokens and the model"
            f" {vocabularies[0]}; it must share the model's tokenizer"
        )
    return found


def simulation_problems(arm: ArmSettings) -> list[str]:
    """Acceptance that would be made up, or lossy; none where the study asks for it."""
    words = None if allowed(arm) else simulated_words(given_config(arm))
    return (
        [
            f"speculation: {words} makes acceptance up: no figure of this arm would be measured; leave it out"
            f" ({INSTEAD})"
        ]
        if words
        else []
    )


def given_config(arm: ArmSettings) -> dict[str, Any]:
    """What an arm gives of `--speculative-config`, in its options or as a flag of its own."""
    flags = [value for name, value in arm.flags.items() if meaning(name) == "speculative-config"]
    own = flags[0] if flags else {}
    if isinstance(own, str):
        try:
            own = json.loads(own)
        except ValueError:
            own = {}
    return {**arm.speculation.options, **(own if isinstance(own, dict) else {})}


def kv_problems(arm: ArmSettings, build: Build) -> list[str]:
    """An FP8 draft KV cache beside a target's that is not FP8 does not boot, or dies at the first request."""
    draft_kv, target_kv = (
        arm.speculation.draft_kv_dtype,
        arm.settings.kv_dtype or arm.flags.get("kv-cache-dtype"),
    )
    chosen = "attention_backend" in arm.speculation.options
    if is_fp8(draft_kv) and not is_fp8(target_kv) and (build.cpu or not chosen):
        return [
            f"draft_kv_dtype {draft_kv} beside a target KV cache of {target_kv or 'the model dtype'}: vLLM"
            f" fails on it; give both the same (`kv_dtype: {draft_kv}`) or leave draft_kv_dtype out"
        ]
    return []


def cpu_problems(arm: ArmSettings, target: Checkpoint, host: HostFacts) -> list[str]:
    """What vLLM's CPU build cannot do with latent attention (MLA), and with more memory than there is."""
    found = []
    if target.mla and not host.amx and arm.speculation.method == "dflash":
        found.append(
            "dflash on a model with latent attention (MLA) dies on a processor without AMX ('No common block"
            " size'); use a model without MLA, or `mtp` or `ngram`"
        )
    if target.mla and host.amx and arm.settings.dtype and dtype_name(arm.settings.dtype) == "float32":
        found.append(
            "float32 with latent attention (MLA) does not boot on a processor with AMX; use bfloat16"
        )
    if target.mla and is_fp8(arm.settings.kv_dtype):
        found.append("an FP8 KV cache does not work with latent attention (MLA) on a processor; use bfloat16")
    if allowed(arm) and arm.speculation.options.get("rejection_sample_method") == "synthetic":
        found.append("synthetic acceptance does not work on a processor; leave rejection_sample_method out")
    page = arm.settings.page_size
    if page is not None and page % CPU_PAGE_MULTIPLE and not (target.mla and not host.amx):
        found.append(
            f"page_size {page}: vLLM's attention on a processor takes multiples of {CPU_PAGE_MULTIPLE}"
        )
    wanted = arm.settings.pool_bytes
    if wanted and host.memory_bytes and wanted > host.memory_bytes:
        found.append(
            f"pool_bytes {wanted:,} is more than this machine's memory of {host.memory_bytes:,} bytes"
        )
    return found
