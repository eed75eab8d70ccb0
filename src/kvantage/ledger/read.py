"""The ledger read back as columns, for the study that is in force."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kvantage.core import ArmSettings, CellKey, CounterDelta, Facts, LedgerError, LogReadings
from kvantage.core.columns import BootRow, CellWindow, SkippedPhase, StudyData
from kvantage.ledger import codec
from kvantage.ledger.exactness import read_exactness
from kvantage.ledger.opening import FILE, check_version
from kvantage.ledger.requests import read_requests
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
        requests=read_requests(db, path, names, chains),
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
