"""How exactly this machine times streams: the client against a server whose truth is known."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import math
import os
import platform
import resource
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvantage.client import ChatRequest, Client, Exchange, StreamReading, decode_rate, prepare, read_exchange
from kvantage.core import KvantageError
from kvantage.golden import GoldenProcess
from kvantage.version import __version__

EXACT_MS = 1.0
COMFORTABLE = 0.5
DISTURBED_MS = 2.0
MS = 1e-6


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

    @property
    def possible_requests_per_s(self) -> float:
        """Requests a second where nobody is ever late."""
        return self.streams * self.requests / self.seconds


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
    decode_rate_error       share of the server's own rate
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
    decode_rate_error: Spread
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


@dataclass(frozen=True, slots=True)
class Calibration:
    """What was measured, where and when. `quick` is the ten-second form."""

    rows: tuple[Row, ...]
    machine: Mapping[str, Any]
    taken_at: str
    version: str
    quick: bool

    @property
    def highest_exact(self) -> Row | None:
        """The row of most chunks a second whose p99 errors are at most 1 ms, more streams first in a tie."""
        exact = [row for row in self.rows if row.exact]
        return max(exact, key=lambda row: (round(row.chunks_per_s, -2), row.streams), default=None)

    @property
    def chunks_per_s_a_worker(self) -> float | None:
        """What one process may be given: half a core's worth, and no more than was found exact."""
        top = self.highest_exact
        if top is None:
            return None
        return max(top.chunks_per_s, COMFORTABLE * 1e6 / top.cpu_ms_per_1000_chunks)

    def workers(self, chunks_per_s: float) -> int:
        """How many load workers such a load needs; 1 where nothing is known."""
        each = self.chunks_per_s_a_worker
        return 1 if not each else max(1, math.ceil(chunks_per_s / each))

    @property
    def advice(self) -> str:
        """What to do about it, in a sentence or two."""
        top = self.highest_exact
        if top is None:
            return (
                "no load was timed within 1 ms at p99: this machine is too busy to measure on; "
                "end what else runs here and calibrate again"
            )
        each = self.chunks_per_s_a_worker
        assert each is not None
        text = (
            f"one process is exact at {top.streams:,} streams and {top.chunks_per_s:,.0f} chunks/s, "
            f"with {top.core_share:.0%} of a core; from {each:,.0f} chunks/s on, use --load-workers 2"
        )
        missed = [row for row in self.rows if not row.exact]
        if missed:
            text += "; not within 1 ms at p99: " + ", ".join(
                f"{row.streams:,} streams x {row.tokens_per_chunk}" for row in missed
            )
        if any(row.disturbed for row in missed):
            text += ". Something else held the processors meanwhile: end it, and calibrate again"
        return text

    def to_json(self) -> dict[str, Any]:
        """Plain data; `from_json` reads it back."""
        top = self.highest_exact
        return {
            "rows": [asdict(row) for row in self.rows],
            "highest_exact": None
            if top is None
            else {"streams": top.streams, "chunks_per_s": top.chunks_per_s},
            "advice": self.advice,
            "machine": dict(self.machine),
            "taken_at": self.taken_at,
            "version": self.version,
            "quick": self.quick,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Calibration:
        """The inverse of `to_json`; raises ValueError on anything else."""
        try:
            rows = tuple(_read_row(row) for row in data["rows"])
            return cls(
                rows, data["machine"], str(data["taken_at"]), str(data["version"]), bool(data["quick"])
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not a calibration: {error}") from error


def _read_row(row: Mapping[str, Any]) -> Row:
    fields: dict[str, Any] = {
        name: Spread(**each) if isinstance(each, dict) else each for name, each in row.items()
    }
    return Row(**fields)


async def calibrate(
    loads: Sequence[Load] = FULL,
    *,
    on_row: Callable[[int, Load, Row | None], None] | None = None,
) -> Calibration:
    """Measure each load against a golden server in a process of its own, on a processor of its own.

    `on_row(place, load, row)` is called before each load with None and after it with its row. Raises
    UsageError when the server does not start, KvantageError when a stream fails.
    """
    rows: list[Row] = []
    with _apart() as server_cpus, GoldenProcess(cpus=server_cpus) as golden:
        await measure(golden.url, replace(loads[0], streams=2, requests=1, chunks=4))
        for place, load in enumerate(loads):
            if on_row is not None:
                on_row(place, load, None)
            rows.append(await measure(golden.url, load))
            if on_row is not None:
                on_row(place, load, rows[-1])
    return Calibration(
        rows=tuple(rows),
        machine=machine(),
        taken_at=datetime.now(UTC).isoformat(timespec="seconds"),
        version=__version__,
        quick=tuple(loads) == QUICK,
    )


async def measure(url: str, load: Load) -> Row:
    """One load against the golden server at `url`. Raises KvantageError when a stream fails."""
    _allow_sockets(load.streams)
    request = prepare(
        ChatRequest(
            f"{url}/v1/chat/completions",
            {
                "model": "golden",
                "stream": True,
                "stream_options": {"include_usage": True},
                "messages": [{"role": "user", "content": "Count."}],
                "max_tokens": load.chunks * load.tokens_per_chunk,
                "golden": {
                    "ttft_ms": load.ttft_ms,
                    "step_ms": load.step_ms,
                    "tokens_per_chunk": load.tokens_per_chunk,
                },
            },
            deadline_s=load.seconds + 60,
        )
    )
    async with Client() as client:
        await client.delete(f"{url}/golden/log")
        await client.warm(url, load.streams)
        exchanges: list[Exchange] = []

        async def stream(place: int) -> None:
            # Streams begin one after the other over a step, as those of many users would.
            await asyncio.sleep(place / load.streams * max(load.step_ms, load.ttft_ms) / 1e3)
            for _ in range(load.requests):
                exchanges.append(await client.stream(request))

        cpu_s, started = _cpu_s(), time.monotonic()
        with client.lag.span() as delays:
            await asyncio.gather(*(stream(place) for place in range(load.streams)))
        seconds = time.monotonic() - started
        readings = [read_exchange(each) for each in exchanges]
        cpu_s = _cpu_s() - cpu_s
        logged = await client.get(f"{url}/golden/log", deadline_s=60)
    written = {each["number"]: each for each in logged.json()["requests"]}
    return _row(load, exchanges, readings, written, cpu_s, seconds, delays.quantile_ns(0.99))


def _row(
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
        decode_rate_error=Spread.of(np.asarray(rates)),
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


def machine() -> dict[str, Any]:
    """What a calibration holds for: the processor, how many of it, the kernel and the interpreter."""
    cpu = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                cpu = line.partition(":")[2].strip()
                break
    return {
        "cpu": cpu,
        "cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def folder() -> Path:
    """Where calibrations are kept: `$XDG_CACHE_HOME/kvantage`, or `~/.cache/kvantage`."""
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "kvantage"


def place() -> Path:
    """This machine's own file."""
    words = json.dumps([__version__, platform.node(), machine()], sort_keys=True)
    return folder() / f"calibration-{hashlib.sha256(words.encode()).hexdigest()[:12]}.json"


def store(calibration: Calibration) -> Path:
    """Keep it for this machine. A quick one never replaces a full one. Raises OSError."""
    path = place()
    known = load_stored()
    if calibration.quick and known is not None and not known.quick:
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(f".{os.getpid()}.tmp")
    draft.write_text(json.dumps(calibration.to_json(), indent=1) + "\n")
    draft.replace(path)
    return path


def load_stored() -> Calibration | None:
    """This machine's calibration by this version of kvantage, or None."""
    try:
        return Calibration.from_json(json.loads(place().read_text()))
    except (OSError, ValueError):
        return None


async def ensure() -> Calibration:
    """The stored calibration, or a ten-second one, taken and stored now.

    A stored ten-second one that found the machine too busy to time anything is taken again.
    """
    known = load_stored()
    if known is None or (known.quick and known.highest_exact is None):
        known = await calibrate(QUICK)
        with contextlib.suppress(OSError):
            store(known)
    return known


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _allow_sockets(count: int) -> None:
    """Let this process open that many, as far as the system permits."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + 256
    if soft < wanted:
        limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


@contextlib.contextmanager
def _apart() -> Iterator[set[int] | None]:
    """Give the server the last processor and keep this process off it, for as long as the block runs."""
    mine = os.sched_getaffinity(0)
    if len(mine) < 2:
        yield None
        return
    server = {max(mine)}
    os.sched_setaffinity(0, mine - server)
    try:
        yield server
    finally:
        os.sched_setaffinity(0, mine)
