"""A model's or a drafter's config.json as a document: what it keeps of each token."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kvantage.core import Reading, UsageError
from kvantage.inspection.document import Document
from kvantage.planner.checkpoint import Checkpoint
from kvantage.planner.drafts import Drafter, drafter_kind, drafter_of
from kvantage.planner.dtypes import kv_dtype
from kvantage.planner.geometry import Geometry, describe, geometry_of


def read_config(name: str, config: Mapping[str, Any]) -> Document:
    """Geometry at the checkpoint's own KV type; an architecture that is not known is said, never guessed."""
    checkpoint = Checkpoint(Path(name).parent.name or name, config)
    try:
        if drafter_kind(config) is not None:
            return _drafter(name, drafter_of(checkpoint))
        return _target(name, geometry_of(checkpoint))
    except UsageError as error:
        hint = f" ({error.hint})" if error.hint else ""
        return Document(name, "config", warnings=(f"{error.message}{hint}",))


def _target(name: str, geometry: Geometry) -> Document:
    entries = describe(geometry)
    own = entries[0]
    note = f"{own['kv_dtype']}, one device, each further token of a long sequence"
    readings = {
        "kv_bytes_per_token": Reading.of(own["kv_bytes_per_token"], "bytes/token", "computed", note=note)
    }
    if own["state_bytes"]:
        note = "recurrent state of one sequence, one device"
        readings["state_bytes_per_sequence"] = Reading.of(own["state_bytes"], "bytes", "computed", note=note)
    if own["kv_bytes_per_sequence"]:
        note = "full windows of sliding layers, one device"
        readings["kv_bytes_per_sequence"] = Reading.of(
            own["kv_bytes_per_sequence"], "bytes", "computed", note=note
        )
    if geometry.max_length:
        readings["context_length"] = Reading.of(geometry.max_length, "tokens", "config")
    return Document(name, "config", readings=readings, warnings=geometry.notes, details={"kv": entries})


def _drafter(name: str, drafter: Drafter) -> Document:
    per_token = drafter.kv_bytes_per_token(kv_dtype(drafter.dtype))
    note = f"the drafter's own, {drafter.dtype}, one device, a slot a target token"
    readings = {"kv_bytes_per_token": Reading.of(per_token, "bytes/token", "computed", note=note)}
    if drafter.max_drafts:
        note = f"at most: its block of {drafter.block_size} holds one anchor"
        readings["draft_tokens_per_step"] = Reading.of(drafter.max_drafts, "tokens/step", "config", note=note)
    return Document(
        name, "config", readings=readings, warnings=drafter.notes, details={"drafter": drafter.kind}
    )
