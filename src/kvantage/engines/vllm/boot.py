"""What the boot log tells of a server, in the words of every version from V0 to 0.33."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kvantage.engines import numbers
from kvantage.engines.numbers import GIB
from kvantage.engines.vllm.lines import Line, read_lines

_GROUPED = re.compile(r"\d{1,3}(,\d{3})+", re.ASCII)
_POOL = re.compile(r"\b(?:GPU|CPU|XPU|TPU|HPU|[A-Z]+)(?: \+ host)? KV cache size: ([\d,]+) tokens")
_CONCURRENCY = re.compile(r"Maximum concurrency for ([\d,]+) tokens per request: ([\d.]+)x")
_AVAILABLE = re.compile(r"Available KV cache memory: (-?[\d.]+) GiB")
_IN_USE = re.compile(r"Current kv cache memory in use is ([\d.]+) (GiB|bytes)")
_V0_AVAILABLE = re.compile(
    r"(?:\bkv_cache_size=|the rest of the memory reserved for KV Cache is )(\d+\.\d+) ?GiB", re.ASCII
)
_CPU_GRANT = re.compile(r"(?:Explicitly|Auto) set \(([\d.]+)/[\d.]+\) GiB for KV cache")
_V0_BLOCKS = re.compile(
    r"(?:^|# )(?:gpu|cuda|rocm|xpu|tpu|hpu|neuron|npu|cpu) blocks: (\d+)", re.I | re.ASCII
)
_OVERRIDE = re.compile(r"Overriding num_gpu_blocks=(\d+) with num_gpu_blocks_override=")
_BLOCK_SIZE = re.compile(r"Setting (?:kv cache|attention) block size to (\d+)")
_WEIGHTS = re.compile(
    r"(?:Model loading took|Loading model weights took|model weights take) (\d+\.\d+) ?(?:GiB|GB)", re.ASCII
)
"""Versions that write GB divide by 2**30 all the same."""
_USAGE = re.compile(
    r"Actual usage is ([\d.]+) GiB for weight, ([\d.]+) GiB for peak activation,"
    r" ([\d.]+) GiB for non-torch memory, and ([\d.]+) GiB for CUDAGraph memory"
)
_INIT = re.compile(r"init engine \([^)]*\) took ([\d.]+) s")
_CONTEXT = re.compile(r"(?:Using max model len |\bmax_seq_len=)(\d+)")
_BATCHED = re.compile(r"Chunked prefill is enabled with max_num_batched_tokens=(\d+)")
_SCHEDULED = re.compile(r"max_num_scheduled_tokens is set to (\d+)")
_VERSION = re.compile(r"(?:LLM engine \(v|\bversion )(\d+\.\d+[\w.+-]*)")
_SPECULATION = re.compile(r"speculative_config=(None|SpeculativeConfig\((.*?)\)),")
_FIELD = re.compile(r"(\w+)=('(?:[^']*)'|[^,\s)]+)")
_CACHING = re.compile(r"\benable_prefix_caching=(True|False)\b")
_CACHING_OFF = re.compile(
    r"(forcing chunked prefill and prefix caching to be disabled|[Dd]isabl\w+ prefix caching"
    r"|prefix caching; disabling)"
)
_LOSSY = re.compile(
    r"""rejection[_-]sample[_-]method['"]?\s*[:= ]\s*['"]?(?:synthetic|fly)\b"""
    r"""|synthetic[_-]acceptance[_-](?:length|rates?)['"]?\s*[:= ]\s*['"]?[\[\d][\d., \]]*"""
)


@dataclass(frozen=True, slots=True)
class BootLog:
    """Figures of the boot log; None is 'not told'.

    pool_tokens     as printed, summed over engines; on hybrids it is max_concurrency x context_length
    kv_bytes        by rank, data-parallel engines apart ('' for a single one), rounded by vLLM to 0.01 GiB;
                    `binding_kv_bytes` is the least of them, which decides the pool
    block_tokens    where the log says that vLLM chose it
    batched_tokens  the most tokens of one step; `scheduled_tokens` is what speculation leaves of them
    profiled_blocks how many blocks the memory would have given, where their number was set
    overhead_bytes  on the first rank that tells it: activation, other (not PyTorch's), graphs
    caching_off     vLLM's words when it turned prefix caching off by itself
    pools           pool tokens of each engine
    engines         (pool tokens, length, concurrency for it) of each engine that tells all three
    """

    version: str | None = None
    pool_tokens: int | None = None
    pool_blocks: int | None = None
    profiled_blocks: int | None = None
    max_concurrency: float | None = None
    concurrency_length: int | None = None
    kv_bytes: Mapping[str, float] = field(default_factory=dict)
    weights_bytes: Mapping[str, float] = field(default_factory=dict)
    overhead_bytes: Mapping[str, float] = field(default_factory=dict)
    block_tokens: int | None = None
    context_length: int | None = None
    batched_tokens: int | None = None
    scheduled_tokens: int | None = None
    init_s: float | None = None
    prefix_caching: bool | None = None
    caching_off: str | None = None
    speculation: Mapping[str, Any] | None = None
    simulated: str | None = None
    pools: Mapping[str, int] = field(default_factory=dict)
    engines: Mapping[str, tuple[int, int, float]] = field(default_factory=dict)

    @property
    def binding_kv_bytes(self) -> float | None:
        """KV memory of the rank that has least, which bounds the pool on all. None where it has none."""
        least = min(self.kv_bytes.values(), default=None)
        return None if least is None or least < 0 else least

    @property
    def tokens_agree(self) -> bool | None:
        """Whether tokens / length is the printed concurrency: where not, the two count different things."""
        if not self.engines:
            return None
        return all(
            abs(tokens / length - concurrency) <= 0.006 + 0.001 * concurrency
            for tokens, length, concurrency in self.engines.values()
        )

    @property
    def block_tokens_by_concurrency(self) -> int | None:
        """Tokens of a block, of a version that tells blocks and the concurrency that they give.

        blocks x block / length is the printed concurrency; only a power of two is believed, so that a
        number of blocks that was cut off tells nothing.
        """
        if not self.pool_blocks or not self.concurrency_length or not self.max_concurrency:
            return None
        low, high = (
            (self.max_concurrency + half_digit) * self.concurrency_length / self.pool_blocks
            for half_digit in (-0.006, 0.006)
        )
        fitting = [size for size in (1 << power for power in range(13)) if low <= size <= high]
        return fitting[0] if len(fitting) == 1 else None


def boot_log(raw: Iterable[str]) -> BootLog:
    """Read any span of lines; a line that says nothing of the boot is passed over."""
    told: dict[str, Any] = {}
    pools: dict[str, int] = {}
    concurrencies: dict[str, tuple[int, float]] = {}
    sized = False
    in_use: dict[str, float] = {}
    available: dict[str, float] = {}
    weights: dict[str, float] = {}
    for line in read_lines(raw):
        text = line.text
        if (found := _POOL.search(text)) and (tokens := whole(found[1])):
            pools[line.writer], sized = tokens, True
        if found := _CONCURRENCY.search(text):
            length, concurrency = whole(found[1]), numbers.number(found[2])
            if length and concurrency is not None:
                concurrencies[line.writer] = length, concurrency
        if found := _AVAILABLE.search(text) or _CPU_GRANT.search(text) or _V0_AVAILABLE.search(text):
            granted = (numbers.number(found[1]) or 0.0) * GIB
            # Lines that lost their writers may be of several ranks: the least binds, until a pool is sized.
            if line.rank == line.writer == "" and not sized:
                granted = min(granted, available.get("", granted))
            available[line.rank], sized = granted, False
        if found := _IN_USE.search(text):
            in_use[line.rank] = (numbers.number(found[1]) or 0.0) * (GIB if found[2] == "GiB" else 1)
        if found := _WEIGHTS.search(text):
            weights[line.rank] = (numbers.number(found[1]) or 0.0) * GIB
        if "overhead_bytes" not in told and (found := _USAGE.search(text)):
            figures = [numbers.number(found[place]) for place in (2, 3, 4)]
            told["overhead_bytes"] = {
                name: figure * GIB
                for name, figure in zip(("activation", "other", "graphs"), figures, strict=True)
                if figure is not None
            }
        read_settings(line, told)
    if concurrencies:
        told["concurrency_length"] = next(iter(concurrencies.values()))[0]
        if len({length for length, _ in concurrencies.values()}) == 1:
            told["max_concurrency"] = sum(concurrency for _, concurrency in concurrencies.values())
    told["engines"] = {
        writer: (pools[writer], *concurrencies[writer]) for writer in pools if writer in concurrencies
    }
    return BootLog(
        pool_tokens=sum(pools.values()) or None,
        pools=pools,
        kv_bytes=available | in_use,
        weights_bytes=weights,
        **told,
    )


def read_settings(line: Line, told: dict[str, Any]) -> None:
    """The first telling of each setting counts: a drafter's own lines come after the target's."""
    text = line.text
    for name, pattern, kind in (
        ("version", _VERSION, str),
        ("block_tokens", _BLOCK_SIZE, whole),
        ("context_length", _CONTEXT, whole),
        ("pool_blocks", _V0_BLOCKS, whole),
        ("profiled_blocks", _OVERRIDE, whole),
        ("batched_tokens", _BATCHED, whole),
        ("scheduled_tokens", _SCHEDULED, whole),
        ("init_s", _INIT, numbers.number),
    ):
        if name not in told and (found := pattern.search(text)):
            told[name] = kind(found[1])
    if "prefix_caching" not in told and (found := _CACHING.search(text)):
        told["prefix_caching"] = found[1] == "True"
    if "caching_off" not in told and _CACHING_OFF.search(text):
        told["caching_off"] = text.strip()
    if "speculation" not in told and (found := _SPECULATION.search(text)):
        fields = {name: value.strip("'") for name, value in _FIELD.findall(found[2] or "")}
        told["speculation"] = {name: value for name, value in fields.items() if value != "None"}
    if "simulated" not in told and (found := _LOSSY.search(text)):
        told["simulated"] = re.sub(r"['\"]", "", found[0]).rstrip(", ")


def whole(text: str) -> int | None:
    """A whole number as printed, thousands separated or not; None for what only looks like one."""
    plain = text.replace(",", "") if _GROUPED.fullmatch(text) else text
    return numbers.whole(plain)
