"""llama.cpp's `timings` of one response, and what may be concluded from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kvantage.engines.numbers import count, quantity


@dataclass(frozen=True, slots=True)
class Timings:
    """Counts and times of one request. None is 'not reported': `draft_n` comes only where something drafted.

    The number of verification steps is not told (ggml-org/llama.cpp#27676), except as `draft_rounds` or
    `draft_n_verif_steps` by some builds, and drafts are counted before the reply is cut at its end.
    """

    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    output_ms: float | None = None
    output_per_s: float | None = None
    prompt_ms: float | None = None
    drafted: int | None = None
    accepted: int | None = None
    rounds: int | None = None

    @property
    def tok_s(self) -> float | None:
        """Output tokens per second of generation."""
        if self.output_per_s is not None:
            return self.output_per_s
        return self.output_tokens / self.output_ms * 1e3 if self.output_tokens and self.output_ms else None

    @property
    def acceptance_rate(self) -> float | None:
        """accepted / drafted."""
        if self.accepted is None or not self.drafted or self.accepted > self.drafted:
            return None
        return self.accepted / self.drafted

    @property
    def drafter_length(self) -> float | None:
        """1 + accepted / rounds: what the drafter achieved, before the reply was cut."""
        return 1 + self.accepted / self.rounds if self.accepted is not None and self.rounds else None

    @property
    def delivered_length(self) -> float | None:
        """(output - 1) / rounds: what reached the client; the first token is the prompt's own."""
        return (self.output_tokens - 1) / self.rounds if self.output_tokens and self.rounds else None

    @property
    def least_steps(self) -> int | None:
        """output - accepted: the fewest steps of the target, where the reply was not cut inside a draft.

        None where more was accepted than sent, since that is exactly such a cut.
        """
        if self.output_tokens is None or self.accepted is None or self.accepted >= self.output_tokens:
            return None
        return self.output_tokens - self.accepted

    @property
    def length_estimate(self) -> float | None:
        """output / least steps: an estimate of the acceptance length, draftless steps counted."""
        return self.output_tokens / self.least_steps if self.least_steps and self.output_tokens else None

    @property
    def prompt_was_cached(self) -> bool:
        """True where hardly anything of the prompt was computed, so that its speed says nothing."""
        return self.prompt_tokens is not None and self.prompt_tokens <= 1


def timings_of(answer: Mapping[str, Any]) -> Timings:
    """The `timings` of an answer, or of the timings themselves."""
    inner = answer.get("timings")
    told: Mapping[str, Any] = inner if isinstance(inner, Mapping) else answer
    return Timings(
        prompt_tokens=count(told.get("prompt_n")),
        cached_tokens=count(told.get("cache_n")),
        output_tokens=count(told.get("predicted_n")),
        output_ms=quantity(told.get("predicted_ms")),
        output_per_s=quantity(told.get("predicted_per_second")),
        prompt_ms=quantity(told.get("prompt_ms")),
        drafted=count(told.get("draft_n")),
        accepted=count(told.get("draft_n_accepted")),
        rounds=count(told.get("draft_rounds", told.get("draft_n_verif_steps"))),
    )
