"""The contract of an engine: how to start it, ask it, and read what it says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from kvantage.core.arm import ArmSettings
from kvantage.core.exactness import Scores
from kvantage.core.facts import CounterDelta, Facts, Snapshot
from kvantage.core.host import HostFacts, ServerProcess
from kvantage.core.reading import Reading


@dataclass(frozen=True, slots=True)
class Launch:
    """What to execute for an arm. `env` is added to the environment; `notes` are said to the person.

    `versions` are those of the packages that matter in the engine's own environment, for provenance.
    `per_node` is each machine's command where several serve one model together, that of the first (which
    is `argv`, and alone serves requests) included; empty where one machine does. The first
    `program_words` of `argv` are the program; the rest are the engine's own flags.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    per_node: tuple[tuple[str, ...], ...] = ()
    program_words: int = 1

    @property
    def flags(self) -> tuple[str, ...]:
        """The engine's flags alone, for whoever starts it in another way than `argv`."""
        return self.argv[self.program_words :]


@dataclass(frozen=True, slots=True)
class Server:
    """A running server of one arm. `process` is None where nothing of it can be watched.

    `headers` go with every measured request; they may hold a key, and are kept nowhere. One that `remembers`
    was not started for this boot: its cache may hold what an earlier session sent.
    """

    arm: ArmSettings
    url: str
    served_name: str
    launch: Launch | None = None
    process: ServerProcess | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    remembers: bool = False


@dataclass(frozen=True, slots=True)
class Usage:
    """The server's own counts of one response, in the common words; None is 'not reported'."""

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


@dataclass(frozen=True, slots=True)
class CacheFlush:
    """Whether the engine says that it emptied its prefix cache, and in which words."""

    believed: bool
    words: str


@dataclass(frozen=True, slots=True)
class LogReadings:
    """What a span of log lines says.

    `windows` are the log's own acceptance windows, oldest first, each with any of acceptance_length,
    accepted_tokens, drafted_tokens, draft_acceptance_rate, running, waiting, generation_tok_s.
    """

    readings: Mapping[str, Reading] = field(default_factory=dict)
    windows: tuple[Mapping[str, float], ...] = ()
    warnings: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()


class Engine(Protocol):
    """One serving engine, all its versions. Stateless: everything it needs comes in."""

    name: str

    def problems(self, arm: ArmSettings, host: HostFacts) -> list[str]:
        """Why this arm cannot be started here, each with what would work; empty when it can."""
        ...

    def command(self, arm: ArmSettings, host: HostFacts, port: int) -> Launch:
        """The exact command and environment of an arm."""
        ...

    async def ready(self, server: Server, within_s: float) -> None:
        """Wait until it serves, then prove it by one smoke request. Raises ArmFailed with its log."""
        ...

    async def facts(self, server: Server) -> Facts:
        """What the server says of itself after boot."""
        ...

    async def counters(self, server: Server) -> Snapshot:
        """The server's counters and gauges now. Raises OSError when it does not answer."""
        ...

    async def gauges(self, server: Server) -> Mapping[str, float]:
        """A cheap look while requests run: any of running, waiting, pool_usage (0 to 1), and the counters
        generation_tokens, drafts and accepted_tokens. It must cost the client no millisecond: a scan for
        these lines, no full parse. Raises OSError when the server does not answer.
        """
        ...

    def delta(self, before: Snapshot, after: Snapshot) -> CounterDelta:
        """What moved between two snapshots."""
        ...

    async def flush_cache(self, server: Server) -> CacheFlush:
        """Empty the prefix cache, where the engine can."""
        ...

    def request_extras(self, server: Server, *, output_tokens: int | None) -> dict[str, Any]:
        """Fields to add to a chat request: exact output length, token ids, per-request counts."""
        ...

    def whole_extras(self, server: Server) -> dict[str, Any]:
        """Fields to add to a chat request that is not streamed, so that its answer tells its token ids."""
        ...

    def read_ids(self, body: Mapping[str, Any]) -> tuple[int, ...] | None:
        """The token ids of such an answer; None where it does not tell them."""
        ...

    async def score(
        self,
        server: Server,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]],
        output_ids: Sequence[int],
    ) -> Scores:
        """How likely an answer's tokens are, by teacher forcing: given the prompt and those before them.

        Raises ScoringError where the server cannot tell, OSError where it does not answer.
        """
        ...

    def read_usage(self, final: Mapping[str, Any], facts: Facts | None = None) -> Usage:
        """Counts from the merged last chunks of a stream, or from a whole response.

        `facts` are the server's, where they are known: what an answer leaves out may follow from them.
        """
        ...

    def read_log(self, lines: Iterable[str]) -> LogReadings:
        """What the log says, for any version."""
        ...

    def expected_cached(self, prefix_tokens: int, facts: Facts) -> tuple[int, int]:
        """(low, high): tokens of a resident prefix of that length that a sound cache serves."""
        ...

    def explain_death(self, lines: Sequence[str]) -> tuple[str, ...]:
        """The lines of a log that say why the server died, most telling first."""
        ...
