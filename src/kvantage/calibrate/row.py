"""One load: what the client saw of it, against what the server did."""

from __future__ import annotations

import resource
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvantage.calibrate.load import Load
from kvantage.client import Exchange, StreamReading, decode_rate
from kvantage.core import KvantageError

EXACT_MS = 1.0
COMFORTABLE = 0.5
DISTURBED_MS = 2.0
MS = 1e-6


@dataclass(frozen=True, slots=True)
class Spread:
    """Median and 99th percentile of absolute errors."""

    median: float
    p99: float

    @classmethod
    def of(cls, values: NDArray[np.float64]) -> Spread:
        """Of at least one value."""
        size = np.abs(values)
        return cls(float(np.median(size)), float(np.percentile(size, 99)))


@dataclass(frozen=True, slots=True)
class Row:
    """One load. Errors are against what the server logged, in absolute terms.

    ttft_error_ms           client's first stamp - send, against server's first write - arrival
    itl_error_ms            gap between two stamps, against the gap between the two writes
    decode_rate_error       share of the server's own rate; None where the chunks of no stream were told apart
    cpu_ms_per_1000_chunks  this process: sending, receiving and parsing
    server_lag_ms           how late the server wrote, against its own schedule, at p99
    client_lag_ms           the event loop's delay that 99 % of the time stayed under
    late                    chunks stamped more than 1 ms after the server wrote them
    request_share           requests a second, of what is possible on time
    counts_exact            the tokens of every answer, as this client counts them, are the server's
    """

    streams: int
    tokens_per_chunk: int
    ttft_error_ms: Spread
    itl_error_ms: Spread
    decode_rate_error: Spread | None
    cpu_ms_per_1000_chunks: float
    server_lag_ms: float
    chunks_per_s: float
    late: int
    chunks: int
    client_lag_ms: float
    request_share: float
    memory_mib: float
    counts_exact: bool

    @property
    def exact(self) -> bool:
        """True when the errors of TTFT and ITL are at most 1 ms at p99."""
        return self.ttft_error_ms.p99 <= EXACT_MS and self.itl_error_ms.p99 <= EXACT_MS

    @property
    def disturbed(self) -> bool:
        """True when it is not exact though this process had a core to spare: others held the processor."""
        held_up_ms = max(self.client_lag_ms, self.server_lag_ms)
        return not self.exact and self.core_share < COMFORTABLE and held_up_ms > DISTURBED_MS

    @property
    def core_share(self) -> float:
        """The share of a core that this process took."""
        return self.cpu_ms_per_1000_chunks * self.chunks_per_s / 1e6


def compare(
    load: Load,
    exchanges: Sequence[Exchange],
    readings: Sequence[StreamReading],
    written: Mapping[int, Mapping[str, Any]],
    cpu_s: float,
    seconds: float,
    lag_ns: int | None,
) -> Row:
    """Compare what the client saw with what the server did."""
    ttft, gaps, rates, late, server = [], [], [], [], []
    exact = True
    for exchange, reading in zip(exchanges, readings, strict=True):
        truth = written[int(str(reading.final["id"]).rpartition("-")[2])] if "id" in reading.final else None
        if reading.error is not None or reading.first_ns is None or truth is None:
            raise KvantageError(f"a stream of the golden server failed: {reading.error}")
        wrote = np.asarray(truth["written_ns"], dtype=np.int64)
        seen = np.asarray(reading.chunks.times_ns, dtype=np.int64)
        if len(seen) != len(wrote):
            raise KvantageError(f"the golden server wrote {len(wrote)} chunks, and {len(seen)} were read")
        usage = reading.final.get("usage", {}).get("completion_tokens")
        exact &= usage == sum(truth["tokens"])
        ttft.append(((reading.first_ns - exchange.sent_ns) - (int(wrote[0]) - truth["arrived_ns"])) * MS)
        gaps.append((np.diff(seen) - np.diff(wrote)) * MS)
        late.append((seen - wrote) * MS)
        server.append((wrote - np.asarray(truth["due_ns"], dtype=np.int64)) * MS)
        # the tokens of the first chunk are known here, so that the rates differ by their times alone
        tokens = truth["tokens"]
        mine, _, _ = decode_rate(reading.chunks.times_ns, tokens)
        theirs, _, _ = decode_rate(truth["written_ns"], tokens)
        if mine is not None and theirs is not None:
            rates.append(mine / theirs - 1)
    chunks = sum(len(each) for each in late)
    possible_s = load.seconds + max(load.step_ms, load.ttft_ms) / 1e3 * (1 - 1 / load.streams)
    return Row(
        streams=load.streams,
        tokens_per_chunk=load.tokens_per_chunk,
        ttft_error_ms=Spread.of(np.asarray(ttft)),
        itl_error_ms=Spread.of(np.concatenate(gaps)),
        decode_rate_error=Spread.of(np.asarray(rates)) if rates else None,
        cpu_ms_per_1000_chunks=cpu_s / chunks * 1e6,
        server_lag_ms=float(np.percentile(np.concatenate(server), 99)),
        chunks_per_s=chunks / seconds,
        late=int((np.concatenate(late) > EXACT_MS).sum()),
        chunks=chunks,
        client_lag_ms=(lag_ns or 0) * MS,
        request_share=possible_s / seconds,
        memory_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        counts_exact=exact,
    )
