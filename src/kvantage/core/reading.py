"""A number never travels alone: it has a unit and a source, or a reason why there is none."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

Source = Literal[
    "request",
    "counter delta",
    "log window",
    "gauge",
    "config",
    "client",
    "device",
    "computed",
    "predicted",
    "simulated",
]
SOURCES: tuple[str, ...] = get_args(Source)


@dataclass(frozen=True, slots=True)
class Reading:
    """One measured, configured or computed quantity.

    Either `value` is a finite number with a `unit` and a `source`, or `missing` says why there is none.
    Missing is not zero. `low` and `high` are the ends of an interval; `note` says what it covers.

        Reading.of(25.2, "tok/s", "client")
        Reading.absent("the server does not report cached tokens")
    """

    value: float | None = None
    unit: str = ""
    source: Source | None = None
    missing: str | None = None
    low: float | None = None
    high: float | None = None
    note: str | None = None

    def __post_init__(self) -> None:
        if (self.value is None) == (self.missing is None):
            raise ValueError("a Reading has either a value or a reason why it is missing")
        if self.value is not None:
            if self.source not in SOURCES:
                raise ValueError(f"a Reading's source is one of {', '.join(SOURCES)}, not {self.source!r}")
            if not math.isfinite(self.value):
                raise ValueError(f"a Reading's value is finite, not {self.value!r}")

    @classmethod
    def of(
        cls,
        value: float,
        unit: str,
        source: Source,
        *,
        low: float | None = None,
        high: float | None = None,
        note: str | None = None,
    ) -> Reading:
        """A number that was read or computed."""
        return cls(value=value, unit=unit, source=source, low=low, high=high, note=note)

    @classmethod
    def absent(cls, reason: str) -> Reading:
        """No number, and why: `reason` is shown to the person in the number's place."""
        return cls(missing=reason)

    @property
    def known(self) -> bool:
        """True when there is a value."""
        return self.value is not None

    def to_json(self) -> dict[str, Any]:
        """`{value, unit, source}` with interval and note where there are any, or `{missing: reason}`."""
        if self.value is None:
            return {"missing": self.missing}
        out: dict[str, Any] = {"value": self.value, "unit": self.unit, "source": self.source}
        for name in ("low", "high", "note"):
            if (extra := getattr(self, name)) is not None:
                out[name] = extra
        return out

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Reading:
        """The inverse of `to_json`; raises ValueError on anything else."""
        if "missing" in data:
            return cls.absent(str(data["missing"]))
        try:
            return cls(**data)
        except TypeError as error:
            raise ValueError(f"not a reading: {dict(data)!r}") from error
