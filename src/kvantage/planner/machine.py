"""Hardware files: what a device offers, each figure with its range and its source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from kvantage.core import UsageError
from kvantage.planner.memory import GIB, Rank

FIGURES = ("memory_gib", "free_gib", "bandwidth_gb_s", "compute_tflops", "hop_us", "link_gb_s", "layer_us")


@dataclass(frozen=True)
class Figure:
    """A number between its ends, and where it comes from."""

    value: float
    low: float
    high: float
    source: str


@dataclass(frozen=True)
class Machine:
    """One kind of device, `ranks` of them, as a hardware file describes it. `processor`: no accelerator.

    memory and free (before loading) in GiB, bandwidth and link in GB/s, compute in TFLOPS, hop (one small
    all-reduce) and layer (launches and small kernels) in microseconds.
    """

    name: str
    title: str
    ranks: int
    processor: bool
    figures: Mapping[str, Figure]

    def figure(self, name: str) -> Figure:
        """A figure by its name in the file."""
        return self.figures[name]

    def rank(self, weights: int, draft_weights: int = 0) -> Rank:
        """One rank's memory with that many bytes of weights on it."""
        memory, free = self.figures["memory_gib"], self.figures["free_gib"]
        return Rank(
            int(memory.value * GIB),
            int(free.value * GIB),
            weights,
            draft_weights,
            int(free.low * GIB),
            int(free.high * GIB),
        )


def hardware_names() -> list[str]:
    """The hardware that ships with kvantage."""
    return sorted(path.stem for path in _folder().glob("*.yaml"))


def read_machine(name: str) -> Machine:
    """A shipped hardware by name (`two-gb10`), or a file of the same form. Raises UsageError."""
    path = Path(name) if name.endswith((".yaml", ".yml")) else _folder() / f"{name}.yaml"
    if not path.is_file():
        known = ", ".join(hardware_names())
        raise UsageError(f"there is no hardware `{name}`; known are {known}, or a file of the same form")
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"is not YAML: {error}", where=str(path)) from None
    if not isinstance(data, dict):
        raise UsageError("holds no hardware", where=str(path))
    figures = {figure: _figure(data, figure, str(path)) for figure in FIGURES}
    ranks = data.get("ranks", 1)
    if not isinstance(ranks, int) or ranks < 1:
        raise UsageError("`ranks` is a number of devices", where=str(path))
    name, title = str(data.get("name", path.stem)), str(data.get("title", path.stem))
    return Machine(name, title, ranks, data.get("processor") is True, figures)


def _figure(data: Mapping[str, Any], name: str, where: str) -> Figure:
    part = data.get(name)
    if not isinstance(part, dict) or not isinstance(part.get("value"), int | float):
        raise UsageError(f"`{name}` needs a value and a source", where=where)
    value = float(part["value"])
    low, high = float(part.get("low", value)), float(part.get("high", value))
    source = part.get("source")
    if not isinstance(source, str) or not source:
        raise UsageError(f"`{name}` has no source", where=where)
    if not low <= value <= high:
        raise UsageError(f"`{name}`: {value} is not between {low} and {high}", where=where)
    return Figure(value, low, high, source)


def _folder() -> Path:
    return Path(str(resources.files("kvantage.planner"))) / "hardware"
