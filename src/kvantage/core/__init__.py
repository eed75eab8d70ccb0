"""The words that every room shares. Nothing here knows an engine, a file format or a network."""

from kvantage.core.arm import ArmSettings, Method, Samplers, ServerSettings, Speculation
from kvantage.core.cell import CellKey, CellStatus, Gate
from kvantage.core.engine import CacheFlush, Engine, Launch, LogReadings, Server, Usage
from kvantage.core.errors import (
    ArmFailed,
    ExitCode,
    KvantageError,
    LedgerError,
    StudyError,
    UsageError,
)
from kvantage.core.exactness import (
    EXACTNESS,
    Answer,
    AnswerKind,
    ExactnessData,
    Scores,
    ScoringError,
    Spoken,
    answer_digest,
)
from kvantage.core.facts import CounterDelta, Facts, Snapshot
from kvantage.core.host import Host, HostFacts, ServerProcess
from kvantage.core.progress import Observer, Silent
from kvantage.core.reading import Reading, Source
from kvantage.core.record import ChunkTimes, RequestKey, RequestRecord
from kvantage.core.secrets import masked_argv, masked_env, masked_text, secret_name

__all__ = [
    "EXACTNESS",
    "Answer",
    "AnswerKind",
    "ArmFailed",
    "ArmSettings",
    "CacheFlush",
    "CellKey",
    "CellStatus",
    "ChunkTimes",
    "CounterDelta",
    "Engine",
    "ExactnessData",
    "ExitCode",
    "Facts",
    "Gate",
    "Host",
    "HostFacts",
    "KvantageError",
    "Launch",
    "LedgerError",
    "LogReadings",
    "Method",
    "Observer",
    "Reading",
    "RequestKey",
    "RequestRecord",
    "Samplers",
    "Scores",
    "ScoringError",
    "Server",
    "ServerProcess",
    "ServerSettings",
    "Silent",
    "Snapshot",
    "Source",
    "Speculation",
    "Spoken",
    "StudyError",
    "Usage",
    "UsageError",
    "answer_digest",
    "masked_argv",
    "masked_env",
    "masked_text",
    "secret_name",
]
