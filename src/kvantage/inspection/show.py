"""An inspection as JSON (docs/inspect.md) and as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kvantage.core import Reading
from kvantage.inspection.document import NAMES, Document
from kvantage.inspection.gather import Inspection

SCHEMA_VERSION = "1.0"


def to_json(inspection: Inspection) -> dict[str, Any]:
    """The documented form: each name with its plain number or null; whence it is in `readings`."""
    found: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "engine": inspection.engine,
        "engine_version": inspection.engine_version,
    }
    for name in NAMES:
        reading = inspection.values[name][0] if name in inspection.values else None
        found[name] = _plain(reading)
    found["per_position_acceptance"] = list(inspection.per_position) if inspection.per_position else None
    found["warnings"] = list(inspection.warnings)
    found["readings"] = {
        name: reading.to_json() | ({"file": whose} if whose else {})
        for name, (reading, whose) in inspection.values.items()
    }
    found["documents"] = [_document(document) for document in inspection.documents]
    return found


def _document(document: Document) -> dict[str, Any]:
    return {
        "file": document.name,
        "kind": document.kind,
        "engine": document.engine,
        "engine_version": document.engine_version,
        "readings": {name: reading.to_json() for name, reading in document.readings.items()},
        "per_position_acceptance": list(document.per_position) if document.per_position else None,
        "warnings": list(document.warnings),
        "details": dict(document.details),
    }


def _plain(reading: Reading | None) -> float | int | None:
    if reading is None or reading.value is None:
        return None
    return int(reading.value) if float(reading.value).is_integer() else reading.value


def to_text(inspection: Inspection) -> str:
    """Each file with its readings and their sources, and every warning that follows."""
    lines: list[str] = []
    for document in inspection.documents:
        lines += [*_text(document), ""]
    shared = [
        warning
        for warning in inspection.warnings
        if not any(warning.endswith(own) for document in inspection.documents for own in document.warnings)
    ]
    lines += [f"! {warning}" for warning in shared]
    return "\n".join(lines).rstrip()


def _text(document: Document) -> Iterator[str]:
    whose = " ".join(word for word in (document.engine, document.engine_version) if word)
    what = "not recognised" if document.kind == "unknown" else document.kind
    yield f"{document.name}: {f'{whose} ' if whose else ''}{what}"
    width = max((len(name) for name in document.readings), default=0)
    for name, reading in document.readings.items():
        yield f"  {name:<{width}}  {_said(reading)}"
    if document.per_position:
        rates = ", ".join(f"{rate:.3f}" for rate in document.per_position)
        yield f"  {'per_position_acceptance':<{width}}  {rates}"
    for warning in document.warnings:
        yield f"  ! {warning}"


def _said(reading: Reading) -> str:
    if reading.value is None:
        return f"- ({reading.missing})"
    number = f"{reading.value:,.0f}" if float(reading.value).is_integer() else f"{reading.value:,.4g}"
    if reading.value >= 1000 and not float(reading.value).is_integer():
        number = f"{reading.value:,.0f}"
    if reading.unit == "bytes" and reading.value >= 1 << 20:
        number = f"{reading.value / (1 << 30):,.2f} GiB"
        unit = ""
    else:
        unit = f" {reading.unit}" if reading.unit else ""
    note = f"; {reading.note}" if reading.note else ""
    return f"{number}{unit}  ({reading.source}{note})"
