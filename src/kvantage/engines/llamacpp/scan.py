"""llama-server's log, scanned: its start (pools, slots, drafter) and each request's timings."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from kvantage.engines.llamacpp.lines import LogLine, read_lines
from kvantage.engines.numbers import MIB

_BUILD = re.compile(r"\bbuild(?::| =)? (\d+) \((\w+)\)(?: with |$)")
_POOL = re.compile(
    r"llama_kv_cache\w*: +size = +(?P<mib>\d+\.\d+) MiB \( *(?P<cells>\d+) cells, +(?P<layers>\d+) layers, +"
    r"(?P<seqs>\d+)(?:/ *(?P<streams>\d+))? seqs\)"
)
_POOL_OLD = re.compile(r"KV self size += +(?P<mib>\d+\.\d+) MiB, (?:K|c\^KV) \(")
_STATE = re.compile(r"llama_memory_recurrent: +size = +(\d+\.\d+) MiB \( *(\d+) cells,")
_POOL_SIZE = re.compile(r"llama_kv_cache\w*: kv_size = (\d+), ")
_SLIDING = re.compile(r"creating +(non-)?SWA KV cache")
_CONTEXT = re.compile(r"(?:llama_context|llama_new_context_with_model): n_ctx += (\d+)$")
_SLOTS = re.compile(r"initializing(?: slots)?, n_slots = (\d+)(?:, n_ctx_slot = (\d+),)?")
_WEIGHTS = re.compile(r"load_tensors: +\w+ model buffer size = +(\d+\.\d+) MiB")
_DRAFTER = ("loading draft model", "creating MTP draft context")
_IMPLEMENTATION = re.compile(r"adding speculative implementation '([\w-]+)'")
_MOST_DRAFTS = re.compile(r"\bn_max=(\d+),|\bsize_value=(\d+),")
_OFF = "no implementations specified for speculative decoding"
_FAILED = re.compile(r"failed to initialize speculative decoding context: (.+)")
_SYNTHETIC = re.compile(r"synthetic (?:speculative )?acceptance|--spec-synth\S*|LLAMA_ARG_SPEC_SYNTH\w*")
_SLOT = re.compile(r"new slot,? (?:n_ctx_slot|n_ctx) = (\d+)$")
_EXAMPLE = re.compile(r"^n_(drafted|accept) += (\d+)$")
_EXAMPLE_SPEED = re.compile(
    r"^(?:decoded|generated) +(\d+) tokens in +(\d+\.\d+) seconds, speed: +(\d+\.\d+) t/s$"
)
_CONTEXT_TIMES = re.compile(r"llama_(?:print_timings|perf_\w+): ")
"""Times of a whole context. In the speculative example they count the drafter's runs and verifications."""
_EXAMPLE_RATE = re.compile(r"^accept += (\d+\.\d{3})%$")
PADDING = 256
"""Contexts are whole multiples of this; one that was cut off at its line's end hardly ever is."""
_PROMPT = re.compile(r"task (-?\d+) \| +prompt eval time = +\d+\.\d+ ms / +(\d+) tokens \(")
_OUTPUT = re.compile(
    r"(?<!prompt )\beval time = +(\d+\.\d+) ms / +(\d+) (?:tokens|runs) +\("
    r"(?: *\d+\.\d+ ms per token, +(\d+\.\d+) tokens per second\))?"
)
_ACCEPTED = re.compile(
    r"draft acceptance(?: rate)? = +(\d+\.\d+) *\( *(\d+) accepted / +(\d+) generated\)"
    r"(?:, mean (?:len|acceptance length) = +(\d+\.\d\d)(?!\d))?"
    r"(?:, acceptance rate per position = \(((?:\d\.\d{3}(?:, )?)+)\))?"
)
_CACHED = re.compile(r"task (-?\d+) \| cached n_tokens = (\d+),")
_STATISTICS = re.compile(r"statistics +([\w-]+): #calls(?:\(b,g,a\))? = +(\d+)(?: +(\d+) +(\d+))?, (.+)")
_STATISTIC = re.compile(r"#(gen drafts|acc drafts|gen tokens|acc tokens) = +(\d+)(,|$)")
_REQUEST_POSITIONS = re.compile(r"acc per pos = \(((?:\d\.\d{3}(?:, )?)+)\)")
_ROUND = re.compile(r"accepted +(\d+)/ *(\d+) draft tokens, ")
_PER_POSITION = re.compile(r"#acc rate/pos = \(((?:\d\.\d{3}(?:, )?)+)\)")
_TELLING = re.compile(
    r"(GGML_ASSERT|error while handling argument|error: invalid argument|exiting due to|failed to |"
    r"error loading model|out of memory|not compatible with the target model '[^']*'$|"
    r"Address already in use|couldn't bind|the argument has been removed)"
)


@dataclass(frozen=True, slots=True)
class Pool:
    """A KV allocation: `tokens` cells over all its streams; None where an old line does not say."""

    size_bytes: float
    tokens: int | None
    sliding: bool = False


@dataclass(frozen=True, slots=True)
class Statistics:
    """A drafting implementation's totals since the start. `calls` is one count, or three by newer builds.

    `acc_drafts` counts drafts of which at least one token was accepted. `whole` is False where the line ends
    in a count, as it does in some builds: it may have been cut off there.
    """

    implementation: str
    calls: tuple[int, ...]
    gen_drafts: int | None = None
    acc_drafts: int | None = None
    gen_tokens: int | None = None
    acc_tokens: int | None = None
    per_position: tuple[float, ...] = ()
    whole: bool = True


@dataclass(frozen=True, slots=True)
class RequestTimings:
    """One request's lines."""

    output_tokens: int | None = None
    output_ms: float | None = None
    tok_s: float | None = None
    accepted: int | None = None
    drafted: int | None = None
    length: float | None = None
    per_position: tuple[float, ...] = ()


@dataclass(slots=True)
class Log:
    """Everything that the lines said; what they did not is None or empty."""

    version: str | None = None
    target: list[Pool] = field(default_factory=list)
    draft: list[Pool] = field(default_factory=list)
    cells: int | None = None
    state_bytes: float | None = None
    contexts: list[int] = field(default_factory=list)
    slots: int | None = None
    slot_context: int | None = None
    target_weights: float = 0.0
    draft_weights: float = 0.0
    drafter_loaded: bool = False
    implementations: list[str] = field(default_factory=list)
    most_drafts: int | None = None
    off: bool = False
    failed: str | None = None
    synthetic: str | None = None
    statistics: dict[str, Statistics] = field(default_factory=dict)
    requests: list[RequestTimings] = field(default_factory=list)
    prompts: dict[str, int] = field(default_factory=dict)
    cached: dict[str, int] = field(default_factory=dict)
    example: dict[str, int] = field(default_factory=dict)
    rounds: list[tuple[int, int]] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    ready_s: float | None = None
    errors: list[str] = field(default_factory=list)

    @property
    def speculating(self) -> bool | None:
        """Whether anything drafts; None where the lines do not say."""
        if self.failed is not None or self.off:
            return False
        return True if self.implementations or self.statistics or self.drafted else None

    @property
    def drafted(self) -> list[RequestTimings]:
        """The requests that drafted."""
        return [request for request in self.requests if request.drafted is not None]


def scan(lines: Iterable[str]) -> Log:
    """Read lines of any build. Where a log holds several starts, the last one counts."""
    log = Log()
    sliding = False
    for line in read_lines(lines):
        if log.ready_s is not None and _BUILD.search(line.text):
            log = Log()
        if found := _SLIDING.search(line.text):
            sliding = found[1] is None
            continue
        sliding = _scan_start(log, line, sliding)
        _scan_request(log, line.text)
        telling = line.level == "E" or _TELLING.search(line.text)
        if telling and line.level not in ("I", "W") and len(line.text) < 1000:
            log.errors.append(line.text.strip())
    return log


def _scan_start(log: Log, line: LogLine, sliding: bool) -> bool:
    text = line.text
    if found := _BUILD.search(text):
        log.version = None if found[2] == "unknown" else f"b{found[1]}-{found[2]}"
    elif any(mark in text for mark in _DRAFTER):
        log.drafter_loaded = True
    elif found := _POOL.search(text):
        tokens = int(found["cells"]) * int(found["streams"] or 1)
        pool = Pool(float(found["mib"]) * MIB, tokens, sliding)
        (log.draft if log.drafter_loaded else log.target).append(pool)
        return False
    elif found := _POOL_OLD.search(text):
        context = log.contexts[-1] if log.contexts else None
        pool = Pool(float(found["mib"]) * MIB, log.cells or context)
        log.cells = None
        (log.draft if log.drafter_loaded else log.target).append(pool)
    elif found := _POOL_SIZE.search(text):
        log.cells = int(found[1])
    elif found := _STATE.search(text):
        log.state_bytes = (log.state_bytes or 0.0) + float(found[1]) * MIB
    elif found := _CONTEXT.search(text):
        if int(found[1]) % PADDING == 0:
            log.contexts.append(int(found[1]))
    elif found := _SLOTS.search(text):
        log.slots, log.slot_context = int(found[1]), int(found[2]) if found[2] else None
    elif log.slot_context is None and (found := _SLOT.search(text)):
        log.slot_context = int(found[1]) if int(found[1]) % PADDING == 0 else None
    elif found := _WEIGHTS.search(text):
        size = float(found[1]) * MIB
        if log.drafter_loaded:
            log.draft_weights += size
        else:
            log.target_weights += size
    elif found := _IMPLEMENTATION.search(text):
        log.implementations.append(found[1])
    elif log.implementations and log.most_drafts is None and (found := _MOST_DRAFTS.search(text)):
        log.most_drafts = int(found[1] or found[2])
    elif _OFF in text:
        log.off = True
    elif found := _FAILED.search(text):
        log.failed = found[1].strip()
    elif log.synthetic is None and _SYNTHETIC.search(text):
        log.synthetic = text.partition(": ")[2].strip() or text.strip()
    elif log.ready_s is None and ("listening on http" in text or "server is listening on" in text):
        log.ready_s = line.at_s
    return sliding


def _scan_request(log: Log, text: str) -> None:
    if found := _PROMPT.search(text):
        if found[1] in log.cached:
            log.prompts[found[1]] = int(found[2]) + log.cached[found[1]]
    elif found := _OUTPUT.search(text):
        if "prompt eval time" not in text and not (log.example and _CONTEXT_TIMES.search(text)):
            speed = float(found[3]) if found[3] else None
            log.requests.append(RequestTimings(int(found[2]), float(found[1]), speed))
    elif (found := _ACCEPTED.search(text)) and not _adds_up(found):
        log.broken.append(found[0])
    elif found:
        last = log.requests.pop() if log.requests and log.requests[-1].drafted is None else RequestTimings()
        length = float(found[4]) if found[4] else None
        log.requests.append(
            replace(
                last,
                accepted=int(found[2]),
                drafted=int(found[3]),
                length=length,
                per_position=_rates(found[5]),
            )
        )
    elif found := _REQUEST_POSITIONS.search(text):
        if log.requests and log.requests[-1].drafted is not None:
            log.requests[-1] = replace(log.requests[-1], per_position=_rates(found[1]))
    elif found := _ROUND.search(text):
        log.rounds.append((int(found[1]), int(found[2])))
    elif found := _STATISTICS.search(text):
        counts = _STATISTIC.findall(found[5].rstrip())
        told = {name: int(value) for name, value, _ in counts}
        calls = tuple(int(part) for part in found.groups()[1:4] if part)
        positions = _PER_POSITION.search(found[5])
        log.statistics[found[1]] = Statistics(
            found[1],
            calls,
            told.get("gen drafts"),
            told.get("acc drafts"),
            told.get("gen tokens"),
            told.get("acc tokens"),
            _rates(positions[1]) if positions else (),
            all(end for _, _, end in counts),
        )
    elif found := _EXAMPLE_SPEED.match(text):
        log.requests.append(RequestTimings(int(found[1]), float(found[2]) * 1e3, float(found[3])))
    elif found := _EXAMPLE.match(text):
        log.example[found[1]] = int(found[2])
    elif found := _EXAMPLE_RATE.match(text):
        accepted, drafted = log.example.get("accept"), log.example.get("drafted")
        # Counts at their lines' ends may be cut off: the rate must be theirs.
        if accepted is not None and drafted and abs(100 * accepted / drafted - float(found[1])) < 0.001:
            last = RequestTimings()
            if log.requests and log.requests[-1].drafted is None:
                last = log.requests.pop()
            log.requests.append(replace(last, accepted=accepted, drafted=drafted))
    elif found := _CACHED.search(text):
        log.cached.setdefault(found[1], int(found[2]))


def _adds_up(told: re.Match[str]) -> bool:
    """Whether the printed rate is that of the counts beside it, to its last digit."""
    accepted, drafted = int(told[2]), int(told[3])
    digits = len(told[1].partition(".")[2])
    return accepted <= drafted and abs(accepted / (drafted or 1) - float(told[1])) <= 1.01 * 10**-digits


def _rates(text: str | None) -> tuple[float, ...]:
    """Rates as `0.805, 0.632`; none where there is no text."""
    return tuple(float(rate) for rate in text.split(", ")) if text else ()
