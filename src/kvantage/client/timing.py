"""What a stream's stamps say: first token, gaps, decode rate. Pure; None is 'cannot be told'."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvantage.client.exchange import Exchange
from kvantage.client.stream import StreamReading

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NANO = 1e-9


@dataclass(frozen=True)
class StreamTiming:
    """The times of one stream, as the method defines them.

    ttft_s           send to the first delta of content, reasoning or a tool call
    ttft_content_s   send to the first delta of content
    intended_ttft_s  the moment at which the schedule wanted it sent, to the first delta: open-loop load is
                     timed from there
    gaps_s           between chunks: inter-token latency per chunk, however many tokens a chunk carries
    itl_s            seconds a token after the first chunk: inter-token latency per token
    decode_tok_s     tokens after the first chunk / (t_last - t_first): the first chunk's own tokens came
                     before the interval began
    first_tokens     tokens in the first chunk; 1 is taken, and `guessed` set, where it is not told
    """

    ttft_s: float | None
    ttft_content_s: float | None
    intended_ttft_s: float | None
    gaps_s: NDArray[np.float64]
    itl_s: float | None
    decode_tok_s: float | None
    first_tokens: int | None
    guessed: bool


def time_stream(exchange: Exchange, reading: StreamReading, output_tokens: int | None = None) -> StreamTiming:
    """The times of a stream; `output_tokens` is the server's count, used where chunks tell none."""
    rate, first, guessed = decode_rate(reading.chunks.times_ns, reading.chunks.tokens, output_tokens)
    return StreamTiming(
        ttft_s=_between(exchange.sent_ns, reading.first_ns),
        ttft_content_s=_between(exchange.sent_ns, reading.first_content_ns),
        intended_ttft_s=_between(exchange.intended_ns, reading.first_ns),
        gaps_s=chunk_gaps(reading.chunks.times_ns),
        itl_s=None if rate is None else 1 / rate,
        decode_tok_s=rate,
        first_tokens=first,
        guessed=guessed,
    )


def chunk_gaps(times_ns: Sequence[int]) -> NDArray[np.float64]:
    """Seconds between neighbouring chunks; one fewer than there are chunks."""
    import numpy as np  # a process that only loads a server has no need of it, and starts sooner

    return np.diff(np.asarray(times_ns, dtype=np.int64)) * NANO


def decode_rate(
    times_ns: Sequence[int], tokens: Sequence[int], output_tokens: int | None = None
) -> tuple[float | None, int | None, bool]:
    """(tokens a second after the first chunk, tokens in the first chunk, whether those were guessed).

    Tokens come from the chunks where every one tells them; else from the server's count less the first
    chunk's, which is taken as 1 where it is not told. Chunks are never counted as tokens: with neither,
    there is no rate.
    """
    if len(times_ns) < 2:
        return None, (tokens[0] if len(tokens) and tokens[0] >= 0 else None), False
    told = min(tokens) >= 0
    guessed = tokens[0] < 0
    first = 1 if guessed else tokens[0]
    if told:
        after = sum(tokens) - first
    elif output_tokens is not None:
        after = output_tokens - first
    else:
        return None, None if guessed else first, False
    seconds = (times_ns[-1] - times_ns[0]) * NANO
    if seconds <= 0 or after <= 0:
        return None, first, guessed
    return after / seconds, first, guessed


def _between(start_ns: int, stop_ns: int | None) -> float | None:
    return None if stop_ns is None else (stop_ns - start_ns) * NANO
