"""A dump of /metrics as a document: totals since the server's start, and gauges of the moment."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from kvantage.core import ArmSettings, CounterDelta, Reading, Snapshot
from kvantage.engines.acceptance import DEAD_LENGTH, SpeculationCounts
from kvantage.engines.llamacpp import metrics as llamacpp
from kvantage.engines.sglang import metrics as sglang
from kvantage.engines.vllm import facts as vllm_facts
from kvantage.engines.vllm import metrics as vllm
from kvantage.engines.vllm.counters import delta
from kvantage.inspection.document import Document

_SNAPSHOTS: Mapping[str, Callable[[str, int], Snapshot]] = {
    "llamacpp": llamacpp.snapshot,
    "sglang": sglang.snapshot,
    "vllm": vllm.snapshot,
}
_COUNTS = {
    "drafts": "spec_steps",
    "drafted_tokens": "drafted_tokens",
    "accepted_tokens": "accepted_tokens",
    "prompt_tokens": "prompt_tokens",
    "generation_tokens": "completion_tokens",
    "prefix_hits": "cached_tokens",
}
SINCE_START = "since the server's start"


def read_metrics(name: str, text: str, engine: str) -> Document:
    """One engine's counters and gauges."""
    snapshot = _SNAPSHOTS[engine](text if text.endswith("\n") else f"{text}\n", 0)
    readings, positions = counter_readings(snapshot.counters, snapshot.accepted_per_position)
    warnings = list(counter_warnings(snapshot.counters))
    waiting, running = snapshot.gauges.get("waiting"), snapshot.gauges.get("running")
    if waiting is not None:
        readings["queue_depth"] = Reading.of(waiting, "requests", "gauge", note="at this moment")
        if waiting and running:
            warnings.append(
                f"rows at concurrency {running + waiting:.0f} measured a queue: the server ran {running:.0f}"
            )
    version = None
    if engine == "sglang":
        readings |= sglang_readings(sglang.facts_of(text))
        lengths = {value for value in sglang.replicas_of(text, "sglang:spec_accept_length") if value}
        if len(lengths) > 1:
            reason = f"{len(lengths)} replicas differ, and their steps, which would weigh them, are not told"
            readings["acceptance_length"] = Reading.absent(reason)
            listed = ", ".join(f"{value:g}" for value in sorted(lengths))
            warnings.append(f"acceptance lengths of {listed} by data-parallel replica: {reason}")
    elif engine == "vllm":
        told = vllm_facts.Told(ArmSettings("inspected", "vllm", ""), cache=vllm.cache_config(text))
        found = vllm_facts.facts(told)
        readings |= {name: r for name, r in found.readings.items() if r.known and name != "dropped_blocks"}
        version = found.engine_version
    return Document(name, "metrics", engine, version, readings, positions, tuple(warnings))


def between(first: tuple[str, str], second: tuple[str, str], engine: str) -> Document | None:
    """What the counters of one server moved by between two dumps (name, text), whichever came first.

    None where they are not two moments of one life: some counters rose and others fell, or none moved.
    """
    (one, a), (other, b) = ((name, _SNAPSHOTS[engine](text, 0)) for name, text in (first, second))
    if sum(a.counters.values()) > sum(b.counters.values()):
        one, a, other, b = other, b, one, a
    moved = delta(a, b)
    if moved.reset or not any(moved.counters.values()):
        return None
    return read_difference(f"{one} to {other}", engine, moved)


def read_difference(name: str, engine: str, moved: CounterDelta) -> Document:
    """What counters moved by between two dumps of one server."""
    readings, positions = counter_readings(
        moved.counters, moved.accepted_per_position, "between the two dumps"
    )
    return Document(
        name, "metrics", engine, None, readings, positions, tuple(counter_warnings(moved.counters))
    )


def counter_readings(
    counters: Mapping[str, float], accepted_at: tuple[float, ...] | None, span: str = SINCE_START
) -> tuple[dict[str, Reading], tuple[float, ...] | None]:
    """Counts, and what follows from them; nothing follows from counts that contradict each other."""
    found = {
        word: Reading.of(
            counters[name], "steps" if word == "spec_steps" else "tokens", "counter delta", note=span
        )
        for name, word in _COUNTS.items()
        if name in counters
    }
    steps, accepted, drafted = (
        int(counters[name]) if name in counters else None
        for name in ("drafts", "accepted_tokens", "drafted_tokens")
    )
    counts = SpeculationCounts(steps, accepted, drafted).believed()
    if counts.acceptance_length is not None:
        note = f"incl. bonus token, steps without a draft not counted; {span}"
        found["acceptance_length"] = Reading.of(
            counts.acceptance_length, "tokens/step", "counter delta", note=note
        )
    if counts.acceptance_rate is not None:
        found["draft_acceptance_rate"] = Reading.of(
            counts.acceptance_rate, "accepted/drafted", "counter delta", note=span
        )
    if counts.drafts_per_step is not None:
        found["draft_tokens_per_step"] = Reading.of(
            counts.drafts_per_step, "tokens/step", "counter delta", note=span
        )
    positions = None
    if accepted_at and steps and max(accepted_at) <= steps:
        positions = tuple(value / steps for value in accepted_at)
    return found, positions


def counter_warnings(counters: Mapping[str, float]) -> Iterator[str]:
    """A dead drafter, preemptions, impossible counts."""
    accepted, drafted = counters.get("accepted_tokens"), counters.get("drafted_tokens")
    steps = counters.get("drafts")
    if accepted is not None and drafted is not None and accepted > drafted:
        yield f"{accepted:.0f} drafts accepted of {drafted:.0f} proposed is impossible: no acceptance is read"
    elif drafted and steps and accepted is not None and round(1 + accepted / steps, 2) <= DEAD_LENGTH:
        yield f"dead drafter: {accepted:.0f} of {drafted:.0f} drafts accepted; it costs and buys nothing"
    if counters.get("preemptions"):
        yield f"{counters['preemptions']:.0f} preemptions since the start: speeds of that time are void"


def sglang_readings(told: Mapping[str, float]) -> dict[str, Reading]:
    """SGLang's gauges: the server's limits, and its last decode report."""
    found: dict[str, Reading] = {}
    gib = 1 << 30
    for word, unit, scale in (
        ("kv_pool_tokens", "tokens", 1),
        ("effective_max_running", "requests", 1),
        ("context_length", "tokens", 1),
        ("kv_block_tokens", "tokens", 1),
    ):
        if told.get(word):
            found[word] = Reading.of(told[word] * scale, unit, "gauge")
    if told.get("kv_pool_gb"):
        note = "the target's pool, on one rank"
        found["kv_pool_bytes"] = Reading.of(told["kv_pool_gb"] * gib, "bytes", "gauge", note=note)
        if told.get("kv_pool_tokens"):
            per_token = told["kv_pool_gb"] * gib / told["kv_pool_tokens"]
            found["kv_bytes_per_token"] = Reading.of(per_token, "bytes/token", "computed", note=note)
    if told.get("acceptance_length"):
        note = "incl. bonus token; the last decode report's, not a mean"
        found["acceptance_length"] = Reading.of(told["acceptance_length"], "tokens/step", "gauge", note=note)
    if told.get("width", 0) > 1:
        found["draft_tokens_per_step"] = Reading.of(
            told["width"] - 1, "tokens/step", "gauge", note="k = D - 1"
        )
        if told.get("acceptance_length"):
            rate = (told["acceptance_length"] - 1) / (told["width"] - 1)
            if 0 <= rate <= 1:
                found["draft_acceptance_rate"] = Reading.of(rate, "accepted/drafted", "gauge")
    elif "draft_acceptance_rate" in told and told.get("acceptance_length"):
        note = "as printed by the last report"
        found["draft_acceptance_rate"] = Reading.of(
            told["draft_acceptance_rate"], "accepted/drafted", "gauge", note=note
        )
    return found
