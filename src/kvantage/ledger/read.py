"""The ledger read back as columns, for the study that is in force."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kvantage.core import ArmSettings, CellKey, CounterDelta, Facts, LedgerError, LogReadings
from kvantage.core.columns import BootRow, CellWindow, RequestColumns, SkippedPhase, StudyData
from kvantage.ledger import codec
from kvantage.ledger.blob import unpack_chunks
from kvantage.ledger.exactness import read_exactness
from kvantage.ledger.ledger import FILE, check_version
from kvantage.ledger.schema import CLOSING
from kvantage.ledger.telemetry import read_telemetry, watched
from kvantage.ledger.writer import connect, storage_error


@dataclass(frozen=True, slots=True)
class _ChainRow:
    id: int
    boot: int
    fingerprint: str
    block: int
    name: str
    attempt: int
    status: str
    reason: str | None


def read_study(folder: Path) -> StudyData:
    """Everything in `folder`'s ledger that belongs to the study in force, arms matched by fingerprint.

    Of each chain the last whole attempt counts, or, where none is whole, the last one, marked incomplete.
    Raises LedgerError when there is no ledger or no study in it.
    """
    path = folder / FILE
    if not path.is_file():
        raise LedgerError(
            "there is no study here", where=str(folder), hint="name the folder that `run` wrote"
        )
    check_version(path)
    connection = connect(path, read_only=True)
    connection.row_factory = sqlite3.Row
    try:
        connection.execute("BEGIN")  # one consistent view, also while a run is writing
        return _read(connection, path)
    except sqlite3.Error as error:
        raise storage_error(path, error) from error
    finally:
        connection.close()


def _read(db: sqlite3.Connection, path: Path) -> StudyData:
    head = db.execute("SELECT * FROM studies ORDER BY id DESC LIMIT 1").fetchone()
    if head is None:
        raise LedgerError("the ledger holds no study yet", where=str(path))
    arms = tuple(codec.load(ArmSettings, json.dumps(arm)) for arm in json.loads(head["arms"]))
    names = {arm.fingerprint(): arm.name for arm in arms}
    chains = _chains_in_force(db, set(names), set(json.loads(head["phases"]).values()))
    events = tuple(
        {"at": row["at"], "kind": row["kind"], **json.loads(row["detail"])}
        for row in db.execute("SELECT * FROM events ORDER BY id")
    )
    return StudyData(
        study=json.loads(head["study"]),
        control=head["control"],
        arms=arms,
        boots=tuple(_boots(db, names)),
        windows=tuple(_windows(db, names, chains)),
        requests=_requests(db, names, chains),
        skipped=tuple(
            SkippedPhase(
                names[row["fingerprint"]], row["block"], row["phase"], row["workload"], row["reason"]
            )
            for row in db.execute("SELECT * FROM skipped ORDER BY id")
            if row["fingerprint"] in names
        ),
        events=events,
        simulated=any(event["kind"] == "simulated" for event in events),
        kvantage_version=head["kvantage_version"],
        telemetry=read_telemetry(db),
        watched=watched(events),
        exactness=read_exactness(
            db,
            {
                chain.id: (names[chain.fingerprint], chain.block, chain.boot)
                for chain in chains.values()
                if chain.status == "complete"
            },
            events,
        ),
    )


def _chains_in_force(
    db: sqlite3.Connection, fingerprints: set[str], phase_fingerprints: set[str]
) -> dict[int, _ChainRow]:
    best: dict[tuple[str, int | None, str], _ChainRow] = {}
    rows = db.execute(
        "SELECT id, boot, fingerprint, block, name, phase_fingerprint, attempt, status, reason"
        " FROM chains ORDER BY id"
    )
    for row in rows:
        if row["fingerprint"] not in fingerprints or row["phase_fingerprint"] not in phase_fingerprints:
            continue
        chain = _ChainRow(
            row["id"],
            row["boot"],
            row["fingerprint"],
            row["block"],
            row["name"],
            row["attempt"],
            row["status"],
            row["reason"],
        )
        block = None if chain.name.startswith(CLOSING) else chain.block
        key = (chain.fingerprint, block, chain.name)
        held = best.get(key)
        if held is None or held.status != "complete" or chain.status == "complete":
            best[key] = chain
    return {chain.id: chain for chain in best.values()}


def _boots(db: sqlite3.Connection, names: dict[str, str]) -> Iterable[BootRow]:
    for row in db.execute("SELECT * FROM boots ORDER BY id"):
        if row["fingerprint"] in names:
            yield BootRow(
                arm=names[row["fingerprint"]],
                fingerprint=row["fingerprint"],
                block=row["block"],
                status=row["status"],
                started_at=row["started_at"],
                ready_s=row["ready_s"],
                reason=row["reason"],
                log_lines=tuple(json.loads(row["log_lines"])),
                facts=codec.load(Facts, row["facts"]) if row["facts"] else None,
                provenance=json.loads(row["provenance"]),
            )


def _windows(
    db: sqlite3.Connection, names: dict[str, str], chains: dict[int, _ChainRow]
) -> Iterable[CellWindow]:
    for row in db.execute("SELECT * FROM windows ORDER BY id"):
        chain = chains.get(row["chain"])
        if chain is None:
            continue
        notes = tuple(json.loads(row["notes"]))
        complete = chain.status == "complete"
        yield CellWindow(
            key=CellKey(
                names[chain.fingerprint], chain.block, row["phase"], row["workload"], row["concurrency"]
            ),
            chain=chain.name,
            attempt=chain.attempt,
            started_ns=row["started_ns"],
            ended_ns=row["ended_ns"],
            complete=complete,
            delta=codec.load(CounterDelta, row["delta"]) if row["delta"] else None,
            log=codec.load(LogReadings, row["log"]) if row["log"] else None,
            running_max=row["running_max"],
            waiting_max=row["waiting_max"],
            pool_usage_max=row["pool_usage_max"],
            measured_at=row["measured_at"],
            own_prompt_tokens=row["own_prompt_tokens"],
            lag_p99_ns=row["lag_p99_ns"],
            own_cpu_s=row["own_cpu_s"] if "own_cpu_s" in row.keys() else None,  # noqa: SIM118
            notes=notes if complete or not chain.reason else (*notes, chain.reason),
            boot=chain.boot,
        )


def _requests(db: sqlite3.Connection, names: dict[str, str], chains: dict[int, _ChainRow]) -> RequestColumns:
    rows = [row for row in db.execute("SELECT * FROM requests ORDER BY id") if row["chain"] in chains]
    unpacked = [unpack_chunks(row["chunks"], row["chunk_count"]) for row in rows]
    offsets = np.zeros(len(rows) + 1, dtype=np.int64)
    np.cumsum([row["chunk_count"] for row in rows], out=offsets[1:])
    of = [chains[row["chain"]] for row in rows]

    def ints(name: str) -> np.ndarray[Any, np.dtype[np.int64]]:
        return np.array([-1 if row[name] is None else row[name] for row in rows], dtype=np.int64)

    def floats(name: str) -> np.ndarray[Any, np.dtype[np.float64]]:
        return np.array([np.nan if row[name] is None else row[name] for row in rows], dtype=np.float64)

    def strings(name: str) -> np.ndarray[Any, np.dtype[np.str_]]:
        return _strings([row[name] or "" for row in rows])

    def per_chain(value: Callable[[_ChainRow], Any]) -> list[Any]:
        return [value(chain) for chain in of]

    return RequestColumns(
        arm=_strings(per_chain(lambda c: names[c.fingerprint])),
        fingerprint=_strings(per_chain(lambda c: c.fingerprint)),
        block=np.array(per_chain(lambda c: c.block), dtype=np.int64),
        phase=strings("phase"),
        workload=strings("workload"),
        concurrency=ints("concurrency"),
        chain=_strings(per_chain(lambda c: c.name)),
        attempt=np.array(per_chain(lambda c: c.attempt), dtype=np.int64),
        repeat=ints("repeat"),
        stream=ints("stream"),
        prompt_id=strings("prompt_id"),
        warmup=ints("warmup").astype(np.bool_),
        ok=ints("ok").astype(np.bool_),
        error=strings("error"),
        finish_reason=strings("finish_reason"),
        intended_ns=ints("intended_ns"),
        sent_ns=ints("sent_ns"),
        first_ns=ints("first_ns"),
        first_content_ns=ints("first_content_ns"),
        end_ns=ints("end_ns"),
        prompt_tokens=floats("prompt_tokens"),
        output_tokens=floats("output_tokens"),
        reasoning_tokens=floats("reasoning_tokens"),
        cached_tokens=floats("cached_tokens"),
        accepted_tokens=floats("accepted_tokens"),
        drafted_tokens=floats("drafted_tokens"),
        spec_steps=floats("spec_steps"),
        queue_s=floats("queue_s"),
        retractions=floats("retractions"),
        expected_low=floats("expected_low"),
        expected_high=floats("expected_high"),
        client_lag_ns=ints("client_lag_ns"),
        chunk_offsets=offsets,
        chunk_ns=_joined([times for times, _ in unpacked]),
        chunk_tokens=_joined([tokens for _, tokens in unpacked]),
        histograms=tuple(tuple(json.loads(row["histogram"])) if row["histogram"] else None for row in rows),
        content=tuple(row["content"] for row in rows),
        reasoning=tuple(row["reasoning"] for row in rows),
        checks=tuple(json.loads(row["checks"]) for row in rows),
    )


def _strings(values: Sequence[str]) -> np.ndarray[Any, np.dtype[np.str_]]:
    return np.array(values, dtype=np.str_) if values else np.empty(0, dtype="U1")


def _joined(parts: Sequence[np.ndarray[Any, Any]]) -> np.ndarray[Any, np.dtype[np.int64]]:
    if not parts:
        return np.empty(0, dtype=np.int64)
    joined: np.ndarray[Any, np.dtype[np.int64]] = np.concatenate(parts).astype(np.int64)
    return joined
