"""Which allocation is whose: SGLang prints a target's and a draft's, or a sliding and a full one, alike."""

from __future__ import annotations

from dataclasses import dataclass

from kvantage.engines.sglang.boot import Boot, Pool

HALF_DIGIT_BYTES = 0.005 * (1 << 30)
"""Sizes are printed as GiB with two digits: each is known to this many bytes."""


@dataclass(frozen=True, slots=True)
class Pools:
    """One rank's pools: the rank with the fewest tokens, which binds all others.

    `sliding` is the target's second pool, of its sliding-window layers. `rounding_bytes` is how far the
    target's bytes may be from what is printed.
    """

    full: Pool
    sliding: Pool | None = None
    draft: tuple[Pool, ...] = ()
    ranks: int = 1
    by: str = ""

    @property
    def target_bytes(self) -> float:
        """The target's KV: full and sliding layers together."""
        return self.full.size_bytes + (self.sliding.size_bytes if self.sliding else 0.0)

    @property
    def draft_bytes(self) -> float:
        """The drafter's own KV; 0 where it has none."""
        return sum(pool.size_bytes for pool in self.draft)

    @property
    def rounding_bytes(self) -> float:
        """Two numbers (K and V) of each of the target's pools, each rounded."""
        return HALF_DIGIT_BYTES * (4 if self.sliding else 2)


def pools_of(boot: Boot, *, speculating: bool) -> Pools | None:
    """The binding rank's pools, told apart. `speculating`: reports of acceptance were seen.

    'Memory pool end.' closes one model's allocations. Without it: pools of equal tokens are target and
    draft (unless speculation is known to be off), pools of unequal tokens are the sliding and the full pool
    of one target.
    """
    known_off = "speculative_algorithm" in boot.arguments and boot.speculation is None and not speculating
    candidates = []
    for rank_pools in boot.pools.values():
        if groups := rank_pools.groups:
            candidates.append(_roles(groups, known_off, len(rank_pools.closed), boot.sliding))
    if boot.late_pools:
        target = [pool for is_draft, pool in boot.late_pools if not is_draft]
        draft = tuple(pool for is_draft, pool in boot.late_pools if is_draft)
        if target:
            candidates = [Pools(min(target, key=_tokens), None, draft, by="its own label")]
    if not candidates:
        return None
    binding = min(candidates, key=lambda pools: _tokens(pools.full))
    return Pools(binding.full, binding.sliding, binding.draft, len(candidates), binding.by)


def _tokens(pool: Pool) -> float:
    return float("inf") if pool.tokens is None else pool.tokens


def _roles(groups: list[list[Pool]], known_off: bool, closed: int, sliding_told: bool) -> Pools:
    if len(groups) > 1:
        draft = tuple(pool for group in groups[1:] for pool in group)
        full, sliding = _full_and_sliding(groups[0])
        return Pools(
            full, sliding, () if known_off else draft, by="its place after the target's 'Memory pool end'"
        )
    pools = groups[0]
    if known_off or closed or len(pools) == 1 or (len(pools) == 2 and (sliding_told or _labelled(pools))):
        full, sliding = _full_and_sliding(pools)
        return Pools(full, sliding)
    if len(pools) == 2:
        first, second = pools
        if first.tokens == second.tokens:
            return Pools(first, None, (second,), by="its place: the second of two equal pools")
        full, sliding = _full_and_sliding(pools)
        return Pools(full, sliding)
    full, sliding = _full_and_sliding(pools[:2])
    return Pools(full, sliding, tuple(pools[2:]), by="its place after the target's two pools")


def _full_and_sliding(pools: list[Pool]) -> tuple[Pool, Pool | None]:
    if (labelled := _labelled(pools)) is not None:
        return labelled
    if len(pools) == 1:
        return pools[0], None
    first, second = pools[:2]
    if first.tokens == second.tokens:
        return first, second
    return (first, second) if _tokens(first) > _tokens(second) else (second, first)


def _labelled(pools: list[Pool]) -> tuple[Pool, Pool] | None:
    """(full, sliding) where recent versions name them."""
    by_label = {pool.label.lower(): pool for pool in pools}
    return (by_label["full"], by_label["swa"]) if {"full", "swa"} <= by_label.keys() else None
