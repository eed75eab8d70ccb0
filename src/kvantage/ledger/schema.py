"""The ledger's tables. A change of meaning is a new VERSION and a decision page."""

from __future__ import annotations

VERSION = 1
LATER = {"windows": {"own_cpu_s": "REAL"}}
"""Columns that came after ledgers of this version were written: such a ledger is read without them, and gets
them when it is gone on with.
"""

CLOSING = "closing:"
"""What the names of chains begin with that are run on the control when all arms were measured. Of such a
chain the last whole run counts, whatever its block: it rests on all that came before it.
"""

TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;

-- the study as loaded, one row a session that changed it; the last one is in force
CREATE TABLE studies (
    id INTEGER PRIMARY KEY,
    loaded_at TEXT NOT NULL,
    control TEXT NOT NULL,
    study TEXT NOT NULL,
    arms TEXT NOT NULL,
    phases TEXT NOT NULL,
    kvantage_version TEXT NOT NULL
) STRICT;

CREATE TABLE boots (
    id INTEGER PRIMARY KEY,
    arm TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    block INTEGER NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('running', 'ok', 'failed', 'interrupted')),
    started_at TEXT NOT NULL,
    clock_ns INTEGER NOT NULL,
    ready_s REAL,
    reason TEXT,
    log_lines TEXT NOT NULL DEFAULT '[]',
    facts TEXT,
    provenance TEXT NOT NULL DEFAULT '{}'
) STRICT;

-- the unit of resuming: a cold wave and its repeat, a workload's short repeats, the probes
CREATE TABLE chains (
    id INTEGER PRIMARY KEY,
    boot INTEGER NOT NULL REFERENCES boots (id),
    fingerprint TEXT NOT NULL,
    block INTEGER NOT NULL,
    name TEXT NOT NULL,
    phase_fingerprint TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('open', 'complete', 'broken')),
    started_at TEXT NOT NULL,
    reason TEXT,
    UNIQUE (fingerprint, block, name, phase_fingerprint, attempt)
) STRICT;

CREATE TABLE windows (
    id INTEGER PRIMARY KEY,
    chain INTEGER NOT NULL REFERENCES chains (id),
    phase TEXT NOT NULL,
    workload TEXT NOT NULL,
    concurrency INTEGER NOT NULL,
    started_ns INTEGER NOT NULL,
    ended_ns INTEGER NOT NULL,
    measured_at TEXT NOT NULL,
    delta TEXT,
    log TEXT,
    running_max REAL,
    waiting_max REAL,
    pool_usage_max REAL,
    own_prompt_tokens INTEGER,
    lag_p99_ns INTEGER,
    own_cpu_s REAL,
    notes TEXT NOT NULL DEFAULT '[]'
) STRICT;

CREATE TABLE requests (
    id INTEGER PRIMARY KEY,
    chain INTEGER NOT NULL REFERENCES chains (id),
    phase TEXT NOT NULL,
    workload TEXT NOT NULL,
    concurrency INTEGER NOT NULL,
    repeat INTEGER NOT NULL,
    stream INTEGER NOT NULL,
    prompt_id TEXT NOT NULL,
    warmup INTEGER NOT NULL,
    ok INTEGER NOT NULL,
    error TEXT,
    http_status INTEGER,
    finish_reason TEXT,
    intended_ns INTEGER NOT NULL,
    sent_ns INTEGER NOT NULL,
    first_ns INTEGER,
    first_content_ns INTEGER,
    end_ns INTEGER NOT NULL,
    prompt_tokens INTEGER,
    output_tokens INTEGER,
    reasoning_tokens INTEGER,
    cached_tokens INTEGER,
    accepted_tokens INTEGER,
    drafted_tokens INTEGER,
    spec_steps INTEGER,
    histogram TEXT,
    queue_s REAL,
    retractions INTEGER,
    expected_low INTEGER,
    expected_high INTEGER,
    client_lag_ns INTEGER NOT NULL,
    content TEXT NOT NULL,
    reasoning TEXT NOT NULL,
    tool_calls TEXT NOT NULL,
    token_ids BLOB,
    checks TEXT NOT NULL,
    raw_usage TEXT NOT NULL,
    chunk_count INTEGER NOT NULL,
    chunks BLOB NOT NULL
) STRICT;
CREATE INDEX requests_by_chain ON requests (chain);

CREATE TABLE skipped (
    id INTEGER PRIMARY KEY,
    fingerprint TEXT NOT NULL,
    block INTEGER NOT NULL,
    phase TEXT NOT NULL,
    workload TEXT NOT NULL,
    reason TEXT NOT NULL,
    UNIQUE (fingerprint, block, phase, workload)
) STRICT;

CREATE TABLE events (
    id INTEGER PRIMARY KEY,
    at TEXT NOT NULL,
    kind TEXT NOT NULL,
    detail TEXT NOT NULL
) STRICT;
"""
