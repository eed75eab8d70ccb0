from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
from array import array
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvantage.core import (
    ArmSettings,
    CellKey,
    ChunkTimes,
    CounterDelta,
    Facts,
    LedgerError,
    LogReadings,
    Reading,
    RequestKey,
    RequestRecord,
    Speculation,
)
from kvantage.ledger import Boot, Chain, Ledger, read_study
from kvantage.ledger.blob import pack_chunks, pack_ids, unpack_chunks, unpack_ids

NONE = ArmSettings("none", "vllm", "/models/target")
MTP = ArmSettings("mtp", "vllm", "/models/target", speculation=Speculation("mtp", 3))
PHASES = {"cold": "fp-cold", "short": "fp-short"}


def record(chain: Chain, stream: int = 0, **changes: object) -> RequestRecord:
    boot = chain.boot
    key = RequestKey(
        boot.arm.name, boot.fingerprint, boot.block, "cold", "document", 2, chain.name, chain.attempt, 0,
        stream, f"doc-{stream}",
    )  # fmt: skip
    fields: dict[str, object] = {
        "key": key,
        "status": "ok",
        "intended_ns": 1,
        "sent_ns": 2,
        "first_ns": 10,
        "end_ns": 50,
        "chunks": ChunkTimes(array("q", [10, 20, 2**62]), array("i", [1, 3, -1])),
        "prompt_tokens": 2000,
        "output_tokens": 5,
        "acceptance_histogram": (1, 0, 2),
        "expected_cached": (0, 16),
        "content": "a\u2028b",
        "token_ids": (1, 2, 70000),
    }
    return RequestRecord(**{**fields, **changes})  # type: ignore[arg-type]


def open_study(folder: Path) -> Ledger:
    ledger = Ledger.create(folder)
    ledger.begin({"name": "a study"}, "none", [NONE, MTP], PHASES, "0")
    return ledger


def start(ledger: Ledger, arm: ArmSettings = NONE, name: str = "wave@2") -> tuple[Boot, Chain]:
    boot = ledger.open_boot(arm, 0, {"argv": ["x"]})
    return boot, ledger.open_chain(boot, name, "fp-cold")


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    with open_study(tmp_path) as ledger:
        boot, chain = start(ledger, MTP)
        facts = Facts(
            "vllm", "0.32.0", {"kv_pool_tokens": Reading.of(8192, "tokens", "gauge")}, {"a": [1, None]}
        )
        ledger.boot_ready(boot, facts, 31.5)
        ledger.add_request(chain, record(chain, 0)).result()
        ledger.add_request(chain, record(chain, 1, cached_tokens=0, status="failed", error="cut")).result()
        delta = CounterDelta(1.5, {"drafts": 3.0}, (2.0, 1.0))
        window = LogReadings(windows=({"acceptance_length": 2.5},))
        ledger.add_window(
            chain, CellKey("mtp", 0, "cold", "document", 2), 1, 60, delta=delta, log=window, running_max=2.0
        )
        ledger.chain_complete(chain)
        ledger.boot_ok(boot)
        ledger.skip(NONE.fingerprint(), 0, "probes", "image", "the model has no eyes")
        ledger.event("note", text="hello")

    data = read_study(tmp_path)
    assert [arm.name for arm in data.arms] == ["none", "mtp"]
    assert data.arms[1] == MTP
    assert data.boots[0].facts == facts
    assert data.boots[0].status == "ok"
    assert data.windows[0].delta == delta
    assert data.windows[0].log == window
    assert data.windows[0].complete
    assert data.skipped[0].reason == "the model has no eyes"
    requests = data.requests
    assert len(requests) == 2
    assert requests.arm.tolist() == ["mtp", "mtp"]
    assert requests.ok.tolist() == [True, False]
    assert np.isnan(requests.cached_tokens[0])  # missing is not zero
    assert requests.cached_tokens[1] == 0
    assert requests.chunk_ns[requests.chunk_offsets[1] : requests.chunk_offsets[2]].tolist() == [
        10,
        20,
        2**62,
    ]
    assert requests.chunk_tokens[:3].tolist() == [1, 3, -1]
    assert requests.content[0] == "a\u2028b"
    assert requests.histograms[0] == (1, 0, 2)


def test_an_arm_that_changed_loses_its_results_and_the_others_keep_theirs(tmp_path: Path) -> None:
    with open_study(tmp_path) as ledger:
        for arm in (NONE, MTP):
            boot, chain = start(ledger, arm)
            ledger.add_request(chain, record(chain))
            ledger.chain_complete(chain)
            ledger.boot_ok(boot)
        changed = ArmSettings("mtp", "vllm", "/models/target", speculation=Speculation("mtp", 4))
        ledger.begin({}, "none", [NONE, changed], PHASES, "0")
        assert ledger.is_complete(NONE.fingerprint(), 0, "wave@2", "fp-cold")
        assert not ledger.is_complete(changed.fingerprint(), 0, "wave@2", "fp-cold")
    assert set(read_study(tmp_path).requests.arm.tolist()) == {"none"}


def test_renaming_an_arm_keeps_its_results(tmp_path: Path) -> None:
    with open_study(tmp_path) as ledger:
        _, chain = start(ledger, NONE)
        ledger.add_request(chain, record(chain))
        ledger.chain_complete(chain)
        ledger.begin({}, "off", [ArmSettings("off", "vllm", "/models/target")], PHASES, "0")
    assert read_study(tmp_path).requests.arm.tolist() == ["off"]


def test_a_broken_chain_runs_again_as_the_next_attempt_and_the_whole_one_counts(tmp_path: Path) -> None:
    with open_study(tmp_path) as ledger:
        boot, chain = start(ledger)
        ledger.add_request(chain, record(chain))
        ledger.chain_broken(chain, "the server died")
        assert [w.complete for w in read_study(tmp_path).windows] == []
        again = ledger.open_chain(boot, "wave@2", "fp-cold")
        assert again.attempt == 1
        ledger.add_request(again, record(again, 0))
        ledger.add_request(again, record(again, 1))
        ledger.chain_complete(again)
    assert read_study(tmp_path).requests.attempt.tolist() == [1, 1]


def test_a_ledger_without_a_later_column_is_read_and_gone_on_with(tmp_path: Path) -> None:
    key = CellKey("none", 0, "cold", "document", 2)
    with open_study(tmp_path) as ledger:
        _, chain = start(ledger)
        ledger.add_request(chain, record(chain)).result(10)
        ledger.add_window(chain, key, 1, 99, own_cpu_s=0.5)
        ledger.chain_complete(chain)
    with sqlite3.connect(tmp_path / "ledger.sqlite") as db:
        db.execute("ALTER TABLE windows DROP COLUMN own_cpu_s")
    db.close()
    assert [window.own_cpu_s for window in read_study(tmp_path).windows] == [None]
    with Ledger.resume(tmp_path) as ledger:
        boot = ledger.open_boot(NONE, 0, {"argv": ["x"]})
        chain = ledger.open_chain(boot, "wave@2", "fp-cold")
        ledger.add_window(chain, key, 1, 99, own_cpu_s=0.25)
        ledger.chain_complete(chain)
    assert [window.own_cpu_s for window in read_study(tmp_path).windows] == [0.25]


def test_a_lone_surrogate_does_not_lose_the_request(tmp_path: Path) -> None:
    with open_study(tmp_path) as ledger:
        _, chain = start(ledger)
        ledger.add_request(chain, record(chain, content="\ud83d")).result()
    assert list(read_study(tmp_path).requests.content) == ["?"]


def test_two_at_once_are_refused(tmp_path: Path) -> None:
    with open_study(tmp_path), pytest.raises(LedgerError, match="another kvantage"):
        Ledger.resume(tmp_path)


def test_creating_over_a_study_is_refused(tmp_path: Path) -> None:
    open_study(tmp_path).__exit__(None, None, None)
    with pytest.raises(LedgerError, match="--resume"):
        Ledger.create(tmp_path)


def test_a_folder_without_a_study_is_said(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="no study here"):
        read_study(tmp_path)
    (tmp_path / "ledger.sqlite").write_bytes(b"not a database, but long enough to look like one")
    with pytest.raises(LedgerError, match="not a kvantage ledger"):
        read_study(tmp_path)


def test_a_full_disk_is_said_and_what_was_finished_is_kept(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="disk is full"):  # noqa: PT012, SIM117
        with open_study(tmp_path) as ledger:
            _, chain = start(ledger)
            ledger.add_request(chain, record(chain, 0)).result()
            # the same error that a full disk gives: no page may be added
            ledger._writer.do(lambda db: db.execute("PRAGMA max_page_count = 1"))
            ledger.add_request(chain, record(chain, 1, content="x" * 200_000)).result()
    assert len(read_study(tmp_path).requests) == 1


def test_killed_at_any_moment_it_holds_what_was_finished(tmp_path: Path) -> None:
    script = textwrap.dedent(
        """
        import sys
        from pathlib import Path
        from tests.ledger.test_ledger import open_study, record, start
        with open_study(Path(sys.argv[1])) as ledger:
            boot, chain = start(ledger)
            for i in range(100_000):
                ledger.add_request(chain, record(chain, i)).result()
                print(i, flush=True)
        """
    )
    child = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert child.stdout is not None
    for _ in range(50):
        assert child.stdout.readline()
    time.sleep(0.01)
    child.send_signal(signal.SIGKILL)
    finished = 50 + len(child.stdout.read().splitlines())
    child.wait()
    child.stdout.close()
    with Ledger.resume(tmp_path) as ledger:
        data = read_study(tmp_path)
        assert finished <= len(data.requests) <= finished + 1
        assert data.boots[0].status == "interrupted"
        assert not ledger.is_complete(NONE.fingerprint(), 0, "wave@2", "fp-cold")
    with sqlite3.connect(tmp_path / "ledger.sqlite") as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    db.close()


@given(
    st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**31), 2**31 - 1)), max_size=40),
    st.lists(st.integers(0, 2**31 - 1), max_size=40),
)
def test_blobs_round_trip(chunks: list[tuple[int, int]], ids: list[int]) -> None:
    packed = pack_chunks(ChunkTimes(array("q", [c[0] for c in chunks]), array("i", [c[1] for c in chunks])))
    times, tokens = unpack_chunks(packed, len(chunks))
    assert list(zip(times.tolist(), tokens.tolist(), strict=True)) == chunks
    assert unpack_ids(pack_ids(tuple(ids))) == tuple(ids)
    with pytest.raises(ValueError, match="bytes"):
        unpack_chunks(packed + b"x", len(chunks))
