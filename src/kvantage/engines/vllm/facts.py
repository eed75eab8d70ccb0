"""What a booted server says of itself: log, /metrics and /server_info, put side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kvantage.core import ArmSettings, Facts, Reading, Source
from kvantage.engines.numbers import GIB
from kvantage.engines.simulated import mark
from kvantage.engines.vllm.boot import BootLog
from kvantage.engines.vllm.checkpoint import checkpoint
from kvantage.engines.vllm.geometry import draft_bytes, element_bytes, target_bytes
from kvantage.engines.vllm.resolved import resolved, speculation_of
from kvantage.engines.vllm.speculation import DROPS_A_BLOCK, simulated_words

DERIVED = (
    "derived by vLLM: concurrency at full context x context length, not blocks x block size; it changes with"
    " the context length and is not what can be kept as cached prefix"
)
NULL_BLOCK = "one block of it is vLLM's permanent null block"
SMALLEST = "the smallest of several groups: blocks x size is not the pool"
LOG_ROUNDING = 0.005 * GIB
"""The log prints GiB with two decimals."""
OVERHEAD = {
    "activation": "the most that activations took while profiling",
    "other": "memory that is not PyTorch's",
    "graphs": "CUDA graphs",
}


@dataclass(frozen=True)
class Told:
    """Everything that one boot told, each part possibly missing."""

    arm: ArmSettings
    log: BootLog = field(default_factory=BootLog)
    cache: Sequence[Mapping[str, str]] = ()
    info: Any = None
    version: str | None = None

    def setting(self, name: str) -> Any:
        """One resolved setting, as `section.field`, or None."""
        return self.settings.get(name)

    @property
    def settings(self) -> dict[str, Any]:
        """All resolved settings, flat."""
        return resolved(self.info)

    def label(self, name: str) -> str | None:
        """A label of cache_config_info (the first engine's)."""
        return self.cache[0].get(name) if self.cache else None

    def label_sum(self, name: str) -> int | None:
        """A whole-number label, summed over engines."""
        values = [labels.get(name, "") for labels in self.cache]
        return sum(map(int, values)) if values and all(value.isdecimal() for value in values) else None


def facts(told: Told) -> Facts:
    """The readings of `kvantage.core.Facts`, with dropped_blocks and max_concurrency beside them."""
    speculation = speculation_as_resolved(told)
    readings = pool_readings(told, speculation)
    readings |= limit_readings(told)
    readings["dropped_blocks"] = dropped_blocks(told, speculation)
    caching = prefix_caching(told)
    return Facts(
        engine="vllm",
        engine_version=told.version or told.log.version,
        readings=readings,
        resolved={**told.settings, **mark(told.arm, speculation)},
        speculation=speculation,
        prefix_caching=caching,
        warnings=tuple(warnings(told, readings, speculation, caching)),
    )


def speculation_as_resolved(told: Told) -> dict[str, Any]:
    """The drafter as the server has it; `simulated` says what makes acceptance up, where something does."""
    from_info = speculation_of(told.info)
    found = dict(from_info if from_info is not None else told.log.speculation or {})
    if "num_spec_tokens" in found:
        found["num_speculative_tokens"] = int(found.pop("num_spec_tokens"))
    if words := simulated_words(found) or told.log.simulated:
        found["simulated"] = words
    return found


def whole(value: Any) -> int | None:
    """A whole number, or None."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str) and value.isdecimal():
        return int(value)
    return value if isinstance(value, int) else None


def pool_readings(told: Told, speculation: Mapping[str, Any]) -> dict[str, Reading]:
    """The KV pool in tokens, blocks and bytes."""
    log = told.log
    readings: dict[str, Reading] = {}
    blocks = (
        told.label_sum("num_gpu_blocks")
        or whole(told.setting("cache_config.num_gpu_blocks"))
        or log.pool_blocks
    )
    size = (
        whole(told.label("block_size")) or whole(told.setting("cache_config.block_size")) or log.block_tokens
    )
    tokens = told.label_sum("kv_cache_size_tokens") or log.pool_tokens
    simple = bool(blocks and size and (tokens is None or tokens == blocks * size))
    uneven = bool(size and tokens and (tokens % size if blocks is None else tokens != blocks * size))
    if tokens is None and blocks and size:
        tokens = blocks * size
    if tokens is not None:
        derived = uneven or log.tokens_agree is False
        source: Source = "gauge" if told.label_sum("kv_cache_size_tokens") else "config"
        readings["kv_pool_tokens"] = Reading.of(
            tokens, "tokens", source, note=DERIVED if derived else NULL_BLOCK
        )
    where: Source = "gauge" if told.cache else "config"
    if blocks:
        readings["kv_pool_blocks"] = Reading.of(blocks, "blocks", where, note=NULL_BLOCK)
    if size:
        readings["kv_block_tokens"] = Reading.of(size, "tokens", where, note=SMALLEST if uneven else None)
    if log.max_concurrency is not None:
        length = f"requests of {log.concurrency_length:,} tokens"
        readings["max_concurrency"] = Reading.of(log.max_concurrency, length, "config")
    return readings | byte_readings(told, speculation, blocks, size if simple else None)


def byte_readings(
    told: Told, speculation: Mapping[str, Any], blocks: int | None, size: int | None
) -> dict[str, Reading]:
    """What the pool weighs.

    vLLM does not tell the bytes of a block. The memory that it had gives them to within one block; the
    geometry in config.json gives them exactly, and is believed only when it leads to the very number
    of blocks that the server has.
    """
    granted, slack = granted_bytes(told)
    if granted is None:
        return {}
    unit = "bytes"
    source: Any = "config"
    readings = {
        "kv_available_bytes": Reading.of(granted, unit, source, note="memory given to the pool, on one rank")
    }
    planned = told.log.profiled_blocks or blocks
    if not blocks or not planned:
        return readings
    target, draft = bytes_per_token(told, speculation)
    if size and target is not None and draft is not None:
        block = (target + draft) * size
        if (granted - slack) // block <= planned <= (granted + slack) // block:
            note = f"{blocks} blocks x {block:,} bytes by the model's geometry, on one rank"
            readings["kv_pool_bytes"] = Reading.of(blocks * block, unit, "computed", note=note)
            readings["kv_bytes_per_token"] = Reading.of(target + draft, unit, "computed", note="on one rank")
            for name, each in (("draft_kv_pool_bytes", draft), ("target_kv_pool_bytes", target)):
                readings[name] = Reading.of(blocks * each * size, unit, "computed", note="on one rank")
            return readings
    share = blocks / planned
    low, high = share * (granted - slack) * planned / (planned + 1), share * (granted + slack)
    note = "the memory given to the pool; less than one block of it is unused"
    readings["kv_pool_bytes"] = Reading.of(share * granted, unit, source, low=low, high=high, note=note)
    return readings


def granted_bytes(told: Told) -> tuple[float | None, float]:
    """(bytes given to the pool on the rank that has least, how far off that may be)."""
    exact = whole(told.label("kv_cache_memory_bytes")) or whole(
        told.setting("cache_config.kv_cache_memory_bytes")
    )
    if exact:
        return float(exact), 0.0
    return told.log.binding_kv_bytes, LOG_ROUNDING


def bytes_per_token(told: Told, speculation: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """(target's, drafter's) KV bytes a token on one rank, by config.json and the resolved dtypes."""
    arm = told.arm
    method = str(speculation.get("method", "none"))
    ranks = (
        whole(told.setting("parallel_config.tensor_parallel_size")) or arm.settings.tensor_parallel_size or 1
    )
    model_dtype = told.setting("model_config.dtype") or arm.settings.dtype
    kv_dtype = told.label("cache_dtype") or told.setting("cache_config.cache_dtype") or arm.settings.kv_dtype
    draft_kv = speculation.get("kv_cache_dtype") or kv_dtype
    model, draft = checkpoint(arm.model), checkpoint(speculation.get("model") or arm.speculation.draft)
    if method == "mtp" and draft.config == model.config:
        draft = checkpoint(None)
    return (
        target_bytes(model, element_bytes(kv_dtype, model_dtype), ranks),
        draft_bytes(method, model, draft, element_bytes(draft_kv, model_dtype), ranks),
    )


def limit_readings(told: Told) -> dict[str, Reading]:
    """Context, concurrency, weights and boot time."""
    readings: dict[str, Reading] = {}
    log = told.log
    context = (
        whole(told.setting("model_config.max_model_len")) or log.concurrency_length or log.context_length
    )
    if context:
        readings["context_length"] = Reading.of(context, "tokens", "config")
    asked = told.arm.settings.max_running_requests or whole(told.arm.flags.get("max-num-seqs"))
    if asked:
        readings["requested_max_running"] = Reading.of(asked, "requests", "config")
    if running := whole(told.setting("scheduler_config.max_num_seqs")):
        readings["effective_max_running"] = Reading.of(running, "requests", "config")
    if log.weights_bytes:
        note = "drafter included, on the fullest rank"
        readings["weights_bytes"] = rounded(max(log.weights_bytes.values()), note)
    for name, size in log.overhead_bytes.items():
        readings[f"{name}_bytes"] = rounded(size, f"{OVERHEAD[name]}, on one rank")
    if log.init_s is not None:
        note = "the engine's own start: profiling, KV cache and warm-up, without loading and imports"
        readings["boot_s"] = Reading.of(log.init_s, "s", "config", note=note)
    return readings


def rounded(size: float, note: str) -> Reading:
    """Bytes that the log prints as GiB with two decimals."""
    low = max(0.0, size - LOG_ROUNDING)
    return Reading.of(size, "bytes", "config", low=low, high=size + LOG_ROUNDING, note=f"{note}; rounded")


def dropped_blocks(told: Told, speculation: Mapping[str, Any]) -> Reading:
    """Blocks that every prefix hit loses to the drafter."""
    method = str(speculation.get("method", "none"))
    drops = method in DROPS_A_BLOCK and not told.setting("speculative_config.disable_eagle_block_drop")
    note = (
        f"{method} reads the target's hidden states, so the last cached block is computed again"
        if drops
        else None
    )
    return Reading.of(1 if drops else 0, "blocks", "config", note=note)


def prefix_caching(told: Told) -> bool | None:
    """Whether prefixes are kept; the engine's own words in the log come before its settings."""
    if told.log.caching_off:
        return False
    label = told.label("enable_prefix_caching")
    if label in ("True", "False"):
        return label == "True"
    setting = told.setting("cache_config.enable_prefix_caching")
    return setting if isinstance(setting, bool) else told.log.prefix_caching


def warnings(
    told: Told, readings: Mapping[str, Reading], speculation: Mapping[str, Any], caching: bool | None
) -> list[str]:
    """What makes this server another than the one that was asked for."""
    found = []
    log = told.log
    if speculation.get("simulated"):
        found.append(
            f"simulated or lossy acceptance ({speculation['simulated']}): acceptance and outputs are not the"
            " drafter's own"
        )
    if (
        told.arm.speculation.on
        and not speculation
        and (told.info is not None or told.log.speculation is not None)
    ):
        found.append(f"speculation `{told.arm.speculation.method}` was asked for and is off")
    if told.arm.settings.prefix_caching is not False and caching is False:
        why = f": {told.log.caching_off}" if told.log.caching_off else ""
        found.append(f"the engine turned prefix caching off{why}")
    pool, context = readings.get("kv_pool_tokens"), readings.get("context_length")
    if (
        pool
        and context
        and pool.value is not None
        and context.value is not None
        and pool.value < context.value
    ):
        found.append(
            f"the pool ({pool.value:,.0f} tokens) is smaller than the context length ({context.value:,.0f})"
        )
    asked, given = readings.get("requested_max_running"), readings.get("effective_max_running")
    if asked and given and asked.value is not None and given.value is not None and given.value < asked.value:
        found.append(f"at most {given.value:.0f} requests run at once, not the {asked.value:.0f} asked for")
    wanted = told.arm.settings.chunked_prefill
    batched = wanted or whole(told.setting("scheduler_config.max_num_batched_tokens")) or log.batched_tokens
    scheduled = whole(told.setting("scheduler_config.max_num_scheduled_tokens")) or log.scheduled_tokens
    if batched and scheduled and scheduled < batched:
        found.append(f"a step takes at most {scheduled} tokens, not {batched}: the rest is kept for drafts")
    if wanted and told.setting("scheduler_config.enable_chunked_prefill") is False:
        found.append("the engine turned chunked prefill off")
    return found
