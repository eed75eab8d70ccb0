"""What distinguishes one engine's scheduler from another's, as plain switches and sizes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Rules:
    """How requests are admitted, batched and put back, and what a slot costs.

    running          the most requests at once
    chunk            prompt tokens in one prefill step (the whole step's tokens in mixed batches)
    mixed            prefill and decode in one step; else a prefill step goes before any decode step
    page             tokens in one page or block
    drafts           k; `draft_slots` reserves k + 1 slots a running request, not 1; `extra_slots` adds more
    drop_block       the last block of a hit is not used (drafters that need the hidden state before it)
    hit_shorter      tokens that a hit loses before it is cut to pages (keys that are pairs of tokens)
    reserve          share of a running request's remaining answer that an admission leaves room for
    reserve_new      room that an admission leaves for its own answer, up to this many tokens
    states           recurrent-state slots (hybrids), None where the model has none
    states_running   slots that a running request holds
    state_each_chunk a prefill step leaves a state in the cache, not only the last one
    newest_first     a shortage puts back the request that came last; else the one with the least output
    """

    running: int = 256
    chunk: int = 8192
    mixed: bool = False
    page: int = 1
    drafts: int = 0
    draft_slots: bool = True
    extra_slots: int = 0
    drop_block: bool = False
    hit_shorter: int = 0
    reserve: float = 0.7
    reserve_new: int = 4096
    states: int | None = None
    states_running: int = 1
    state_each_chunk: bool = True
    newest_first: bool = False
    prefix_caching: bool = True

    @property
    def reserved(self) -> int:
        """Slots that a running request needs beyond its length for the next step."""
        return (self.drafts + 1 if self.draft_slots else 1) + self.extra_slots
