"""What a run tells whoever watches it: small events with plain fields."""

from __future__ import annotations

from typing import Any, Protocol


class Observer(Protocol):
    """Hears of everything as it happens; must return at once.

    Kinds and their fields:

        plan        arms, chains, estimate_s, basis
        block       number (from 0), most (blocks there may be), boots: (arm, block, chains) in order
        look        number (of blocks so far), decided, words
        boot        arm, block, log
        ready       arm, block, seconds, pool_tokens, version
        chain       arm, block, chain
        cell        arm, block, phase, workload, concurrency, requests
        request     arm, phase, workload, concurrency, prompt_id, ok, output_tokens, cached_tokens,
                    prompt_tokens, accepted_tokens, spec_steps, seconds, error
        live        tok_s, acceptance_length (of the last second, bonus included), in_flight, and the
                    server's gauges: running, waiting, pool_usage
        left        seconds, basis
        skip        arm, block, chain, phase, workload, reason
        failed      arm, block, reason, log_lines
        stopped     arm, block
        ask         text (something that the person is to do now)
        warning     text
    """

    def on(self, kind: str, **fields: Any) -> None:
        """Take note of one event."""
        ...


class Silent:
    """An observer that looks away."""

    def on(self, kind: str, **fields: Any) -> None:
        """Nothing."""
