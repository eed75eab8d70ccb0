"""The planner's own error: pools that servers printed beside what it predicts for what they were given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from kvantage.core import ServerSettings, Speculation
from kvantage.planner.checkpoint import read_checkpoint
from kvantage.planner.drafts import drafter_of
from kvantage.planner.geometry import geometry_of
from kvantage.planner.memory import GIB, Demand, Left, Rank
from kvantage.planner.pools import llamacpp, predict

CONTEXT_BYTES = int(0.71 * GIB)
"""What a CUDA context takes of a device before anything is loaded, as seen on one H200."""


@dataclass(frozen=True)
class Compared:
    """One measured pool beside its prediction. `known` where the memory available was in the log."""

    name: str
    engine: str
    version: str
    target: str
    drafting: str
    known: bool
    predicted: int
    measured: int
    note: str = ""

    @property
    def error(self) -> float:
        """(predicted - measured) / measured."""
        return self.predicted / self.measured - 1


def compare(rows: Path, configs: Path) -> list[Compared]:
    """Predict each row of a YAML list of measured pools; model names are folders under `configs`."""
    data = yaml.safe_load(rows.read_text(encoding="utf-8"))
    return [_compare(row, configs) for row in data["rows"]]


@dataclass(frozen=True)
class Allocated:
    """What one llama-server allocated for a context of so many tokens, beside what it was predicted to."""

    target: str
    kv: str
    context: int
    predicted_mib: float
    measured_mib: float

    @property
    def error(self) -> float:
        """(predicted - measured) / measured."""
        return self.predicted_mib / self.measured_mib - 1


def compare_allocated(rows: Path, configs: Path) -> list[Allocated]:
    """Predict each row of the list `allocated` of the same file."""
    data = yaml.safe_load(rows.read_text(encoding="utf-8"))
    found = []
    for row in data["allocated"]:
        target = geometry_of(read_checkpoint(str(configs / row["target"])))
        demand = Demand(target, ServerSettings(kv_dtype=row["kv"]))
        size = llamacpp.cache_bytes(demand, row["context"]) / 2**20
        found.append(Allocated(row["target"], row["kv"], row["context"], size, sum(row["mib"])))
    return found


def table(compared: list[Compared]) -> str:
    """The rows as a Markdown table."""
    lines = [
        "| engine | model | drafting | memory | predicted tokens | printed tokens | error |",
        "|---|---|---|---|---:|---:|---:|",
    ]
    for row in compared:
        memory = "known" if row.known else "derived"
        lines.append(
            f"| {row.engine} {row.version} | {row.target} | {row.drafting} | {memory} | {row.predicted:,} "
            f"| {row.measured:,} | {row.error * 100:+.2f} % |"
        )
    return "\n".join(lines)


def _compare(row: Mapping[str, Any], configs: Path) -> Compared:
    method = row.get("method", "none")
    folder = configs / row["draft"] if "draft" in row else None
    demand = Demand(
        target=geometry_of(read_checkpoint(str(configs / row["target"]))),
        settings=ServerSettings(
            memory_fraction=row.get("fraction"), kv_dtype=row.get("kv_dtype"), page_size=row.get("page_size")
        ),
        speculation=Speculation(
            method=method,
            drafts=row.get("drafts"),
            draft=row.get("draft"),
            draft_kv_dtype=row.get("draft_kv_dtype"),
        ),
        drafter=drafter_of(read_checkpoint(str(folder))) if folder else None,
    )
    drafting = (
        method
        if method in ("none", "ngram")
        else f"{method} {row['drafts']}, draft KV {demand.draft_kv.name}"
    )
    found = predict(row["engine"], demand, _room(row))
    return Compared(
        name=row["id"],
        engine=row["engine"],
        version=row["version"],
        target=f"{row['target']}, KV {demand.kv_name}",
        drafting=drafting,
        known="total_gib" not in row,
        predicted=found.at.tokens,
        measured=row["tokens"],
        note=row.get("note", ""),
    )


def _room(row: Mapping[str, Any]) -> list[Rank] | Left:
    if "available_gib" in row:
        return Left.exactly(int(row["available_gib"] * GIB))
    if "before_gib" in row:
        return Left.exactly(int((row["after_gib"] - row["before_gib"] * (1 - row["fraction"])) * GIB))
    total = int(row["total_gib"] * GIB)
    return [Rank(total, total - CONTEXT_BYTES, int(row["weights_gib"] * GIB))]
