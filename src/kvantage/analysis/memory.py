"""Where an arm's memory is: pools of the target and of the drafter, states, weights, graphs, the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kvantage.core.facts import Facts
from kvantage.core.reading import Reading

PARTS = ("target KV", "draft KV", "state", "weights", "draft weights", "graphs", "other", "free")
"""In the order in which they are shown."""
SAME = 0.01
"""Two sizes that differ by no more than this share are one."""


@dataclass(frozen=True, slots=True)
class MemoryPart:
    """One part in bytes, as the engine says it (of most engines: on one rank), or why it is not known."""

    name: str
    bytes: Reading


@dataclass(frozen=True)
class Memory:
    """One arm's memory by part, of its first boot that told. A part that is 0 is a reading of 0."""

    arm: str
    parts: tuple[MemoryPart, ...]

    def part(self, name: str) -> Reading:
        """The part of that name. Raises KeyError when there is none."""
        for part in self.parts:
            if part.name == name:
                return part.bytes
        raise KeyError(name)


def read_memory(arm: str, boots: Sequence[Facts], control: Sequence[Facts]) -> Memory | None:
    """The memory of an arm; None where no boot told anything of it."""
    if not boots:
        return None
    facts, baseline = boots[0], control[0] if control else None
    drafted = facts.reading("draft_kv_pool_bytes")
    parts = {
        "target KV": _target(facts, baseline, drafted),
        "draft KV": drafted,
        "state": _sum(facts, ("state_cache_bytes", "state_buffer_bytes")),
        "weights": facts.reading("weights_bytes"),
        "draft weights": _draft_weights(facts),
        "graphs": facts.reading("graphs_bytes"),
        "other": _sum(facts, ("activation_bytes", "other_bytes")),
        "free": facts.reading("memory_left_bytes"),
    }
    if not any(part.known for part in parts.values()):
        return None
    return Memory(arm, tuple(MemoryPart(name, parts[name]) for name in PARTS))


def _target(facts: Facts, control: Facts | None, drafted: Reading) -> Reading:
    """The target's KV: as told, else the pool, less the drafter's where both were counted in one."""
    told, pool = facts.reading("target_kv_pool_bytes"), facts.reading("kv_pool_bytes")
    if told.known or pool.value is None or pool.source is None or not drafted.value or control is None:
        return told if told.known else pool
    tokens, each = facts.reading("kv_pool_tokens").value, control.reading("kv_bytes_per_token").value
    rest = pool.value - drafted.value
    if tokens and each and abs(tokens * each - rest) <= SAME * pool.value:
        return Reading.of(rest, "bytes", "computed", note="the pool less the drafter's share of it")
    return pool


def _draft_weights(facts: Facts) -> Reading:
    told = facts.reading("draft_weights_bytes")
    if told.known or not facts.speculation:
        return told
    if facts.reading("weights_bytes").known:
        return Reading.absent("not told apart from the weights")
    return told


def _sum(facts: Facts, names: Sequence[str]) -> Reading:
    """The sum of those that are told."""
    readings = [facts.reading(name) for name in names]
    known = [reading for reading in readings if reading.value is not None and reading.source is not None]
    if not known:
        return readings[0]
    if len(known) == 1:
        return known[0]
    notes = "; ".join(dict.fromkeys(reading.note for reading in known if reading.note))
    total = sum(reading.value for reading in known if reading.value is not None)
    return Reading.of(total, known[0].unit, "computed", note=notes or None)
