"""The ledger's requests as columns: read in batches, so that a million of them fit where their chunks do."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, overload

import numpy as np

from kvantage.core import RequestRecord
from kvantage.core.columns import Bools, Counts, Ints, RequestColumns, Texts
from kvantage.ledger import codec
from kvantage.ledger.blob import pack_chunks, pack_ids
from kvantage.ledger.writer import connect

BATCH = 8192
CHUNK_BYTES = 12
"""Of one chunk in the ledger: eight of its time, four of its tokens."""

_WORDS = ("phase", "workload", "error", "finish_reason")
"""Texts of which there are few: kept as numbers until the end."""
_INTS = (
    "concurrency",
    "repeat",
    "stream",
    "warmup",
    "ok",
    "intended_ns",
    "sent_ns",
    "first_ns",
    "first_content_ns",
    "end_ns",
    "client_lag_ns",
)
_FLOATS = (
    "prompt_tokens",
    "output_tokens",
    "reasoning_tokens",
    "cached_tokens",
    "accepted_tokens",
    "drafted_tokens",
    "spec_steps",
    "queue_s",
    "retractions",
    "expected_low",
    "expected_high",
)
_SPACE = "char(32, 9, 10, 11, 12, 13)"
_FILLED = {name: f"trim({name}, {_SPACE}) <> ''" for name in ("content", "reasoning")}
_NAMES = ("id", "chain", "chunk_count", "chunks", "histogram", "checks", "prompt_id")
_COLUMNS = (*_NAMES, *_WORDS, *_INTS, *_FLOATS, *_FILLED)
_SELECT = (
    f"SELECT {', '.join((*_NAMES, *_WORDS, *_INTS, *_FLOATS, *_FILLED.values()))} FROM requests ORDER BY id"
)


def request_row(chain: int, record: RequestRecord) -> tuple[Any, ...]:
    """A row of the table `requests`, its number left out."""
    key = record.key
    low, high = record.expected_cached or (None, None)
    return (
        chain,
        key.phase,
        key.workload,
        key.concurrency,
        key.repeat,
        key.stream,
        key.prompt_id,
        int(key.warmup),
        int(record.status == "ok"),
        record.error,
        record.http_status,
        record.finish_reason,
        record.intended_ns,
        record.sent_ns,
        record.first_ns,
        record.first_content_ns,
        record.end_ns,
        record.prompt_tokens,
        record.output_tokens,
        record.reasoning_tokens,
        record.cached_tokens,
        record.accepted_tokens,
        record.drafted_tokens,
        record.spec_steps,
        codec.plain(record.acceptance_histogram) if record.acceptance_histogram is not None else None,
        record.queue_s,
        record.retractions,
        low,
        high,
        record.client_lag_ns,
        _storable(record.content),
        _storable(record.reasoning),
        codec.plain([dict(call) for call in record.tool_calls]),
        pack_ids(record.token_ids) if record.token_ids is not None else None,
        codec.plain(dict(record.checks)),
        codec.plain(dict(record.raw_usage)),
        len(record.chunks),
        pack_chunks(record.chunks),
    )


def _storable(text: str) -> str:
    # a lone surrogate (half of a cut escape) is no valid UTF-8; SQLite would refuse the whole request
    return text.encode("utf-8", "replace").decode("utf-8")


class ChainOf(Protocol):
    """What a request takes from its chain."""

    @property
    def fingerprint(self) -> str: ...
    @property
    def block(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def attempt(self) -> int: ...


class StoredTexts(Texts):
    """Answers left in the ledger until they are asked for: few are, and together they are large."""

    def __init__(self, path: Path, column: str, ids: Ints, filled: Bools) -> None:
        self._path = path
        self._column = column
        self._ids = ids
        self.filled = filled

    def __len__(self) -> int:
        return len(self._ids)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[str]: ...
    def __getitem__(self, place: int | slice) -> str | Sequence[str]:
        if isinstance(place, slice):
            return StoredTexts(self._path, self._column, self._ids[place], self.filled[place])
        if not self.filled[place]:
            return ""
        connection = connect(self._path, read_only=True)
        try:
            found = connection.execute(
                f"SELECT {self._column} FROM requests WHERE id = ?", (int(self._ids[place]),)
            ).fetchone()
        finally:
            connection.close()
        return str(found[0]) if found else ""

    def __iter__(self) -> Iterator[str]:
        wanted = iter(self._ids.tolist())
        number = next(wanted, -1)
        connection = connect(self._path, read_only=True)
        try:
            for found, text in connection.execute(f"SELECT id, {self._column} FROM requests ORDER BY id"):
                if found == number:
                    yield str(text)
                    number = next(wanted, -1)
        finally:
            connection.close()


def read_requests(
    db: sqlite3.Connection, path: Path, names: Mapping[str, str], chains: Mapping[int, ChainOf]
) -> RequestColumns:
    """The requests of those chains as they were committed; `names` are the arms by fingerprint."""
    room = int(db.execute("SELECT count(*) FROM requests").fetchone()[0])
    bound = _most_chunks(path)
    times: Ints = np.empty(bound, dtype=np.int64)
    tokens: Counts = np.empty(bound, dtype=np.int16)
    # whole columns from the start: a million small arrays to be joined would take their room twice
    whole = {name: np.empty(room, dtype=np.int64) for name in ("id", "chain", "chunk_count", *_INTS)}
    real = {name: np.empty(room, dtype=np.float64) for name in _FLOATS}
    filled = {name: np.empty(room, dtype=np.bool_) for name in _FILLED}
    words = {name: np.empty(room, dtype=np.int32) for name in _WORDS}
    known: dict[str, dict[str, int]] = {name: {} for name in _WORDS}
    prompts: list[np.ndarray[Any, np.dtype[np.str_]]] = []
    histograms: list[tuple[int, ...] | None] = []
    checks: list[Mapping[str, Any]] = []
    nothing: Mapping[str, Any] = {}
    rows = chunks = 0
    for batch in _batches(db, chains):
        told = dict(zip(_COLUMNS, zip(*batch, strict=True), strict=True))
        here = slice(rows, rows + len(batch))
        for name, column in whole.items():
            column[here] = _whole(told[name])
        for name, numbers in real.items():
            numbers[here] = np.array(told[name], dtype=np.float64)
        for name, flags in filled.items():
            flags[here] = np.array(told[name], dtype=np.bool_)
        for name, places in words.items():
            seen = known[name]
            places[here] = [seen.setdefault(text or "", len(seen)) for text in told[name]]
        prompts.append(np.array(told["prompt_id"], dtype=np.str_))
        histograms += [tuple(json.loads(text)) if text else None for text in told["histogram"]]
        checks += [nothing if text == "{}" else json.loads(text) for text in told["checks"]]
        counts = whole["chunk_count"][here]
        total = int(counts.sum())
        tokens = _unpack(told["chunks"], counts, times, tokens, chunks)
        rows, chunks = here.stop, chunks + total
    whole = {name: column[:rows] for name, column in whole.items()}
    ids = whole.pop("id")
    offsets = np.zeros(rows + 1, dtype=np.int64)
    np.cumsum(whole.pop("chunk_count"), out=offsets[1:])
    ordered, place = np.unique(whole.pop("chain"), return_inverse=True)
    of = [chains[chain] for chain in ordered.tolist()]
    fields: dict[str, Any] = {
        **{name: _texts(list(known[name]), places[:rows]) for name, places in words.items()},
        **{name: numbers[:rows] for name, numbers in real.items()},
        **whole,
        "warmup": whole["warmup"].astype(np.bool_),
        "ok": whole["ok"].astype(np.bool_),
    }
    return RequestColumns(
        arm=_texts([names[chain.fingerprint] for chain in of], place),
        fingerprint=_texts([chain.fingerprint for chain in of], place),
        chain=_texts([chain.name for chain in of], place),
        block=np.array([chain.block for chain in of], dtype=np.int64)[place],
        attempt=np.array([chain.attempt for chain in of], dtype=np.int64)[place],
        prompt_id=np.concatenate(prompts) if prompts else np.empty(0, dtype="U1"),
        chunk_offsets=offsets,
        chunk_ns=times[:chunks],
        chunk_tokens=tokens[:chunks],
        histograms=tuple(histograms),
        content=StoredTexts(path, "content", ids, filled["content"][:rows]),
        reasoning=StoredTexts(path, "reasoning", ids, filled["reasoning"][:rows]),
        checks=tuple(checks),
        **fields,
    )


def _batches(db: sqlite3.Connection, chains: Mapping[int, Any]) -> Iterable[list[tuple[Any, ...]]]:
    cursor = db.cursor()
    cursor.row_factory = None
    cursor.execute(_SELECT)
    while rows := cursor.fetchmany(BATCH):
        chosen = [row for row in rows if row[1] in chains]
        if chosen:
            yield chosen


def _most_chunks(path: Path) -> int:
    """No ledger holds more chunks than its files have room for. Memory that is not written takes no room."""
    files = (path, path.with_name(path.name + "-wal"))
    return sum(file.stat().st_size for file in files if file.exists()) // CHUNK_BYTES + 1


def _unpack(blobs: Sequence[bytes], counts: Ints, times: Ints, tokens: Counts, at: int) -> Counts:
    """Put a batch's chunks into the columns from `at` on; returns that of tokens, wider where it must be."""
    words = np.frombuffer(b"".join(blobs), dtype="<i4")
    total = int(counts.sum())
    if len(words) != 3 * total:
        raise ValueError(f"{total} chunks take {CHUNK_BYTES * total} bytes, not {4 * len(words)}")
    if not total:
        return tokens
    # each request: two words a time, then one word a count
    ends = np.cumsum(counts)
    starts = 3 * (ends - counts) + 2 * counts
    marks = np.zeros(len(words) + 1, dtype=np.int8)
    np.add.at(marks, starts, 1)
    np.add.at(marks, starts + counts, -1)
    np.cumsum(marks[:-1], out=marks[:-1])
    is_count = marks[:-1].astype(np.bool_)
    told = words[is_count]
    if told.max() > np.iinfo(tokens.dtype).max:
        tokens = tokens.astype(np.int32)
    times[at : at + total] = words[~is_count].view("<i8")
    tokens[at : at + total] = told
    return tokens


def _whole(values: Sequence[int | None]) -> Ints:
    """-1 for 'there is none'."""
    if None in values:
        return np.array([-1 if value is None else value for value in values], dtype=np.int64)
    return np.array(values, dtype=np.int64)


def _texts(words: list[str], place: Any) -> np.ndarray[Any, np.dtype[np.str_]]:
    """Each request's word."""
    if not words:
        return np.empty(0, dtype="U1")
    chosen: np.ndarray[Any, np.dtype[np.str_]] = np.array(words, dtype=np.str_)[place]
    return chosen
