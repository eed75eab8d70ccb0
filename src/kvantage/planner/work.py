"""What a study asks of every arm, in numbers: what a simulation replays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Short:
    """Short prompts of one workload, one at a time."""

    warmups: int
    repeats: int
    output_tokens: int


@dataclass(frozen=True)
class Work:
    """Documents in waves, each wave repeated, and short prompts by workload. Lengths are in tokens.

    The requests of a wave arrive together, or `apart_s` seconds after each other.
    """

    document_tokens: int = 0
    concurrency: Sequence[int] = ()
    waves: int = 1
    cold_output: int = 512
    repeat_output: int | None = 2048
    short: Mapping[str, Short] = field(default_factory=dict)
    short_prompt_tokens: int = 200
    apart_s: float = 0.0
    reverse_repeats: bool = False
