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
from kvantage.core.facts import CounterDelta, Facts, Snapshot
from kvantage.core.host import Host, HostFacts, ServerProcess
from kvantage.core.progress import Observer, Silent
from kvantage.core.reading import Reading, Source
from kvantage.core.record import ChunkTimes, RequestKey, RequestRecord
from kvantage.core.secrets import masked_argv, masked_env, masked_text, secret_name

__all__ = [
    "ArmFailed",
    "ArmSettings",
    "CacheFlush",
    "CellKey",
    "CellStatus",
    "ChunkTimes",
    "CounterDelta",
    "Engine",
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
    "Server",
    "ServerProcess",
    "ServerSettings",
    "Silent",
    "Snapshot",
    "Source",
    "Speculation",
    "StudyError",
    "Usage",
    "UsageError",
    "masked_argv",
    "masked_env",
    "masked_text",
    "secret_name",
]
