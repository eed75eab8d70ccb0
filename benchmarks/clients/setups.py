"""What is measured: the server's stream, the processors, and how many streams."""

from __future__ import annotations

from dataclasses import dataclass

TTFT_MS, STEP_MS, CHUNKS = 50.0, 20.0, 64


@dataclass(frozen=True)
class Setup:
    """`all_cores` lets a client use every processor; else it has one, and the server another."""

    name: str
    title: str
    all_cores: bool = False
    tokens_per_chunk: int = 1
    reasoning_share: float = 0.0
    streams: tuple[int, ...] = (16, 64, 256)

    @property
    def tokens(self) -> int:
        """Tokens of a request."""
        return CHUNKS * self.tokens_per_chunk

    @property
    def flags(self) -> tuple[str, ...]:
        """The golden server's."""
        flags = ["--ttft-ms", str(TTFT_MS), "--step-ms", str(STEP_MS), "--tokens", str(self.tokens)]
        flags += ["--tokens-per-chunk", str(self.tokens_per_chunk)]
        return (*flags, "--reasoning-share", str(self.reasoning_share))


SETUPS = (
    Setup("one", "One core for the client"),
    Setup("both", "Both cores for the client, one of them shared with the server", all_cores=True),
    Setup(
        "tokens",
        "Four tokens a chunk, the first 30 % of them reasoning, one core for the client",
        tokens_per_chunk=4,
        reasoning_share=0.3,
        streams=(16, 64),
    ),
)
