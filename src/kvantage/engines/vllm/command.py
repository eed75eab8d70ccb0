"""The command line of an arm."""

from __future__ import annotations

import platform
from typing import Any

from kvantage.core import ArmSettings, HostFacts, Launch, ServerSettings, UsageError
from kvantage.engines.simulated import OPTION
from kvantage.engines.spelling import did_you_mean
from kvantage.engines.vllm.build import NEWEST, OLDEST, Build, build_of
from kvantage.engines.vllm.checkpoint import Checkpoint, checkpoint, located
from kvantage.engines.vllm.dtypes import dtype_name, kv_dtype_name
from kvantage.engines.vllm.environment import environment
from kvantage.engines.vllm.flags import OURS, Flags, meaning
from kvantage.engines.vllm.speculation import speculative_config

ENGINE_OPTIONS = frozenset({OPTION, "python", "tool_call_parser", "version"})

_WORDS = {
    "tensor_parallel_size": "tensor-parallel-size",
    "memory_fraction": "gpu-memory-utilization",
    "pool_bytes": "kv-cache-memory-bytes",
    "context_length": "max-model-len",
    "max_running_requests": "max-num-seqs",
    "page_size": "block-size",
    "prefix_caching": "enable-prefix-caching",
}
"""Words of the vocabulary that are one flag of vLLM, with the same value."""

CPU_BLOCK_TOKENS = 128
CPU_MLA_BLOCK_TOKENS = 16
"""Block sizes that vLLM takes on a processor unless told otherwise; MLA without AMX has no other."""


def command(arm: ArmSettings, host: HostFacts, port: int) -> Launch:
    """The exact command and environment. Raises UsageError for a setting that vLLM has no word for."""
    check_options(arm)
    build = build_of(arm)
    target = checkpoint(arm.model)
    flags = Flags()
    notes: list[str] = []
    flags.add("model", located(arm.model), by="model")
    flags.add("served-model-name", arm.name, by="the arm's name")
    flags.add("host", "127.0.0.1", by="kvantage")
    flags.add("port", port, by="kvantage")
    if arm.revision is not None:
        flags.add("revision", arm.revision, by="revision")
    add_settings(flags, arm.settings, build, target, host, notes)
    if (speculation := speculative_config(arm.speculation)) is not None:
        flags.add("speculative-config", speculation, by="speculation")
    if parser := arm.engine_options.get("tool_call_parser"):
        flags.add("enable-auto-tool-choice", True, by="engine option `tool_call_parser`")
        flags.add("tool-call-parser", str(parser), by="engine option `tool_call_parser`")
    for name, value in arm.flags.items():
        if meaning(name) in OURS:
            raise UsageError(f"flags: `{name}` is set by kvantage", hint="leave it out")
        flags.add(name, value, by=f"flags: `{name}`")
    add_reporting(flags, arm, build)
    notes += notes_on(arm, build, target, host)
    argv = (build.python, "-m", "vllm.entrypoints.openai.api_server", *flags.words)
    return Launch(argv, environment(arm, build), tuple(notes), build.versions, program_words=3)


def check_options(arm: ArmSettings) -> None:
    """Raises UsageError for an engine option that there is not."""
    for name in arm.engine_options:
        if name not in ENGINE_OPTIONS:
            raise UsageError(f"engine option `{name}` is not known", hint=did_you_mean(name, ENGINE_OPTIONS))


def add_settings(
    flags: Flags,
    settings: ServerSettings,
    build: Build,
    target: Checkpoint,
    host: HostFacts,
    notes: list[str],
) -> None:
    """The common vocabulary. What is None is left to the engine, and read back."""
    for word, flag in _WORDS.items():
        value: Any = getattr(settings, word)
        if value is not None:
            flags.add(flag, value, by=f"`{word}`")
    if settings.dtype is not None:
        flags.add("dtype", dtype_name(settings.dtype), by="`dtype`")
    if settings.kv_dtype is not None:
        flags.add("kv-cache-dtype", kv_dtype_name(settings.kv_dtype), by="`kv_dtype`")
    if settings.chunked_prefill is not None:
        if settings.chunked_prefill > 0:
            flags.add("max-num-batched-tokens", settings.chunked_prefill, by="`chunked_prefill`")
        flags.add("enable-chunked-prefill", settings.chunked_prefill > 0, by="`chunked_prefill`")
    if settings.eager is not None:
        flags.add("enforce-eager", settings.eager, by="`eager`")
    if settings.pool_tokens is not None:
        blocks, size = pool_blocks(settings, build, target, host)
        flags.add("num-gpu-blocks-override", blocks, by="`pool_tokens`")
        notes.append(
            f"pool_tokens: vLLM has no ceiling for its pool, only a number of blocks: it is set to"
            f" exactly {blocks} blocks of {size} tokens, whatever memory there is, and the boot fails where"
            " that is too little"
        )
    if settings.nodes is not None and settings.nodes > 1:
        raise UsageError(
            f"`nodes: {settings.nodes}`: kvantage starts vLLM on one host only",
            hint="start the cluster yourself and measure it as a running server",
        )


def pool_blocks(
    settings: ServerSettings, build: Build, target: Checkpoint, host: HostFacts
) -> tuple[int, int]:
    """(blocks, tokens a block) of a ceiling in tokens: the most whole blocks below it.

    Raises UsageError where vLLM's block is not known before it starts, or where layers have blocks of
    several sizes, so that blocks x size is not the pool.
    """
    ceiling = settings.pool_tokens or 0
    if target.hybrid:
        raise UsageError(
            "`pool_tokens`: this model's layers have pages of several sizes, so vLLM's blocks are not tokens",
            hint="pin the pool with `pool_bytes`",
        )
    size = settings.page_size
    if build.cpu and target.mla and not host.amx:
        size = CPU_MLA_BLOCK_TOKENS
    elif size is None and build.cpu:
        size = CPU_BLOCK_TOKENS
    if size is None:
        raise UsageError(
            "`pool_tokens`: vLLM counts its pool in blocks, and chooses their size itself",
            hint="give `page_size` too, or pin the pool with `pool_bytes`",
        )
    if ceiling < 2 * size:
        raise UsageError(f"`pool_tokens: {ceiling}` is less than two blocks of {size} tokens; vLLM keeps one")
    return ceiling // size, size


def add_reporting(flags: Flags, arm: ArmSettings, build: Build) -> None:
    """What makes the server tell what it does, and keeps a checkpoint's own sampling defaults out."""
    flags.add_unless_given("seed", arm.samplers.seed)
    flags.add_unless_given("generation-config", "vllm")
    flags.add_unless_given("enable-prompt-tokens-details", True)
    if build.at_least(0, 32):
        flags.add_unless_given("enable-per-request-metrics", True)
        if "speculative-config" in flags.given or "spec-method" in flags.given:  # refused without speculation
            flags.add_unless_given("per-request-spec-decode-metrics", "summary")


def notes_on(arm: ArmSettings, build: Build, target: Checkpoint, host: HostFacts) -> list[str]:
    """What the person should know of how this arm will be served."""
    notes = []
    if build.cpu and target.mla and not host.amx:
        notes.append(
            "latent attention (MLA) on a processor without AMX: vLLM turns prefix caching and"
            " chunked prefill off"
        )
        if arm.settings.page_size not in (None, CPU_MLA_BLOCK_TOKENS):
            notes.append(f"page_size: vLLM takes {CPU_MLA_BLOCK_TOKENS} there, whatever is asked")
    if build.cpu and build.openmp is None and platform.machine() == "x86_64":
        notes.append(
            "libiomp5.so is not in vLLM's environment: speculation on a processor is slower without it"
        )
    if build.release != (0, 0) and not OLDEST <= build.release <= NEWEST:
        notes.append(f"vLLM {build.version} is outside of what kvantage was proven with (0.26 to 0.33)")
    if not build.at_least(0, 32):
        notes.append(f"vLLM {build.version} does not count acceptance per request; its counters are used")
    return notes
