"""The loads that a calibration tries."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Load:
    """So many streams at once, each of `chunks` chunks a request and `requests` requests, one by one."""

    streams: int
    tokens_per_chunk: int
    step_ms: float
    chunks: int
    requests: int
    ttft_ms: float = 50.0

    @property
    def seconds(self) -> float:
        """How long a stream takes on a server that is on time."""
        return self.requests * (self.ttft_ms + (self.chunks - 1) * self.step_ms) / 1e3


FULL: tuple[Load, ...] = tuple(
    Load(streams, tokens, step_ms=20.0, chunks=64, requests=5)
    if streams <= 256
    else Load(streams, tokens, step_ms=100.0, chunks=20, requests=3)
    for streams in (1, 4, 16, 64, 256, 1024)
    for tokens in (1, 4)
)
QUICK: tuple[Load, ...] = (
    Load(4, 1, step_ms=20.0, chunks=64, requests=2),
    Load(64, 4, step_ms=20.0, chunks=64, requests=2),
)
