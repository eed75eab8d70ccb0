"""How long a large ledger takes to be analysed, and how much memory: `python -m benchmarks.scale.run FOLDER`.

Writes synthetic ledgers of 10,000, 100,000 and 1,000,000 requests of 200 chunks each into FOLDER, one after
another (the last takes about 4 GB), reads and analyses each in a process of its own, and deletes it. `--most`
leaves out the larger ones.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from kvantage.analysis import analyse
from kvantage.core import ArmSettings, CellKey, CounterDelta, Facts, Reading, Speculation
from kvantage.ledger import Ledger, read_study
from kvantage.ledger.ledger import FILE
from kvantage.ledger.writer import connect

SIZES = (10_000, 100_000, 1_000_000)
CHUNKS = 200
BOOTS = 3
CONCURRENCY = (1, 4)
OUTPUT = 401
SECOND = 1_000_000_000
ANSWER = "a token or two of an answer, " * 28
STUDY: dict[str, Any] = {
    "model": {"path": "org/synthetic"},
    "engine": {"name": "synthetic"},
    "control": {"arm": "none"},
    "phases": {
        "short": {"prompts": {"code": "builtin", "prose": "builtin"}, "warmup": 0, "output_tokens": OUTPUT},
        "cold": {"document_tokens": 2000, "concurrency": list(CONCURRENCY), "output_tokens": OUTPUT},
        "repeat": {"output_tokens": OUTPUT},
    },
    "policy": {
        "maximise": {"phase": "short", "workload": "code"},
        "min_sessions": {"count": 2, "tokens": 2401},
    },
}
ARMS = (
    ArmSettings(name="none", engine="synthetic", model="org/synthetic"),
    *(
        ArmSettings(
            name=name,
            engine="synthetic",
            model="org/synthetic",
            speculation=Speculation(method="mtp", drafts=drafts),
        )
        for name, drafts in (("mtp", 3), ("dflash", 5), ("eagle", 4))
    ),
)
PLACES = (
    ("short", "code", 1),
    ("short", "prose", 1),
    *((phase, "documents", number) for number in CONCURRENCY for phase in ("cold", "repeat")),
)


def write(folder: Path, requests: int) -> None:
    """A ledger of about so many requests, in four arms, three boots and six cells each."""
    each = max(4, round(requests / (len(ARMS) * BOOTS * len(PLACES))) // 4 * 4)
    with Ledger.create(folder) as ledger:
        ledger.begin(STUDY, "none", ARMS, {"all": "work"}, "0")
        plans = []
        for block in range(BOOTS):
            for arm in ARMS:
                boot = ledger.open_boot(arm, block, {})
                facts = {
                    "kv_pool_tokens": Reading.of(9000, "tokens", "config"),
                    "kv_block_tokens": Reading.of(16, "tokens", "config"),
                    "effective_max_running": Reading.of(4, "requests", "config"),
                }
                ledger.boot_ready(boot, Facts("synthetic", "1", facts, {}, {}), 1.0)
                for phase, workload, number in PLACES:
                    chain = ledger.open_chain(boot, f"{phase}:{workload}@{number}", "work")
                    counters = {
                        "requests_finished": each,
                        "prompt_tokens": 2000.0 * each,
                        "generation_tokens": float(OUTPUT * each),
                        "preemptions": 0.0,
                    }
                    key = CellKey(arm.name, block, phase, workload, number)
                    ledger.add_window(
                        chain, key, 0, SECOND, delta=CounterDelta(1.0, counters, None), running_max=number
                    )
                    ledger.chain_complete(chain)
                    plans.append((chain.id, arm, block, phase, workload, number))
                ledger.boot_ok(boot)
    database = connect(folder / FILE)
    database.execute("PRAGMA synchronous=OFF")
    width = len(database.execute("PRAGMA table_info(requests)").fetchall())
    marks = ", ".join("?" * (width - 1))
    rng = np.random.default_rng(1)
    for plan in plans:
        database.execute("BEGIN")
        database.executemany(f"INSERT INTO requests VALUES (NULL, {marks})", _rows(plan, each, rng))
        database.execute("COMMIT")
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()


def _rows(plan: tuple[Any, ...], number: int, rng: np.random.Generator) -> Iterator[tuple[Any, ...]]:
    chain, arm, block, phase, workload, concurrency = plan
    sizes = np.full(CHUNKS, (OUTPUT - 1) // (CHUNKS - 1), dtype="<i4")
    sizes[0] = 1
    sizes[1 : 1 + OUTPUT - int(sizes.sum())] += 1
    drafted = arm.speculation.on
    accepted = int(sizes[1:].sum()) - (CHUNKS - 1)
    counts = (accepted, accepted + CHUNKS, CHUNKS - 1) if drafted else (None, None, None)
    cached = 1984 if phase == "repeat" else 0
    expected = (1968, 1984) if phase == "repeat" else (0, 16)
    rates = 40.0 * np.exp(rng.normal(0, 0.02) + rng.normal(0, 0.03, number))
    after = np.cumsum(np.concatenate(([0], sizes[1:])))
    for place in range(number):
        stream, repeat = place % concurrency, place // concurrency
        start = repeat * 20 * SECOND
        times = start + SECOND // 5 + (after / rates[place] * SECOND).astype("<i8")
        prompt = (
            f"{phase}-{place}" if phase == "short" else f"document:{block}:{concurrency}:{repeat}:{stream}"
        )
        yield (
            chain,
            phase,
            workload,
            concurrency,
            repeat,
            stream,
            prompt,
            0,
            1,
            None,
            200,
            "length",
            start,
            start,
            int(times[0]),
            int(times[0]),
            int(times[-1]),
            2000,
            OUTPUT,
            None,
            cached,
            *counts,
            None,
            None,
            None,
            *expected,
            0,
            ANSWER,
            "",
            "[]",
            None,
            "{}",
            "{}",
            CHUNKS,
            times.astype("<i8").tobytes() + sizes.tobytes(),
        )


def measure(folder: Path) -> dict[str, Any]:
    """Read and analyse in this process: processor and wall time of both, and the most memory."""
    began, began_cpu = time.perf_counter(), time.process_time()
    data = read_study(folder)
    read, read_cpu = time.perf_counter(), time.process_time()
    found = analyse(data)
    done, done_cpu = time.perf_counter(), time.process_time()
    assert found.verdict.arm is not None
    assert all(cell.ok for arm in found.arms for cell in arm.cells), "a synthetic cell is void"
    return {
        "requests": len(data.requests),
        "chunks": len(data.requests.chunk_ns),
        "ledger_bytes": (folder / FILE).stat().st_size,
        "read_s": round(read - began, 2),
        "read_cpu_s": round(read_cpu - began_cpu, 2),
        "analyse_s": round(done - read, 2),
        "analyse_cpu_s": round(done_cpu - read_cpu, 2),
        "peak_gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2, 2),
    }


def main() -> None:
    """Write, measure and delete each size; print a line each."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--most", type=int, default=max(SIZES))
    parser.add_argument("--measure", action="store_true", help="only measure what lies in FOLDER")
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measure(given.folder)))
        return
    for size in (size for size in SIZES if size <= given.most):
        place = given.folder / str(size)
        place.mkdir(parents=True)
        try:
            write(place, size)
            subprocess.run(
                [sys.executable, "-m", "benchmarks.scale.run", str(place), "--measure"], check=True
            )
        finally:
            shutil.rmtree(place)


if __name__ == "__main__":
    main()
