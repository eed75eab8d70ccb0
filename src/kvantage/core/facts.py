"""What a server says of itself: facts after boot, counters around each phase."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kvantage.core.reading import Reading


@dataclass(frozen=True, slots=True)
class Facts:
    """Read back after boot. The names in `readings` are the same for every engine:

    kv_pool_tokens, kv_pool_bytes, kv_pool_blocks, kv_block_tokens, kv_available_bytes,
    kv_bytes_per_token, target_kv_pool_bytes (where target and drafter share one pool),
    draft_kv_pool_bytes, state_cache_bytes, state_buffer_bytes, context_length,
    effective_max_running, requested_max_running, weights_bytes, draft_weights_bytes (where told
    apart), activation_bytes, graphs_bytes, other_bytes,
    memory_left_bytes (of the device, when all is allocated), boot_s,
    dropped_blocks (lost by every prefix hit to the drafter), max_concurrency (requests of the whole
    context that fit in the pool, as the engine prints it).

    `resolved` holds the engine's resolved settings as it reports them; `prefix_caching` is None where
    it is not told. `speculation` is the drafter as resolved, empty when nothing drafts, with
    `simulated` where acceptance is drawn by chance or lossy: by what.
    """

    engine: str
    engine_version: str | None
    readings: Mapping[str, Reading] = field(default_factory=dict)
    resolved: Mapping[str, Any] = field(default_factory=dict)
    speculation: Mapping[str, Any] = field(default_factory=dict)
    prefix_caching: bool | None = None
    warnings: tuple[str, ...] = ()

    def reading(self, name: str) -> Reading:
        """The reading of that name, or one that is missing because the server did not tell."""
        return self.readings.get(name) or Reading.absent(f"{self.engine} did not report {name}")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Counters and gauges at one moment, in the common words; what is not reported is not a key.

    counters  drafts, drafted_tokens, accepted_tokens, prefix_queries, prefix_hits, preemptions,
              prompt_tokens, generation_tokens, requests_finished, queue_s,
              decode_steps (of single requests, drafting or not: the first token's is not one)
    gauges    running, waiting, pool_usage (0 to 1), started_at (Unix seconds: tells a restart)
    accepted_per_position[i]  drafts accepted at position i (from 0)
    """

    taken_ns: int
    counters: Mapping[str, float] = field(default_factory=dict)
    gauges: Mapping[str, float] = field(default_factory=dict)
    accepted_per_position: tuple[float, ...] | None = None


@dataclass(frozen=True, slots=True)
class CounterDelta:
    """What the counters moved by between two snapshots; `reset` when one ran backwards (a restart)."""

    seconds: float
    counters: Mapping[str, float] = field(default_factory=dict)
    accepted_per_position: tuple[float, ...] | None = None
    reset: bool = False
