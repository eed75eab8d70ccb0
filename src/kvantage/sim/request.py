"""A request in the simulated engine, and what is known of it when it is finished."""

from __future__ import annotations

from dataclasses import dataclass, field

from kvantage.sim.pieces import Pieces, cut, join, text, total


@dataclass
class Request:
    """`prompt` and the exact number of tokens to answer. Times are seconds of virtual time.

    `whole` is the prompt with its answer, where what will be said is known; else it is a text of its own.
    """

    name: str
    prompt: Pieces
    output_tokens: int
    workload: str = ""
    arrival: float = 0.0
    prompt_tokens: int = 0
    computed: int = 0
    produced: int = 0
    matched: int = 0
    cached_tokens: int = 0
    first_cached: int | None = None
    scheduled: float | None = None
    first: float | None = None
    end: float | None = None
    retractions: int = 0
    steps: int = 0
    accepted: int = 0
    drafted: int = 0
    slots: int = 0
    whole: Pieces | None = None
    chunks: list[tuple[float, int]] = field(default_factory=list)
    accepted_counts: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.prompt_tokens = total(self.prompt)
        if self.prompt_tokens < 1 or self.output_tokens < 1:
            raise ValueError("a request has at least one prompt token and one output token")

    @property
    def length(self) -> int:
        """Tokens of prompt and answer so far."""
        return self.prompt_tokens + self.produced

    @property
    def remaining(self) -> int:
        """Output tokens still to come."""
        return self.output_tokens - self.produced

    @property
    def prefilling(self) -> bool:
        """True while tokens that are known have not been computed (the newest token never is)."""
        return self.computed < max(self.prompt_tokens, self.length - 1)

    def sequence(self) -> Pieces:
        """Prompt and answer so far."""
        if self.whole is not None:
            return cut(self.whole, 0, self.length)
        return join(self.prompt, text(("answer", self.name), self.produced))

    @property
    def queued(self) -> float:
        """Seconds between arrival and the first step that worked on it."""
        return (self.scheduled or self.arrival) - self.arrival

    @property
    def ttft(self) -> float:
        """Seconds to the first token."""
        return (self.first or self.arrival) - self.arrival

    @property
    def acceptance_length(self) -> float | None:
        """Tokens a step, bonus included; None where no step was taken."""
        return 1 + self.accepted / self.steps if self.steps else None
