"""A study's database: appended to as it happens, resumed from, and read back by `read.py`."""

from __future__ import annotations

import hashlib
import json
import math
import os
import sqlite3
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kvantage.core import (
    ArmSettings,
    CellKey,
    CounterDelta,
    Facts,
    LedgerError,
    LogReadings,
    RequestRecord,
    Scores,
)
from kvantage.core.telemetry import Sample
from kvantage.ledger import codec
from kvantage.ledger.exactness import SCORES_TABLE, score_row
from kvantage.ledger.opening import FILE, add_later_columns, check_version, mark_broken, take_lock
from kvantage.ledger.requests import request_row
from kvantage.ledger.schema import CLOSING, TABLES, VERSION
from kvantage.ledger.telemetry import TELEMETRY_TABLE, insert
from kvantage.ledger.writer import Writer, connect, storage_error


def now() -> str:
    """The wall clock in UTC, to the second, as ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass(frozen=True, slots=True)
class Boot:
    """A boot that is being measured."""

    id: int
    arm: ArmSettings
    fingerprint: str
    block: int


@dataclass(frozen=True, slots=True)
class Chain:
    """An attempt at a unit of work that is kept whole or run again."""

    id: int
    name: str
    attempt: int
    boot: Boot
    work: str = ""
    """The fingerprint of what it measures."""


class Ledger:
    """`with Ledger.create(dir)` or `Ledger.resume(dir)`. One process at a time writes a study."""

    def __init__(self, folder: Path, lock: int) -> None:
        self.folder = folder
        self.path = folder / FILE
        self._lock = lock
        self._writer = Writer(self.path)
        self._began: tuple[str, int] | None = None

    @classmethod
    def create(cls, folder: Path) -> Self:
        """A new ledger in `folder`. Raises LedgerError when there is one already, or no room."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / FILE
        lock = take_lock(folder)
        try:
            if path.exists():
                raise LedgerError(
                    "this folder holds a study already",
                    where=str(folder),
                    hint="go on with it by --resume, or name another folder by --out",
                )
            connection = connect(path)
            connection.executescript(TABLES)
            connection.executescript(SCORES_TABLE)
            connection.executescript(TELEMETRY_TABLE)
            connection.execute("INSERT INTO meta VALUES ('version', ?)", (str(VERSION),))
            connection.close()
        except sqlite3.Error as error:
            os.close(lock)
            raise storage_error(path, error) from error
        except LedgerError:
            os.close(lock)
            raise
        return cls(folder, lock)

    @classmethod
    def resume(cls, folder: Path) -> Self:
        """Open an existing ledger to go on; chains that were broken off are marked so."""
        path = folder / FILE
        if not path.is_file():
            raise LedgerError("there is no study to resume here", where=str(folder))
        lock = take_lock(folder)
        try:
            check_version(path)
        except LedgerError:
            os.close(lock)
            raise
        ledger = cls(folder, lock)
        ledger._writer.do(add_later_columns)
        ledger._writer.do(mark_broken)
        return ledger

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._writer.close()
        except LedgerError:
            if error is None:
                raise
        finally:
            os.close(self._lock)

    # the study

    def begin(
        self,
        study: Mapping[str, Any],
        control: str,
        arms: Sequence[ArmSettings],
        phases: Mapping[str, str],
        version: str,
    ) -> None:
        """Put a study in force: its arms' fingerprints and its phases' say which results still hold."""
        row = (
            now(),
            control,
            codec.plain(study),
            "[" + ",".join(codec.dump(arm) for arm in arms) + "]",
            codec.plain(dict(phases)),
            version,
        )
        self._writer.do(
            lambda db: db.execute(
                "INSERT INTO studies (loaded_at, control, study, arms, phases, kvantage_version)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                row,
            )
        )

    def arms_changed(self, arms: Sequence[ArmSettings]) -> bool:
        """True when the study in force does not hold exactly these configurations; False before the first."""
        row = self._writer.do(
            lambda db: db.execute("SELECT arms FROM studies ORDER BY id DESC LIMIT 1").fetchone()
        )
        if row is None:
            return False
        held = {codec.load(ArmSettings, json.dumps(arm)).fingerprint() for arm in json.loads(row[0])}
        return not {arm.fingerprint() for arm in arms} <= held

    def age_s(self, fingerprint: str) -> float:
        """Seconds since a chain of that arm was begun last, by the wall clock; infinite when none was."""
        row = self._writer.do(
            lambda db: db.execute(
                "SELECT max(started_at) FROM chains WHERE fingerprint = ?", (fingerprint,)
            ).fetchone()
        )
        if row[0] is None:
            return math.inf
        return (datetime.now(UTC) - datetime.fromisoformat(row[0])).total_seconds()

    def spent_s(self, fingerprints: Sequence[str]) -> float:
        """Seconds from the start to the last cell of every boot of these arms, by the wall clock."""
        marks = ", ".join("?" * len(fingerprints))
        rows = self._writer.do(
            lambda db: db.execute(
                "SELECT boots.started_at, max(windows.measured_at) FROM boots"
                " JOIN chains ON chains.boot = boots.id JOIN windows ON windows.chain = chains.id"
                f" WHERE boots.fingerprint IN ({marks}) GROUP BY boots.id",
                tuple(fingerprints),
            ).fetchall()
        )
        spans = [datetime.fromisoformat(end) - datetime.fromisoformat(start) for start, end in rows]
        return sum(max(span.total_seconds(), 0.0) for span in spans)

    # boots

    def open_boot(self, arm: ArmSettings, block: int, provenance: Mapping[str, Any]) -> Boot:
        """A server is about to be started."""
        fingerprint = arm.fingerprint()
        row = (arm.name, fingerprint, block, now(), time.monotonic_ns(), codec.plain(dict(provenance)))
        cursor = self._writer.do(
            lambda db: (
                db.execute(
                    "INSERT INTO boots (arm, fingerprint, block, status, started_at, clock_ns, provenance)"
                    " VALUES (?, ?, ?, 'running', ?, ?, ?)",
                    row,
                ).lastrowid
            )
        )
        return Boot(int(cursor), arm, fingerprint, block)

    def boot_ready(self, boot: Boot, facts: Facts, ready_s: float) -> None:
        """It serves, and this is what it says of itself."""
        self._update_boot(boot, "facts = ?, ready_s = ?", (codec.dump(facts), ready_s))

    def boot_provenance(self, boot: Boot, provenance: Mapping[str, Any]) -> None:
        """What was learned of its origin after it started."""
        self._update_boot(boot, "provenance = ?", (codec.plain(dict(provenance)),))

    def boot_ok(self, boot: Boot) -> None:
        """It was measured and stopped."""
        self._update_boot(boot, "status = 'ok'", ())

    def boot_failed(self, boot: Boot, reason: str, log_lines: Sequence[str] = ()) -> None:
        """It did not boot, or died; its log's own words are kept."""
        self._update_boot(
            boot, "status = 'failed', reason = ?, log_lines = ?", (reason, codec.plain(list(log_lines)))
        )

    def boot_interrupted(self, boot: Boot, reason: str) -> None:
        """It was broken off; what it had finished counts."""
        self._update_boot(boot, "status = 'interrupted', reason = ?", (reason,))

    def _update_boot(self, boot: Boot, assignments: str, values: tuple[Any, ...]) -> None:
        sql = f"UPDATE boots SET {assignments} WHERE id = ?"
        self._writer.do(lambda db: db.execute(sql, (*values, boot.id)))

    # chains

    def is_complete(self, fingerprint: str, block: int, name: str, phase_fingerprint: str) -> bool:
        """True when that chain has been measured whole."""
        return bool(
            self._writer.do(
                lambda db: db.execute(
                    "SELECT count(*) FROM chains WHERE fingerprint = ? AND block = ? AND name = ?"
                    " AND phase_fingerprint = ? AND status = 'complete'",
                    (fingerprint, block, name, phase_fingerprint),
                ).fetchone()[0]
            )
        )

    def is_closed(
        self, fingerprint: str, name: str, phase_fingerprint: str, rests_on: Mapping[str, Sequence[str]]
    ) -> bool:
        """True when that closing chain was run whole, and nothing that it rests on was measured after it.

        `rests_on` gives, by fingerprint of an arm, the phase fingerprints of the chains that it looks at.
        """

        def work(db: sqlite3.Connection) -> bool:
            closed = db.execute(
                "SELECT max(id) FROM chains WHERE fingerprint = ? AND name = ? AND phase_fingerprint = ?"
                " AND status = 'complete'",
                (fingerprint, name, phase_fingerprint),
            ).fetchone()[0]
            if closed is None:
                return False
            later = db.execute(
                "SELECT fingerprint, phase_fingerprint FROM chains WHERE id > ? AND status = 'complete'"
                " AND name NOT LIKE ?",
                (closed, CLOSING + "%"),
            )
            return not any(phase in rests_on.get(arm, ()) for arm, phase in later)

        return bool(self._writer.do(work))

    def open_chain(self, boot: Boot, name: str, phase_fingerprint: str) -> Chain:
        """Begin a chain; its attempt is one more than the last."""

        def work(db: sqlite3.Connection) -> tuple[int, int]:
            key = (boot.fingerprint, boot.block, name, phase_fingerprint)
            attempt: int = db.execute(
                "SELECT coalesce(max(attempt) + 1, 0) FROM chains WHERE fingerprint = ? AND block = ?"
                " AND name = ? AND phase_fingerprint = ?",
                key,
            ).fetchone()[0]
            cursor = db.execute(
                "INSERT INTO chains (boot, fingerprint, block, name, phase_fingerprint, attempt, status,"
                " started_at) VALUES (?, ?, ?, ?, ?, ?, 'open', ?)",
                (boot.id, *key, attempt, now()),
            )
            return int(cursor.lastrowid or 0), attempt

        chain_id, attempt = self._writer.do(work)
        return Chain(chain_id, name, attempt, boot, phase_fingerprint)

    def chain_complete(self, chain: Chain) -> None:
        """It was measured whole; it is not run again."""
        self._writer.do(
            lambda db: db.execute("UPDATE chains SET status = 'complete' WHERE id = ?", (chain.id,))
        )

    def chain_broken(self, chain: Chain, reason: str) -> None:
        """It was broken off; what it holds is shown and not used."""
        self._writer.do(
            lambda db: db.execute(
                "UPDATE chains SET status = 'broken', reason = ? WHERE id = ?", (reason, chain.id)
            )
        )

    def mark(self, *parts: object) -> str:
        """Six letters and digits of this study alone: of when its first server was started, and `parts`."""
        if self._began is None:  # asked for with every request, and the first boot stays the first
            self._began = self._writer.do(
                lambda db: db.execute("SELECT started_at, clock_ns FROM boots ORDER BY id LIMIT 1").fetchone()
            )
        text = "|".join(map(str, (*(self._began or ()), *parts)))
        return hashlib.sha256(text.encode()).hexdigest()[:6]

    # what is measured

    def add_request(self, chain: Chain, record: RequestRecord) -> Future[Any]:
        """Append a finished request; the future resolves when it is on disk."""
        row = request_row(chain.id, record)
        marks = ", ".join("?" * len(row))
        return self._writer.submit(lambda db: db.execute(f"INSERT INTO requests VALUES (NULL, {marks})", row))

    def add_window(
        self,
        chain: Chain,
        key: CellKey,
        started_ns: int,
        ended_ns: int,
        *,
        delta: CounterDelta | None = None,
        log: LogReadings | None = None,
        running_max: float | None = None,
        waiting_max: float | None = None,
        pool_usage_max: float | None = None,
        own_prompt_tokens: int | None = None,
        lag_p99_ns: int | None = None,
        own_cpu_s: float | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        """Append what surrounded a cell."""
        row = {
            "chain": chain.id,
            "phase": key.phase,
            "workload": key.workload,
            "concurrency": key.concurrency,
            "started_ns": started_ns,
            "ended_ns": ended_ns,
            "measured_at": now(),
            "delta": codec.dump(delta) if delta is not None else None,
            "log": codec.dump(log) if log is not None else None,
            "running_max": running_max,
            "waiting_max": waiting_max,
            "pool_usage_max": pool_usage_max,
            "own_prompt_tokens": own_prompt_tokens,
            "lag_p99_ns": lag_p99_ns,
            "own_cpu_s": own_cpu_s,
            "notes": codec.plain(list(notes)),
        }
        columns, marks = ", ".join(row), ", ".join(f":{name}" for name in row)
        self._writer.do(lambda db: db.execute(f"INSERT INTO windows ({columns}) VALUES ({marks})", row))

    def add_scores(self, chain: Chain, prompt_id: str, digest: str, scores: Scores) -> None:
        """Append the scores of one answer's tokens; `digest` names the prompt and the tokens."""
        row = score_row(chain.id, prompt_id, digest, scores)
        marks = ", ".join("?" * len(row))
        self._writer.do(lambda db: db.execute(f"INSERT INTO scores VALUES (NULL, {marks})", row))

    def add_samples(self, boot: Boot, samples: Sequence[Sample]) -> None:
        """Append looks at the machines under a boot; never blocks, and may be called from any thread."""
        self._writer.submit(lambda db: insert(db, boot.id, samples))

    def skip(self, fingerprint: str, block: int, phase: str, workload: str, reason: str) -> None:
        """Something was not run, and why; the last reason stands."""
        row = (fingerprint, block, phase, workload, reason)
        self._writer.do(
            lambda db: db.execute(
                "INSERT INTO skipped (fingerprint, block, phase, workload, reason) VALUES (?, ?, ?, ?, ?)"
                " ON CONFLICT DO UPDATE SET reason = excluded.reason",
                row,
            )
        )

    def unskip(self, fingerprint: str, block: int, phase: str, workload: str) -> None:
        """It was run after all."""
        row = (fingerprint, block, phase, workload)
        self._writer.do(
            lambda db: db.execute(
                "DELETE FROM skipped WHERE fingerprint = ? AND block = ? AND phase = ? AND workload = ?", row
            )
        )

    def event(self, kind: str, **detail: Any) -> None:
        """Something happened that a reader of the study wants to know."""
        row = (now(), kind, codec.plain(detail))
        self._writer.do(lambda db: db.execute("INSERT INTO events (at, kind, detail) VALUES (?, ?, ?)", row))
