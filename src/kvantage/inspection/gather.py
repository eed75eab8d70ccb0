"""Files and folders read, and put together where they are of one server."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kvantage.core import Reading, UsageError
from kvantage.inspection.answers import read_responses, read_stream
from kvantage.inspection.configs import read_config
from kvantage.inspection.document import NAMES, Document
from kvantage.inspection.logs import read_log_file
from kvantage.inspection.metrics import between, read_metrics
from kvantage.inspection.recognise import recognise
from kvantage.inspection.servers import read_server

RANKS = ("request", "client", "counter delta", "log window", "gauge", "device", "config", "computed")
"""Sources in the order in which they are believed."""

AGREE = 0.01
"""Two files agree on a number within this share of it: sizes are printed rounded."""

_MOST_BYTES = 256 << 20


@dataclass(frozen=True)
class Inspection:
    """What all files say. `values` holds a name's reading, and whose it is, where they leave no doubt."""

    documents: tuple[Document, ...]
    engine: str | None
    engine_version: str | None
    values: dict[str, tuple[Reading, str]]
    per_position: tuple[float, ...] | None
    warnings: tuple[str, ...]


def inspect(paths: Iterable[Path]) -> Inspection:
    """Read files, and every file of folders. Raises UsageError where nothing is there or nothing is known."""
    files = list(expand(paths))
    documents = with_difference([document for path in files for document in read_file(path)])
    if all(document.kind in ("unknown", "help") for document in documents):
        names = ", ".join(str(path) for path in files[:3]) or "an empty folder"
        if any(document.kind == "help" for document in documents):
            raise UsageError(f"{names} is the help text of a program: it says nothing of a server")
        raise UsageError(
            f"nothing in {names} is known",
            hint="known: boot logs, metrics dumps, streams, responses, /server_info, /props, config.json",
        )
    return combine(documents)


def expand(paths: Iterable[Path]) -> Iterator[Path]:
    """Files in order, folders in their files' order. Raises UsageError for what is not there."""
    for path in paths:
        if path.is_dir():
            yield from sorted(
                one for one in path.rglob("*") if one.is_file() and not one.name.startswith(".")
            )
        elif path.exists():
            yield path
        else:
            raise UsageError(f"there is no {path}")


def read_file(path: Path) -> list[Document]:
    """Every document in a file: one, or one an engine, or one a response."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            return [Document(str(path), "unknown", warnings=("larger than 256 MiB: cut it to what matters",))]
        raw = path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from error
    return read_text(str(path), raw.decode("utf-8", "replace"))


def read_text(name: str, text: str) -> list[Document]:
    """Every document in a text."""
    found = recognise(text)
    engine = found.engines[0] if found.engines else None
    if found.kind == "log":
        return [read_log_file(name, text, one) for one in found.engines]
    if found.kind == "metrics":
        return [read_metrics(name, text, one) for one in found.engines] or [Document(name, "metrics")]
    if found.kind == "stream":
        return [read_stream(name, text, engine)]
    if found.kind == "response":
        return read_responses(name, found.data, engine)
    if found.kind == "server":
        return [read_server(name, found.data, engine)]
    if found.kind == "config":
        return [read_config(name, found.data)]
    return [Document(name, found.kind, engine)]


def with_difference(documents: list[Document]) -> list[Document]:
    """Two dumps of one engine's metrics are two moments: their counters are told as one difference."""
    dumps = [document for document in documents if document.kind == "metrics" and document.engine]
    if len(dumps) != 2 or dumps[0].engine != dumps[1].engine:
        return documents
    texts = [(dump.name, Path(dump.name).read_text(encoding="utf-8", errors="replace")) for dump in dumps]
    moved = between(texts[0], texts[1], str(dumps[0].engine))
    if moved is None:
        return documents
    return [*(_without_counters(one) if one in dumps else one for one in documents), moved]


def _without_counters(document: Document) -> Document:
    kept = {name: reading for name, reading in document.readings.items() if reading.source != "counter delta"}
    return replace(document, readings=kept, per_position=None)


def combine(documents: Sequence[Document]) -> Inspection:
    """One picture of all files. What they disagree on, at the best source that they have, stays open."""
    engines = list(dict.fromkeys(document.engine for document in documents if document.engine))
    versions = {document.engine_version for document in documents if document.engine_version}
    warnings = [
        warning if len(documents) == 1 else f"{document.name}: {warning}"
        for document in documents
        for warning in document.warnings
    ]
    values: dict[str, tuple[Reading, str]] = {}
    open_names = []
    for name in dict.fromkeys((*NAMES, *(name for one in documents for name in one.readings))):
        told = [(one.readings[name], one.name) for one in documents if name in one.readings]
        known = [(reading, whose) for reading, whose in told if reading.known]
        if not known:
            if told:
                values[name] = told[0]
            continue
        best = min(_rank(reading) for reading, _ in known)
        at_best = [pair for pair in known if _rank(pair[0]) == best]
        if _agree([reading for reading, _ in at_best]):
            values[name] = at_best[0]
        else:
            open_names.append(name)
            values[name] = (Reading.absent(f"{len(at_best)} files tell different numbers"), "")
    if open_names and len(documents) > 1:
        warnings.append(f"the files differ in {', '.join(open_names)}: see each; they are left open here")
    if len(engines) > 1:
        warnings += compare_engines(documents)
    positions = {document.per_position for document in documents if document.per_position}
    return Inspection(
        tuple(documents),
        engines[0] if len(engines) == 1 else None,
        next(iter(versions)) if len(versions) == 1 else None,
        values,
        next(iter(positions)) if len(positions) == 1 else None,
        tuple(dict.fromkeys(warnings)),
    )


def _rank(reading: Reading) -> int:
    return RANKS.index(reading.source) if reading.source in RANKS else len(RANKS)


def _agree(readings: Sequence[Reading]) -> bool:
    values = [reading.value for reading in readings if reading.value is not None]
    return max(values) - min(values) <= AGREE * max(abs(value) for value in values)


def compare_engines(documents: Sequence[Document]) -> Iterator[str]:
    """Two engines' pools beside each other: a token's cost apart from the memory that each was given."""
    costs = {
        document.engine: reading.value
        for document in documents
        if document.engine and (reading := document.readings.get("kv_bytes_per_token")) and reading.value
    }
    if len(costs) < 2:
        return
    (first, a), (second, b) = list(costs.items())[:2]
    if abs(a - b) <= 0.02 * max(a, b):
        yield (
            f"{first} and {second} take the same, {a:,.0f} and {b:,.0f} bytes a token (per-token cost equal):"
            " a larger pool was given more memory (different budgets)"
        )
    else:
        yield f"{first} takes {a:,.0f} bytes a token and {second} {b:,.0f}: compare bytes, not tokens"
