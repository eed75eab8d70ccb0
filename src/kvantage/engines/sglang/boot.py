"""What SGLang says while it starts: pools, state caches, limits, and what it changed by itself."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from kvantage.engines.numbers import GIB, number, whole
from kvantage.engines.sglang.lines import LogLine

_GB = r"(\d+\.\d+) ?GB(?![a-z])"
_POOL = re.compile(
    r"(?:(?P<label>\w[\w .-]*?) )?KV Cache is allocated\.(?: dtype: (?P<dtype>[\w.]+),)?"
    r"(?: #tokens: (?P<tokens>\d+),)?"
    r"(?: K(?: size:)? (?P<k>\d+\.\d+) ?GB, V(?: size:)? (?P<v>\d+\.\d+) ?GB"
    r"| KV(?: size:)? (?P<kv>\d+\.\d+) ?GB)"
)
_POOL_AFTER_CAPTURE = re.compile(
    r"Post-capture KV sizing: (?P<draft>draft )?KV cache allocated\. dtype: (?P<dtype>[\w.]+), "
    r"#tokens: (?P<tokens>\d+), KV size: (?P<kv>\d+\.\d+) ?GB"
)
_STATE = re.compile(r"Mamba Cache is allocated\.")
_STATE_SLOTS = re.compile(r"max_mamba_cache_size: (\d+),")
_STATE_PARTS = re.compile(rf"(conv_state|ssm_state) size: {_GB}")
_STATE_BUFFERS = re.compile(rf"(intermediate_\w+) size: {_GB}")
_WEIGHTS = re.compile(rf"Load weight end\..*?type=(\w+),.*?mem usage={_GB}")
_LIMITS = re.compile(r"\bmax_total_num_tokens=\d")
_SETTING = re.compile(r"\b(\w+)=(\d+(?:\.\d+)?)(?=,| GB)")
_LAST_SETTING = re.compile(r"\bcontext_len=(\d+)\s*$")
_CEILING = re.compile(r"max_total_tokens=(\d+) is larger than the profiled value (\d+)\.")
_CAP = re.compile(
    r"max_running_requests is capped to (\d+) by the mamba state cache\s*"
    r"(?:\(max_mamba_cache_size=(\d+), (\d+) state slots per request\))?"
)
_RESET = re.compile(r"Max running requests is reset to (\d+) for speculative decoding")
_PAGE = re.compile(r"Setting page size to (\d+) for ")
_ARGUMENT = re.compile(
    r"""['"]?(\w+)['"]?\s*[=:]\s*"""
    r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\[[^\[\]]*\]|\{[^{}]*\}|[^\s,()\[\]{}'"]+)(?=[,)}\s])"""
)
_FLAG = re.compile(r"--([a-z][a-z0-9-]+)(?:[ =]+(?!--)(\S+))?(?=\s|$)")
_VERSION = re.compile(
    r"\bsglang(?:[-_ ]?version)?(?:==|[:=@/ ]+)[\"']?v?(\d+\.\d+\.\d+(?:\.?(?:post|rc|dev)\d+)?)", re.I
)
_SIMULATED = re.compile(r"\b(?:SGLANG_)?SIMULATE_ACC_\w+(?:=\S+)?")
_OFF = re.compile(r"=['\"]?(?:-1(?:\.0)?|0|false)['\",]*$", re.I)
_RETRACTED = re.compile(r"#retracted_reqs: (\d+)(?=[,\s])")
_LAYER_TOKENS = re.compile(r"\bfull_layer_tokens=(\d+),")
_SLIDING = re.compile(r"SWAKVPool mem usage|[Uu]se sliding window memory pool|DSV4 pool sizes:", re.ASCII)
_BOTH_POOLS = re.compile(r"SWAKVPool mem usage: (\d+\.\d+) ?GB, swa size: (\d+), full size: (\d+)", re.ASCII)
_LATENT_POOLS = re.compile(r"DSV4 pool sizes: full=(\d+),? swa=(\d+),? c4=", re.ASCII)
_LATENT_COST = re.compile(r"DSV4 memory calculation: bytes_per_full_token=(\d+\.\d+), ", re.ASCII)
_CHANGED = re.compile(
    r"[Ss]etting (?:page size|KV cache dtype) to \S+ for [^.]+"
    r"|(?:chunked prefill size|speculative_num_draft_tokens|mem_fraction_static|context length)"
    r" is (?:adjusted|set) to [^.]+"
    r"|(?:[Mm]ixed chunked prefill|[Rr]adix cache|[Oo]verlap schedul\w+|[Cc]uda graph|[Pp]refix cach\w+)"
    r" (?:is|are) disabled[^.]*"
    r"|overriding speculative_\w+=\S+ to \w+"
    r"|draft worker only supports attention_backend in .* Falling back to '\w+'"
)


ONE_BOOT_S = 3600.0
"""Allocations farther apart are not of one start."""


@dataclass(frozen=True, slots=True)
class Pool:
    """One allocation of KV cache on one rank. `size_bytes` comes from two digits of GiB."""

    tokens: int | None
    size_bytes: float
    dtype: str | None = None
    rank: str = ""
    label: str = ""
    stamp: str | None = None


@dataclass(slots=True)
class RankPools:
    """One rank's allocations, in the order of its lines. Each 'Memory pool end' closes a model's."""

    closed: list[list[Pool]] = field(default_factory=list)
    open: list[Pool] = field(default_factory=list)

    def close(self) -> None:
        if self.open:
            self.closed.append(self.open)
            self.open = []

    @property
    def last(self) -> Pool | None:
        """The latest allocation."""
        return next((group[-1] for group in reversed(self.groups)), None)

    @property
    def groups(self) -> list[list[Pool]]:
        """One list of allocations a model, the target's first."""
        return [*self.closed, self.open] if self.open else list(self.closed)


@dataclass(frozen=True, slots=True)
class StateCap:
    """Requests that the state cache has room for: slots // slots_per_request."""

    running: int
    slots: int | None = None
    slots_per_request: int | None = None

    def slots_for(self, requests: int) -> int | None:
        """State slots that so many requests at once would need."""
        return None if self.slots_per_request is None else self.slots_per_request * requests


@dataclass(slots=True)
class Boot:
    """Everything that the lines of one start said; what they did not is None or empty.

    `sliding`: lines speak of a sliding-window pool; `full_layer_tokens` are those of
    its other layers, on the smallest rank, and `sliding_layer_tokens` those of the pool itself;
    `both_pools_bytes` is what a line gives for the two together, `bytes_per_token` what SGLang itself counts
    for a token (compressed latents of several rates). `changed` are settings that SGLang says it changed.
    `arguments` are the server's resolved arguments as it echoes them: the wish, not always what was
    granted. `limits` holds the lines of `max_total_num_tokens=`, by rank, which is.
    """

    version: str | None = None
    arguments: dict[str, Any] = field(default_factory=dict)
    flags: dict[str, str] = field(default_factory=dict)
    limits: dict[str, dict[str, float]] = field(default_factory=dict)
    pools: dict[str, RankPools] = field(default_factory=dict)
    late_pools: list[tuple[bool, Pool]] = field(default_factory=list)
    weights: dict[str, list[tuple[str, float]]] = field(default_factory=dict)
    state_bytes: dict[str, float] = field(default_factory=dict)
    buffer_bytes: dict[str, float] = field(default_factory=dict)
    state_slots: int | None = None
    caps: list[StateCap] = field(default_factory=list)
    ceiling: tuple[int, int] | None = None
    reset_running: int | None = None
    page_size: int | None = None
    retracted: int = 0
    sliding: bool = False
    full_layer_tokens: int | None = None
    sliding_layer_tokens: int | None = None
    both_pools_bytes: float | None = None
    bytes_per_token: float | None = None
    changed: list[str] = field(default_factory=list)
    simulated: str | None = None
    started: str | None = None
    fired_up: str | None = None

    def add(self, pool: Pool) -> None:
        """A pool of its rank; one that comes much later is of another start, and replaces them."""
        told = self.pools.setdefault(pool.rank, RankPools())
        before = told.last
        apart = seconds_between(before.stamp, pool.stamp) if before is not None else None
        if apart is not None and abs(apart) > ONE_BOOT_S:
            told = self.pools[pool.rank] = RankPools()
        told.open.append(pool)

    @property
    def boot_s(self) -> float | None:
        """Seconds from the first dated line to 'fired up'."""
        seconds = seconds_between(self.started, self.fired_up)
        return seconds if seconds is not None and seconds >= 0 else None

    @property
    def speculation(self) -> str | None:
        """The algorithm's name as SGLang resolved it; None where it is off or not said."""
        name = self.arguments.get("speculative_algorithm") or self.flags.get("speculative-algorithm")
        return str(name) if name and str(name).upper() != "NONE" else None

    @property
    def width(self) -> int | None:
        """D, tokens verified in one step, as resolved."""
        return _count(self.arguments.get("speculative_num_draft_tokens")) or whole(
            self.flags.get("speculative-num-draft-tokens", "")
        )

    @property
    def page(self) -> int | None:
        """Tokens of one page, as resolved."""
        return _count(self.arguments.get("page_size")) or self.page_size

    @property
    def requested_running(self) -> int | None:
        """The wish: the command's flag, or the echo of the arguments unless SGLang itself set it."""
        echoed = None if self.reset_running is not None else self.arguments.get("max_running_requests")
        return whole(self.flags.get("max-running-requests", "")) or _count(echoed)

    @property
    def effective_running(self) -> int | None:
        """What is granted, all data-parallel ranks together: the limits' line, or the state cache's cap."""
        granted = self.limit("max_running_requests")
        caps = [cap.running for cap in self.caps]
        if granted is None:
            return min(caps, default=None)
        return min([int(sum(granted)), *(cap * len(granted) for cap in caps)])

    def limit(self, name: str) -> list[float] | None:
        """That limit of each data-parallel replica: the least of its own ranks. None where it is not told."""
        replicas: dict[str, float] = {}
        for rank, told in self.limits.items():
            if name in told:
                replica = replica_of(rank)
                replicas[replica] = min(told[name], replicas.get(replica, told[name]))
        return list(replicas.values()) or None


def seconds_between(first: str | None, second: str | None) -> float | None:
    """Seconds from one printed time to another; None where either is missing or no time."""
    if first is None or second is None:
        return None
    try:
        ends = [datetime.fromisoformat(stamp.replace(",", ".")) for stamp in (first, second)]
        return (ends[1] - ends[0]).total_seconds()
    except (ValueError, TypeError):
        return None


def replica_of(rank: str) -> str:
    """The data-parallel part of a rank: 'DP1' of 'DP1 TP3', '' where there is none."""
    return next((part for part in rank.split() if part.startswith("DP")), "")


def _limits(text: str) -> dict[str, float]:
    found = {name: value for name, digits in _SETTING.findall(text) if (value := number(digits)) is not None}
    # Older lines end here. A length that was cut off is hardly ever a multiple of 64.
    if (last := _LAST_SETTING.search(text)) and int(last[1]) % 64 == 0:
        found.setdefault("context_len", float(last[1]))
    return found


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def read_boot(lines: Iterable[LogLine]) -> Boot:
    """Read the lines of a start. Where a log holds several, the last one counts."""
    boot = Boot()
    for line in lines:
        if "server_args=" in line.text and boot.fired_up is not None:
            boot = Boot(version=boot.version)
        if line.stamp and boot.started is None:
            boot.started = line.stamp
        _read_line(boot, line)
    return boot


def _read_line(boot: Boot, line: LogLine) -> None:
    text = line.text
    if "batch" in text and ("Decode batch" in text or "Prefill batch" in text):
        return
    if "server_args=" in text:
        boot.arguments |= arguments(text.partition("server_args=")[2])
    elif "launch_server" in text or "sglang serve" in text:
        boot.flags |= flags(text)
    if "is allocated" in text or "allocated." in text:
        _read_allocation(boot, line)
    elif "Memory pool end" in text:
        boot.pools.setdefault(line.rank, RankPools()).close()
    elif found := _WEIGHTS.search(text):
        used = number(found[2])
        if used is not None:
            boot.weights.setdefault(line.rank, []).append((found[1], used * GIB))
    elif _LIMITS.search(text):
        boot.limits[line.rank] = _limits(text)
    elif found := _CEILING.search(text):
        boot.ceiling = int(found[1]), int(found[2])
    elif found := _CAP.search(text):
        slots, each = (int(part) if part else None for part in (found[2], found[3]))
        cap = StateCap(int(found[1]), slots, each)
        if cap not in boot.caps:
            boot.caps.append(cap)
    elif found := _RESET.search(text):
        boot.reset_running = int(found[1])
    elif found := _PAGE.search(text):
        boot.page_size = int(found[1])
    elif found := _RETRACTED.search(text):
        boot.retracted += int(found[1])
    elif "fired up and ready to roll" in text:
        boot.fired_up = line.stamp
    elif _SLIDING.search(text):
        _read_sliding(boot, text)
    elif found := _LATENT_COST.search(text):
        boot.bytes_per_token = number(found[1])
    if "server_args=" not in text:
        boot.changed += [told for told in _CHANGED.findall(text) if told not in boot.changed]
    if boot.simulated is None and (found := _SIMULATED.search(text)) and not _OFF.search(found[0]):
        boot.simulated = found[0]
    if boot.version is None and "sglang" in text.lower() and (found := _VERSION.search(text)):
        boot.version = found[1]


def _read_sliding(boot: Boot, text: str) -> None:
    boot.sliding = True
    full = sliding = None
    if found := _LAYER_TOKENS.search(text):
        full = int(found[1])
    elif found := _BOTH_POOLS.search(text):
        size, sliding, full = float(found[1]) * GIB, int(found[2]), int(found[3])
        # The last number may be cut off: a full pool is never smaller than the sliding one.
        full = full if full >= sliding else None
        boot.both_pools_bytes = min(size, boot.both_pools_bytes or size)
    elif found := _LATENT_POOLS.search(text):
        full, sliding = int(found[1]), int(found[2])
    if full is not None:
        boot.full_layer_tokens = min(full, boot.full_layer_tokens or full)
    if sliding is not None:
        boot.sliding_layer_tokens = min(sliding, boot.sliding_layer_tokens or sliding)


def _read_allocation(boot: Boot, line: LogLine) -> None:
    text = line.text
    if _STATE.search(text):
        if found := _STATE_SLOTS.search(text):
            boot.state_slots = int(found[1])
        for pattern, kept in ((_STATE_PARTS, boot.state_bytes), (_STATE_BUFFERS, boot.buffer_bytes)):
            sizes = [number(size) for _, size in pattern.findall(text)]
            if sizes and None not in sizes:
                kept[line.rank] = sum(size for size in sizes if size is not None) * GIB
    elif found := _POOL_AFTER_CAPTURE.search(text):
        pool = Pool(int(found["tokens"]), float(found["kv"]) * GIB, found["dtype"], line.rank)
        boot.late_pools.append((found["draft"] is not None, pool))
    elif found := _POOL.search(text):
        gib = float(found["kv"]) if found["kv"] else float(found["k"]) + float(found["v"])
        tokens = int(found["tokens"]) if found["tokens"] else None
        label = (found["label"] or "").rpartition("] ")[2]
        boot.add(Pool(tokens, gib * GIB, found["dtype"], line.rank, label, line.stamp))


def arguments(text: str) -> dict[str, Any]:
    """`ServerArgs(name=value, ...)`, a dict's text or JSON, as plain values; none that is cut off."""
    found: dict[str, Any] = {}
    for name, value in _ARGUMENT.findall(text):
        found.setdefault(name, _value(value))
    return found


def _value(text: str) -> Any:
    constants: Mapping[str, Any] = {
        "None": None,
        "null": None,
        "True": True,
        "true": True,
        "False": False,
        "false": False,
    }
    if text in constants:
        return constants[text]
    if text[0] in "'\"":
        return text[1:-1]
    as_count = whole(text)
    if as_count is not None:
        return as_count
    as_number = number(text)
    return text if as_number is None else as_number


def flags(text: str) -> dict[str, str]:
    """The flags of a command line in a log; a flag without a value is ''."""
    return {name: value.rstrip("\\").strip("'\"") for name, value in _FLAG.findall(text)}
