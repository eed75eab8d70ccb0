"""The command line of an arm, for one machine or for each machine of a group."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from kvantage.core import ArmSettings, HostFacts, Launch, ServerSettings, UsageError
from kvantage.engines.sglang.model import is_hybrid
from kvantage.engines.sglang.speculation import add_speculation, kv_dtype_name
from kvantage.engines.sglang.version import DRAFT_KV_DTYPE, older_than, version_of
from kvantage.engines.simulated import OPTION
from kvantage.engines.spelling import did_you_mean
from kvantage.engines.words import Words

ENGINE_OPTIONS = frozenset({OPTION, "dist_init_addr", "host", "launcher", "python", "version"})

OURS = frozenset({"port", "host", "model-path", "served-model-name", "nnodes", "node-rank", "dist-init-addr"})
"""Flags that kvantage must choose itself, or that have a word or an engine option of their own."""

SAME = {
    "model": "model-path",
    "tp": "tp-size",
    "tensor-parallel-size": "tp-size",
    "nccl-init-addr": "dist-init-addr",
    "speculative-draft-model": "speculative-draft-model-path",
    "pp": "pp-size",
    "pipeline-parallel-size": "pp-size",
    "mem-fraction": "mem-fraction-static",
    "mamba-scheduler-strategy": "mamba-radix-cache-strategy",
}
"""Other spellings of one flag."""

RUNNING = 48
"""What SGLang sets for every arm with speculation, and for none without, unless it is told."""

MEETING_PORT = 25000
"""Where machines of a group find the first one, unless another port is said."""

_WORDS = {
    "tensor_parallel_size": "tp-size",
    "memory_fraction": "mem-fraction-static",
    "pool_tokens": "max-total-tokens",
    "context_length": "context-length",
    "chunked_prefill": "chunked-prefill-size",
    "max_running_requests": "max-running-requests",
    "page_size": "page-size",
}
"""Words of the vocabulary that are one flag of SGLang, with the same value."""

_DTYPES = {"bf16": "bfloat16", "fp16": "float16", "half": "float16", "fp32": "float32"}
_WIDE_KV = frozenset({"mxfp8", "nvfp4", "fp4_mx_block16"})


def command(arm: ArmSettings, host: HostFacts, port: int) -> Launch:
    """The exact command and environment. Raises UsageError for what SGLang has no word for."""
    check_options(arm)
    words = Words(SAME)
    words.add("model-path", arm.model, by="model")
    words.add("served-model-name", arm.name, by="the arm's name")
    words.add("host", str(arm.engine_options.get("host", "127.0.0.1")), by="kvantage")
    words.add("port", port, by="kvantage")
    if arm.revision is not None:
        words.add("revision", arm.revision, by="revision")
    add_settings(words, arm.settings)
    add_speculation(words, arm.speculation)
    for name, value in arm.flags.items():
        if words.meaning(name) in OURS:
            raise UsageError(f"flags: `{name}` is set by kvantage", hint="leave it out")
        words.add(name, value, by=f"flags: `{name}`")
    notes = [*add_pins(words, arm), *notes_on(words, arm)]
    argv = (*launcher(arm), *words.argv)
    version = version_of(arm)
    versions = {"sglang": version} if version else {}
    env = {"PYTHONUNBUFFERED": "1", **arm.env}
    nodes = arm.settings.nodes or 1
    if nodes < 2:
        return Launch(argv, env, tuple(notes), versions, program_words=len(launcher(arm)))
    meeting = str(arm.engine_options.get("dist_init_addr") or f"{host.name}:{MEETING_PORT}")
    per_node = tuple((*argv, *group_words(meeting, nodes, rank)) for rank in range(nodes))
    notes.append(
        f"{nodes} machines, one command each; only the first serves requests; the others find it at {meeting}"
        " (engine_options: {dist_init_addr: HOST:PORT} names another address)"
    )
    return Launch(per_node[0], env, tuple(notes), versions, per_node, len(launcher(arm)))


def check_options(arm: ArmSettings) -> None:
    """Raises UsageError for an engine option that there is not."""
    for name in arm.engine_options:
        if name not in ENGINE_OPTIONS:
            raise UsageError(f"engine option `{name}` is not known", hint=did_you_mean(name, ENGINE_OPTIONS))


def launcher(arm: ArmSettings) -> tuple[str, ...]:
    """What stands before the flags: `engine_options.launcher`, or Python's module."""
    told: Any = arm.engine_options.get("launcher")
    if told is None:
        return (str(arm.engine_options.get("python", "python3")), "-m", "sglang.launch_server")
    words = shlex.split(told) if isinstance(told, str) else list(told) if isinstance(told, Sequence) else []
    if not words or not all(isinstance(word, str) for word in words):
        raise UsageError("engine option `launcher` is no command", hint="a line or a list of words")
    return tuple(words)


def group_words(meeting: str, nodes: int, rank: int) -> tuple[str, ...]:
    """The flags that make one machine a member of a group.

    Raises UsageError where `meeting` is no HOST:PORT.
    """
    name, colon, port = meeting.rpartition(":")
    if not colon or not name or not port.isdecimal():
        raise UsageError(
            f"engine option `dist_init_addr`: {meeting} is not HOST:PORT",
            hint="a host name or address of the first machine that each of them can reach, and a free port",
        )
    return ("--nnodes", str(nodes), "--node-rank", str(rank), "--dist-init-addr", meeting)


def add_settings(words: Words, settings: ServerSettings) -> None:
    """The common vocabulary. What is None is left to the engine, and read back."""
    for word, flag in _WORDS.items():
        value: Any = getattr(settings, word)
        if value is not None:
            words.add(flag, value, by=f"`{word}`")
    if settings.dtype is not None:
        words.add("dtype", _DTYPES.get(settings.dtype, settings.dtype), by="`dtype`")
    if settings.kv_dtype is not None:
        kv_dtype = kv_dtype_name(settings.kv_dtype, "kv_dtype", further=_WIDE_KV)
        words.add("kv-cache-dtype", kv_dtype, by="`kv_dtype`")
    if settings.pool_bytes is not None:
        raise UsageError(
            "`pool_bytes`: SGLang has no flag for the pool's bytes",
            hint="size it with `memory_fraction`, and cap it with `pool_tokens`",
        )
    if settings.prefix_caching is False:
        words.add("disable-radix-cache", True, by="`prefix_caching`")
    if settings.eager:
        words.add("disable-cuda-graph", True, by="`eager`")


def add_pins(words: Words, arm: ArmSettings) -> list[str]:
    """What keeps arms comparable and makes the server tell what it does: the same in every arm.

    Speculation alone makes SGLang cap running requests at 48 and, for DFLASH, hold prefills back; the
    checkpoint's generation_config would pin samplers differently from what is asked.
    """
    pins: Mapping[str, Any] = {
        "random-seed": arm.samplers.seed,
        "max-running-requests": RUNNING,
        "min-free-slots-delay": 1,
        "sampling-defaults": "openai",
        "decode-log-interval": 1,
        "enable-cache-report": True,
        "enable-metrics": True,
    }
    pipeline = words.has("pp-size")
    set_by_us = [
        f"--{name}" if value is True else f"--{name} {value}"
        for name, value in pins.items()
        if not (pipeline and name == "min-free-slots-delay") and words.add_unless_given(name, value)
    ]
    return [f"pinned in every arm: {' '.join(set_by_us)}"] if set_by_us else []


def notes_on(words: Words, arm: ArmSettings) -> list[str]:
    """What is left to SGLang and may differ between arms for it."""
    notes = []
    if not words.has("mem-fraction-static"):
        notes.append(
            "memory_fraction is left to SGLang, which reserves more for speculation's graphs: give it, or"
            " arms differ in it"
        )
    if is_hybrid(arm.model) and not words.has("max-mamba-cache-size"):
        notes.append(
            "a hybrid model: the number of recurrent states is left to SGLang and follows each arm's"
            " memory; flags: {max-mamba-cache-size: N} pins it"
        )
    if arm.speculation.draft_kv_dtype is not None and version_of(arm) is None:
        notes.append("draft_kv_dtype needs SGLang 0.5.23 or later; the version here is not known")
    return notes


def draft_kv_problem(arm: ArmSettings) -> str | None:
    """Why the drafter's own KV type cannot be set, with what would work."""
    version = version_of(arm)
    if arm.speculation.draft_kv_dtype is None or not older_than(version, DRAFT_KV_DTYPE):
        return None
    return (
        f"draft_kv_dtype: SGLang {version} has no flag for it (0.5.23 has); there the drafter's KV follows"
        f" `kv_dtype`: set that to {arm.speculation.draft_kv_dtype}, or update"
    )
