"""What the clock says of each request of a cell: first token, decode rate, gaps between chunks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kvantage.core.columns import Bools, Floats, Ints, RequestColumns

NANO = 1e-9


@dataclass(frozen=True)
class Timing:
    """One entry a request, NaN where it cannot be told. Seconds, tokens and tokens a second.

    rate         tokens after the first chunk / (t_last - t_first): the first chunk's tokens came before
                 the interval began, and counting them favours a drafter with long blocks
    after        tokens after the first chunk
    chunks_after chunks after the first: one a decode step, where the server sends each step's tokens at once
    guessed      the first chunk's size is not told and was taken as one token
    widest       most tokens in one chunk, 0 where not told
    """

    rows: Ints
    ttft: Floats
    first_ns: Ints
    last_ns: Ints
    after: Floats
    chunks_after: Ints
    rate: Floats
    gap: Floats
    guessed: Bools
    widest: Ints
    told: Bools

    def __len__(self) -> int:
        return len(self.rows)


def time_requests(requests: RequestColumns, rows: Ints) -> Timing:
    """The times of the given requests."""
    chunks = requests.chunks
    counts = requests.chunk_offsets[rows + 1] - requests.chunk_offsets[rows]
    some = counts > 0
    first, last = chunks.first_ns[rows], chunks.last_ns[rows]
    told, total = chunks.told[rows], chunks.tokens[rows]
    opening, widest = chunks.opening[rows], chunks.widest[rows]
    output = requests.output_tokens[rows]
    first_known = opening >= 0
    after = np.where(
        told, total - np.maximum(opening, 0), output - np.where(first_known, opening, 1).astype(np.float64)
    )
    after = np.where(some, after, np.nan)
    seconds = (last - first) * NANO
    usable = some & (seconds > 0) & (after > 0)
    rate = np.full(len(rows), np.nan)
    np.divide(after, seconds, out=rate, where=usable)
    gap = np.full(len(rows), np.nan)
    np.divide(seconds, counts - 1, out=gap, where=counts > 1)

    sent, began = requests.sent_ns[rows], requests.first_ns[rows]
    ttft = np.where((began >= 0) & (sent >= 0), (began - sent) * NANO, np.nan)
    return Timing(
        rows=rows,
        ttft=ttft,
        first_ns=first,
        last_ns=last,
        after=after,
        chunks_after=np.maximum(counts - 1, 0),
        rate=rate,
        gap=gap,
        guessed=some & ~first_known,
        widest=widest,
        told=told,
    )
