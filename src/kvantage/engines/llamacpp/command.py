"""The command line of an arm."""

from __future__ import annotations

import os
import shlex
import shutil
import sysconfig
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kvantage.core import ArmSettings, HostFacts, Launch, ServerSettings, Speculation, UsageError
from kvantage.engines.llamacpp.gguf import cells_of
from kvantage.engines.llamacpp.help import Abilities, abilities_of
from kvantage.engines.llamacpp.scan import PADDING
from kvantage.engines.simulated import OPTION
from kvantage.engines.spelling import did_you_mean
from kvantage.engines.words import Words

ENGINE_OPTIONS = frozenset({OPTION, "host", "server"})
OURS = frozenset({"host", "port", "model", "hf-repo", "alias"})
PROGRAMS = ("llama-server", "llama-server-vulkan")
"""Names of the server: llama.cpp's own, and that of the wheel."""

SLOTS = 4
"""Slots of every arm that says no max_running_requests: the server's own choice is `auto`."""

SAME = {
    "m": "model",
    "hf": "hf-repo",
    "hfr": "hf-repo",
    "a": "alias",
    "c": "ctx-size",
    "b": "batch-size",
    "ub": "ubatch-size",
    "np": "parallel",
    "ctk": "cache-type-k",
    "ctv": "cache-type-v",
    "kvu": "kv-unified",
    "no-kvu": "kv-unified",
    "no-kv-unified": "kv-unified",
    "cram": "cache-ram",
    "fit": "fit",
    "s": "seed",
    "lv": "verbosity",
    "log-verbosity": "verbosity",
    "md": "spec-draft-model",
    "model-draft": "spec-draft-model",
    "ctkd": "spec-draft-type-k",
    "cache-type-k-draft": "spec-draft-type-k",
    "ctvd": "spec-draft-type-v",
    "cache-type-v-draft": "spec-draft-type-v",
    "no-cache-prompt": "cache-prompt",
    "draft-p-min": "spec-draft-p-min",
}
"""Other spellings of one flag."""

TYPES = {
    "ngram": "ngram-map-k",
    "draft_model": "draft-simple",
    "eagle3": "draft-eagle3",
    "mtp": "draft-mtp",
    "dflash": "draft-dflash",
}
"""`--spec-type` of each method; the option `type` chooses another kind of n-gram."""

NGRAM_TYPES = ("ngram-simple", "ngram-map-k", "ngram-map-k4v", "ngram-mod")
NGRAM_LOOKUP = 4
"""Tokens that must repeat before an n-gram drafts, unless `options: {size-n: N}` says otherwise."""

KV_TYPES = ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1")
_KV_NAMES = {
    "fp16": "f16",
    "float16": "f16",
    "half": "f16",
    "bfloat16": "bf16",
    "fp32": "f32",
    "float32": "f32",
}

_NO_WORD = {
    "memory_fraction": ("llama.cpp allocates its whole context at the start", "size it with `pool_tokens`"),
    "page_size": ("llama.cpp's cache has no pages", "leave it out"),
}
"""Words of the vocabulary that llama.cpp has not, each with why and what would work."""

_IDLE = {"dtype": "a GGUF file has its own types", "eager": "there is nothing to turn off"}
"""Words that say nothing to llama.cpp, and do no harm."""


def found_server() -> str | None:
    """A llama-server of this machine: on the PATH, or beside this Python, where the wheel puts it."""
    here = sysconfig.get_path("scripts")
    places = (path for name in PROGRAMS for path in (shutil.which(name), shutil.which(name, path=here)))
    return next((path for path in places if path), None)


def server_of(arm: ArmSettings) -> tuple[str, ...]:
    """The program: `engine_options.server` (a path, or a command with words before the flags)."""
    told: Any = arm.engine_options.get("server") or [found_server() or PROGRAMS[0]]
    words = shlex.split(told) if isinstance(told, str) else list(told) if isinstance(told, Sequence) else []
    if not words or not all(isinstance(word, str) for word in words):
        raise UsageError("engine option `server` is no program", hint="a path, or a list of words")
    return (str(Path(words[0]).expanduser()), *words[1:])


def command(arm: ArmSettings, host: HostFacts, port: int) -> Launch:
    """The exact command and environment. Raises UsageError for what llama.cpp has no word for."""
    del host  # The flags do not depend on the machine.
    for name in arm.engine_options:
        if name not in ENGINE_OPTIONS:
            raise UsageError(f"engine option `{name}` is not known", hint=did_you_mean(name, ENGINE_OPTIONS))
    server = server_of(arm)
    able = abilities_of(server)
    words = Words(SAME)
    model = add_model(words, arm)
    words.add("alias", arm.name, by="the arm's name")
    words.add("host", str(arm.engine_options.get("host", "127.0.0.1")), by="kvantage")
    words.add("port", port, by="kvantage")
    add_settings(words, arm.settings, arm.flags, model)
    add_speculation(words, arm.speculation, able)
    for name, value in arm.flags.items():
        if words.meaning(name) in OURS:
            raise UsageError(f"flags: `{name}` is set by kvantage", hint="leave it out")
        words.add(name if name.startswith("-") else f"--{name}", value, by=f"flags: `{name}`")
    notes = [f"`{word}` is idle: {why}" for word, why in _IDLE.items() if getattr(arm.settings, word)]
    notes += add_pins(words, arm, able)
    if inherited := sorted(name for name in os.environ if name.startswith("LLAMA_ARG_")):
        notes.append(f"the environment sets {', '.join(inherited)}: llama-server takes flags from there too")
    versions = {"llama-server": able.version} if able.version else {}
    return Launch((*server, *words.argv), dict(arm.env), tuple(notes), versions, program_words=len(server))


def add_model(words: Words, arm: ArmSettings) -> Path | None:
    """A GGUF file, the only one of a folder, or a hub's `owner/name[:quantisation]` (None is returned)."""
    path = Path(gguf_in(arm.model, "model"))
    if path.suffix == ".gguf" or path.is_file():
        words.add("--model", str(path), by="model")
        return path
    words.add("--hf-repo", arm.model, by="model")
    return None


def gguf_in(place: str, what: str) -> str:
    """The only GGUF file of a folder; anything else is returned as it is.

    Raises UsageError for a folder with none or several.
    """
    path = Path(place).expanduser()
    if not path.is_dir():
        return str(path) if path.exists() else place
    files = sorted(path.glob("*.gguf"))
    if len(files) != 1:
        raise UsageError(f"{what}: {place} holds {len(files)} GGUF files", hint="name the file that is meant")
    return str(files[0])


def add_settings(
    words: Words, settings: ServerSettings, flags: Mapping[str, Any], model: Path | None
) -> None:
    """The common vocabulary. One slot serves one request; a slot's context is its longest request."""
    for word, (why, hint) in _NO_WORD.items():
        if getattr(settings, word) is not None:
            raise UsageError(f"`{word}`: {why}", hint=hint)
    for word in ("tensor_parallel_size", "nodes"):
        if (getattr(settings, word) or 1) > 1:
            raise UsageError(
                f"`{word}: {getattr(settings, word)}`: kvantage starts llama.cpp on one device",
                hint="llama.cpp's own flags spread a model: flags: {split-mode: ..., tensor-split: ...}",
            )
    slots = settings.max_running_requests
    if slots is None and not any(words.meaning(name) == "parallel" for name in flags):
        slots = SLOTS
    if slots is not None:
        words.add("--parallel", slots, by="`max_running_requests`")
    add_context(words, settings, slots or SLOTS, model)
    if settings.chunked_prefill is not None:
        words.add("--batch-size", settings.chunked_prefill, by="`chunked_prefill`")
        words.add("--ubatch-size", min(settings.chunked_prefill, 512), by="`chunked_prefill`")
    if settings.kv_dtype is not None:
        kv_type = kv_type_name(settings.kv_dtype, "kv_dtype")
        words.add("--cache-type-k", kv_type, by="`kv_dtype`")
        words.add("--cache-type-v", kv_type, by="`kv_dtype`")
    if settings.prefix_caching is False:
        words.add("--no-cache-prompt", True, by="`prefix_caching`")


def add_context(words: Words, settings: ServerSettings, slots: int, model: Path | None) -> None:
    """Cells: a pool shared by all slots, or `context_length` for each of them."""
    length, pool, by = settings.context_length, settings.pool_tokens, "`pool_tokens`"
    if settings.pool_bytes is not None:
        pool, by = cells_in(settings, model), "`pool_bytes`"
    if pool is not None:
        words.add("--ctx-size", pool, by=by)
        whole = length is None or length * slots <= pool
        if length is not None and length > pool:
            raise UsageError(
                f"`context_length: {length}` is more than {by} holds: {pool}", hint="raise the pool"
            )
        # One shared buffer where the slots' contexts together are more than there is.
        words.add("--no-kv-unified" if whole else "--kv-unified", True, by=by)
    elif length is not None:
        words.add("--ctx-size", length * slots, by="`context_length` x slots")
        words.add("--no-kv-unified", True, by="`context_length`")


def cells_in(settings: ServerSettings, model: Path | None) -> int:
    """Cells that `pool_bytes` holds, a whole multiple of 256, by the geometry in the model's own file.

    Raises UsageError where that file does not tell, or both pool words are given.
    """
    if settings.pool_tokens is not None:
        raise UsageError("`pool_bytes` and `pool_tokens` both size the pool", hint="keep one")
    cell = cells_of(model) if model is not None else None
    if cell is None or settings.pool_bytes is None:
        raise UsageError(
            "`pool_bytes`: llama.cpp allocates cells, and this model's file does not tell their bytes",
            hint="size the pool with `pool_tokens`",
        )
    kv_type = kv_type_name(settings.kv_dtype or "f16", "kv_dtype")
    cells = int(settings.pool_bytes / cell.bytes(kv_type)) // PADDING * PADDING
    if cells < PADDING:
        raise UsageError(f"`pool_bytes: {settings.pool_bytes}` holds fewer than {PADDING} tokens")
    return cells


def add_speculation(words: Words, speculation: Speculation, able: Abilities) -> None:
    """The drafter. `drafts` is k, the most tokens of one draft; a draft is never shortened by doubt."""
    if not speculation.on:
        return
    by = f"speculation `{speculation.method}`"
    options = {name.replace("_", "-"): value for name, value in speculation.options.items()}
    kind = TYPES[speculation.method]
    if speculation.method == "ngram":
        kind = str(options.pop("type", kind))
        if kind not in NGRAM_TYPES:
            raise UsageError(
                f"{by}: `{kind}` is no n-gram of llama.cpp", hint=did_you_mean(kind, NGRAM_TYPES)
            )
    if able.types and kind not in able.types:
        raise UsageError(
            f"{by}: this llama-server has no `{kind}`", hint=f"it has {', '.join(sorted(able.types))}"
        )
    words.add("--spec-type", kind, by=by)
    if speculation.method == "ngram":
        add_ngram(words, kind, speculation.drafts or 1, options, by)
    else:
        if speculation.draft is not None:
            draft = gguf_in(speculation.draft, "speculation.draft")
            words.add("--spec-draft-model", draft, by="speculation.draft")
        words.add("--spec-draft-n-max", speculation.drafts, by=by)
        words.add("--spec-draft-n-min", options.pop("n-min", 0), by=by)
        words.add("--spec-draft-p-min", options.pop("p-min", 0), by=by)
    if speculation.draft_kv_dtype is not None:
        kv_type = kv_type_name(speculation.draft_kv_dtype, "draft_kv_dtype")
        words.add("--spec-draft-type-k", kv_type, by="draft_kv_dtype")
        words.add("--spec-draft-type-v", kv_type, by="draft_kv_dtype")
    if speculation.draft_revision is not None:
        raise UsageError("draft_revision: llama.cpp knows files", hint="name the file of that revision")
    for name, value in options.items():
        if name not in ("sampling", "ngl", "device", "p-split", "threads"):
            raise UsageError(
                f"speculation option `{name}` is not known to llama.cpp",
                hint=did_you_mean(name, ("n-min", "p-min", "size-n", "type", "sampling", "ngl", "device")),
            )
        words.add(f"--spec-draft-{name}", value, by=f"speculation option `{name}`")


def add_ngram(words: Words, kind: str, drafts: int, options: dict[str, Any], by: str) -> None:
    """The lookup's length and the draft's, in each kind's own words."""
    # The word by which vLLM names the same length serves too, so that one arm fits both.
    lookup = options.pop("size-n", options.pop("prompt-lookup-max", NGRAM_LOOKUP))
    options.pop("prompt-lookup-min", None)
    if kind == "ngram-mod":
        words.add("--spec-ngram-mod-n-match", lookup, by=by)
        words.add("--spec-ngram-mod-n-min", options.pop("n-min", 1), by=by)
        words.add("--spec-ngram-mod-n-max", drafts, by=by)
    else:
        words.add(f"--spec-{kind}-size-n", lookup, by=by)
        words.add(f"--spec-{kind}-size-m", drafts, by=by)


def kv_type_name(dtype: str, what: str) -> str:
    """llama.cpp's name of a KV type. Raises UsageError for one that it has not, with those that it has."""
    name = _KV_NAMES.get(dtype.lower(), dtype.lower())
    if name not in KV_TYPES:
        near = "; q8_0 is its 8-bit type" if "8" in name else ""
        raise UsageError(
            f"{what}: llama.cpp has no KV cache of `{dtype}`", hint=f"one of {', '.join(KV_TYPES)}{near}"
        )
    return name


def add_pins(words: Words, arm: ArmSettings, able: Abilities) -> list[str]:
    """What keeps arms comparable and makes the server tell what it does: the same in every arm.

    `--fit off`: else it shrinks the context to what memory allows, more with a drafter, and serves.
    `--cache-ram 0`: else prompts come back from main memory, and an emptied slot is not cold.
    """
    pins: Mapping[str, Any] = {
        "--seed": arm.samplers.seed,
        "--fit": "off",
        "--cache-ram": 0,
        "--metrics": True,
        "--slots": True,
        "--slot-save-path": tempfile.gettempdir(),
        "--verbosity": 4,
    }
    ours = [
        flag if value is True else f"{flag} {value}"
        for flag, value in pins.items()
        if able.has(flag) and words.add_unless_given(flag, value)
    ]
    return [f"pinned in every arm: {' '.join(ours)}"] if ours else []
