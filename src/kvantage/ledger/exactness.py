"""The exactness phase in the ledger: answers with their token ids, and the scores of their tokens."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from kvantage.core import EXACTNESS, Answer, CounterDelta, ExactnessData, LogReadings, Scores, Spoken
from kvantage.ledger import codec
from kvantage.ledger.blob import unpack_ids

SCORES_TABLE = """
-- the tokens of an answer scored by the control, an answer's prompt and token ids named by their digest
CREATE TABLE IF NOT EXISTS scores (
    id INTEGER PRIMARY KEY,
    chain INTEGER NOT NULL REFERENCES chains (id),
    prompt_id TEXT NOT NULL,
    digest TEXT NOT NULL,
    chosen BLOB NOT NULL,
    best BLOB NOT NULL,
    best_ids BLOB NOT NULL,
    rivals TEXT NOT NULL,
    texts TEXT NOT NULL
) STRICT;
"""
"""Added to ledgers that were begun before there was such a phase."""
NO_SCORES = "no_scores"
"""The kind of the event that says why answers could not be scored."""

ChainOf = Mapping[int, tuple[str, int, int]]
"""(arm, block, boot) of the chains that count, by the ledger's number of the chain."""


def score_row(chain: int, prompt_id: str, digest: str, scores: Scores) -> tuple[Any, ...]:
    """A row of the table: logprobs as little-endian float64, ids as int32, the rest as JSON."""
    return (
        chain,
        prompt_id,
        digest,
        np.asarray(scores.chosen, dtype="<f8").tobytes(),
        np.asarray(scores.best, dtype="<f8").tobytes(),
        np.asarray(scores.best_id, dtype="<i4").tobytes(),
        codec.plain(scores.rivals),
        codec.plain({str(token): text for token, text in scores.texts.items()}),
    )


def read_exactness(
    db: sqlite3.Connection, chains: ChainOf, events: Collection[Mapping[str, Any]]
) -> ExactnessData:
    """Everything of the phase that belongs to these chains."""
    no_scores = [str(event.get("text")) for event in events if event.get("kind") == NO_SCORES]
    return ExactnessData(
        answers=tuple(_answers(db, chains)),
        scores=_scores(db, chains),
        no_scores=no_scores[-1] if no_scores else None,
        spoken=_spoken(db, chains),
    )


def _answers(db: sqlite3.Connection, chains: ChainOf) -> list[Answer]:
    found = []
    rows = db.execute("SELECT * FROM requests WHERE phase = ? AND warmup = 0 ORDER BY id", (EXACTNESS,))
    for row in rows:
        if row["chain"] not in chains:
            continue
        arm, block, boot = chains[row["chain"]]
        found.append(
            Answer(
                arm=arm,
                block=block,
                boot=boot,
                kind=row["workload"],
                concurrency=row["concurrency"],
                prompt_id=row["prompt_id"],
                repeat=row["repeat"],
                ok=bool(row["ok"]),
                error=row["error"] or "",
                finish_reason=row["finish_reason"] or "",
                content=row["content"],
                reasoning=row["reasoning"],
                tool_calls=_calls(row["tool_calls"]),
                token_ids=unpack_ids(row["token_ids"]) if row["token_ids"] is not None else None,
                accepted=row["accepted_tokens"],
                drafted=row["drafted_tokens"],
                steps=row["spec_steps"],
                checks=json.loads(row["checks"]),
            )
        )
    return found


def _calls(text: str) -> str:
    """Names and arguments of tool calls; their ids are new each time and are no part of an answer."""
    calls = [call.get("function", {}) for call in json.loads(text)]
    return codec.plain([{"name": one.get("name"), "arguments": one.get("arguments")} for one in calls])


def _scores(db: sqlite3.Connection, chains: ChainOf) -> dict[str, Scores]:
    there = db.execute("SELECT 1 FROM sqlite_master WHERE name = 'scores'").fetchone()
    if there is None:
        return {}
    found = {}
    for row in db.execute("SELECT * FROM scores ORDER BY id"):
        if row["chain"] not in chains:
            continue
        found[row["digest"]] = Scores(
            chosen=tuple(np.frombuffer(row["chosen"], dtype="<f8").tolist()),
            best=tuple(np.frombuffer(row["best"], dtype="<f8").tolist()),
            best_id=tuple(np.frombuffer(row["best_ids"], dtype="<i4").tolist()),
            rivals=tuple(
                tuple((int(token), float(value)) for token, value in position)
                for position in json.loads(row["rivals"])
            ),
            texts={int(token): text for token, text in json.loads(row["texts"]).items()},
        )
    return found


def _spoken(db: sqlite3.Connection, chains: ChainOf) -> dict[tuple[str, int], Spoken]:
    sums: dict[tuple[str, int], dict[str, float | None]] = {}
    lengths: dict[tuple[str, int], list[tuple[float, float | None]]] = {}
    wanted = "chain, workload, concurrency, delta, log, ended_ns - started_ns AS took_ns"
    rows = db.execute(f"SELECT {wanted} FROM windows WHERE phase = ?", (EXACTNESS,))
    for row in rows:
        if row["chain"] not in chains or row["workload"] not in ("greedy", "stream"):
            continue
        arm = chains[row["chain"]][0]
        delta = codec.load(CounterDelta, row["delta"]) if row["delta"] else None
        total = sums.setdefault(
            (arm, row["concurrency"]), dict.fromkeys(("drafts", "drafted_tokens", "accepted_tokens"), 0.0)
        )
        log = codec.load(LogReadings, row["log"]) if row["log"] else LogReadings()
        told = log.readings.get("acceptance_length")
        lengths.setdefault((arm, row["concurrency"]), []).append(
            (row["took_ns"], None if told is None else told.value)
        )
        for name, before in total.items():
            moved = None if delta is None or delta.reset else delta.counters.get(name)
            total[name] = None if before is None or moved is None else before + moved
    return {
        key: Spoken(
            total["drafts"], total["drafted_tokens"], total["accepted_tokens"], _over_time(lengths[key])
        )
        for key, total in sums.items()
    }


def _over_time(lengths: Sequence[tuple[float, float | None]]) -> float | None:
    """Their mean, each weighted by its time; None where one is untold."""
    took = sum(each for each, _ in lengths)
    known = [each * length for each, length in lengths if length is not None]
    return sum(known) / took if took and len(known) == len(lengths) else None
