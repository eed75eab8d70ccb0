"""What a run and a write-up have in common, to be set beside each other: figures, protocol, configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kvantage.core.reading import Reading

NOT_SAID = "not said"
RATES = {
    "phase_wall": "output tokens by the phase's wall time",
    "steady": "tokens after the first chunk by the time between first and last",
    "server_gauge": "the server's own momentary figure",
    None: NOT_SAID,
}


@dataclass(frozen=True)
class Entry:
    """One figure. `definition` says what a speed is: two of different definitions are not compared.

    Lengths are tokens, None where they are not said. `aggregate` is of all users together.
    """

    metric: str
    phase: str
    workload: str | None
    concurrency: int | None
    reading: Reading
    definition: str = ""
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    cached: bool | None = None
    aggregate: bool = False
    note: str | None = None


@dataclass(frozen=True)
class SheetArm:
    """One arm's way of speculating and its figures."""

    name: str
    method: str
    draft_kv_dtype: str | None
    entries: tuple[Entry, ...]
    settings: Mapping[str, str]


@dataclass(frozen=True)
class Sheet:
    """A run or a write-up. `protocol` and `configuration` are text by name, `not said` where it is not."""

    name: str
    posted: bool
    control: str | None
    protocol: Mapping[str, str]
    configuration: Mapping[str, str]
    arms: tuple[SheetArm, ...]
    notes: tuple[str, ...] = ()

    def arm(self, name: str) -> SheetArm | None:
        """The arm of that name."""
        return next((arm for arm in self.arms if arm.name == name), None)
