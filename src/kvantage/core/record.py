"""What is kept of one request. Times are integer nanoseconds of one monotonic clock."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class RequestKey:
    """Where a request belongs.

    `chain` names the unit of resuming (a cold wave and its repeat share one), `attempt` counts its
    runs from 0; `repeat` is the wave's or the measured repeat's number, `stream` the place in the wave.
    `warmup` requests are kept and shown, and count in no speed.
    """

    arm: str
    fingerprint: str
    block: int
    phase: str
    workload: str
    concurrency: int
    chain: str
    attempt: int
    repeat: int
    stream: int
    prompt_id: str
    warmup: bool = False


@dataclass(frozen=True, slots=True)
class ChunkTimes:
    """The stream's chunks that carried content, reasoning or a tool call, in order.

    `times_ns[i]` is when chunk i's last byte was read; `tokens[i]` how many tokens it carried, or -1
    where the server does not say (chunks are never counted as tokens).
    """

    times_ns: array[int]
    tokens: array[int]

    def __post_init__(self) -> None:
        if len(self.times_ns) != len(self.tokens):
            raise ValueError("one token count a chunk")

    @classmethod
    def empty(cls) -> ChunkTimes:
        """No chunk."""
        return cls(array("q"), array("i"))

    def __len__(self) -> int:
        return len(self.times_ns)


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One request, as the client saw it and as the server counted it. None means: not reported.

    intended_ns         when the schedule wanted it sent
    sent_ns             when its last byte was handed to the socket
    first_ns            first delta of content or reasoning (TTFT counts from sent_ns to here)
    first_content_ns    first delta of content
    end_ns              the stream's end, error or deadline
    prompt_tokens ...   as the server's usage says; cached_tokens None is 'not reported', never 0
    accepted_tokens, drafted_tokens, spec_steps, acceptance_histogram
                        per-request speculation counts; histogram[i] = steps that accepted i drafts
    queue_s             time in the server's queue, where it says so
    retractions         preemptions of this request, where the server says so
    expected_cached     (low, high) tokens that a correct prefix cache may serve
    client_lag_ns       the largest event-loop delay seen while the stream was open
    """

    key: RequestKey
    status: Literal["ok", "failed"]
    intended_ns: int
    sent_ns: int
    end_ns: int
    first_ns: int | None = None
    first_content_ns: int | None = None
    chunks: ChunkTimes = field(default_factory=ChunkTimes.empty)
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    cached_tokens: int | None = None
    accepted_tokens: int | None = None
    drafted_tokens: int | None = None
    spec_steps: int | None = None
    acceptance_histogram: tuple[int, ...] | None = None
    queue_s: float | None = None
    retractions: int | None = None
    finish_reason: str | None = None
    content: str = ""
    reasoning: str = ""
    tool_calls: tuple[Mapping[str, Any], ...] = ()
    token_ids: tuple[int, ...] | None = None
    expected_cached: tuple[int, int] | None = None
    client_lag_ns: int = 0
    http_status: int | None = None
    error: str | None = None
    checks: Mapping[str, Any] = field(default_factory=dict)
    raw_usage: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.end_ns < self.sent_ns:
            raise ValueError("a request ends after it was sent")
        if self.status == "failed" and not self.error:
            raise ValueError("a failed request says why")
