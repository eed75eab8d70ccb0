"""Requests read back in batches: chunks of any number and width, answers on demand."""

from __future__ import annotations

from array import array
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from kvantage.core import ArmSettings, RequestRecord
from kvantage.core.columns import _sum_up
from kvantage.core.record import ChunkTimes, RequestKey
from kvantage.ledger import Ledger, read_study
from kvantage.ledger import requests as reading
from kvantage.ledger.blob import pack_chunks, unpack_chunks

ARM = ArmSettings(name="none", engine="toy", model="m")


def request(place: int, tokens: tuple[int, ...], content: str, reasoning: str = "") -> RequestRecord:
    key = RequestKey("none", ARM.fingerprint(), 0, "short", "code", 1, "short", 0, place, 0, f"p{place}")
    times = array("q", [100 * place + 10 * step for step in range(len(tokens))])
    return RequestRecord(
        key=key,
        status="ok",
        intended_ns=0,
        sent_ns=0,
        end_ns=1000,
        chunks=ChunkTimes(times, array("i", tokens)),
        content=content,
        reasoning=reasoning,
        output_tokens=sum(max(each, 0) for each in tokens),
    )


RECORDS = (
    request(0, (1, 2, 3), "an answer"),
    request(1, (), "", " \n\t"),
    request(2, (1, -1, 4), "", "a thought"),
    request(3, (40_000,), "ü\u2028 and so on"),
    request(4, (2, 2), "  "),
)


@pytest.fixture
def written(tmp_path: Path) -> Path:
    with Ledger.create(tmp_path) as ledger:
        ledger.begin({}, "none", [ARM], {"short": "work"}, "0")
        boot = ledger.open_boot(ARM, 0, {})
        other = ledger.open_chain(boot, "short", "of another study")
        chain = ledger.open_chain(boot, "short", "work")
        for record in RECORDS:
            ledger.add_request(other, record)
            ledger.add_request(chain, record)
        ledger.chain_complete(chain)
        ledger.boot_ok(boot)
    return tmp_path


@pytest.mark.parametrize("batch", [1, 3, 8192])
def test_batches_do_not_matter(written: Path, batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "BATCH", batch)
    found = read_study(written).requests
    assert len(found) == len(RECORDS)
    assert found.chunk_offsets.tolist() == [0, 3, 3, 6, 7, 9]
    assert found.chunk_tokens.tolist() == [1, 2, 3, 1, -1, 4, 40_000, 2, 2]
    assert found.chunk_ns.tolist() == [0, 10, 20, 200, 210, 220, 300, 400, 410]
    assert found.first_ns.tolist() == [-1] * 5
    assert np.isnan(found.cached_tokens).all()
    assert found.prompt_id.tolist() == ["p0", "p1", "p2", "p3", "p4"]


def test_answers_are_fetched_when_asked_for(written: Path) -> None:
    found = read_study(written).requests
    texts = [record.content for record in RECORDS]
    assert list(found.content) == texts
    assert found.content[0] == "an answer"
    assert found.content[3] == texts[3]
    assert list(found.content[2:4]) == texts[2:4]
    assert len(found.reasoning) == 5
    assert found.answered(np.arange(5)).tolist() == [True, False, True, True, False]
    assert found.answered(np.array([4, 2])).tolist() == [False, True]


def test_what_chunks_tell_together(written: Path) -> None:
    chunks = read_study(written).requests.chunks
    assert chunks.first_ns.tolist() == [0, -1, 200, 300, 400]
    assert chunks.last_ns.tolist() == [20, -1, 220, 300, 410]
    assert chunks.told.tolist() == [True, False, False, True, True]
    assert chunks.tokens.tolist() == [6, 0, 5, 40_000, 4]
    assert chunks.opening.tolist() == [1, -1, 1, 40_000, 2]
    assert chunks.widest.tolist() == [3, 0, 4, 40_000, 2]


_STREAMS = some.lists(
    some.lists(some.tuples(some.integers(0, 2**62), some.integers(-1, 70_000)), max_size=6), max_size=12
)


@given(_STREAMS)
def test_streams_come_back_as_they_were_packed(streams: list[list[tuple[int, int]]]) -> None:
    packed = [
        pack_chunks(ChunkTimes(array("q", [t for t, _ in each]), array("i", [n for _, n in each])))
        for each in streams
    ]
    counts = np.array([len(each) for each in streams], dtype=np.int64)
    times = np.zeros(int(counts.sum()), dtype=np.int64)
    tokens = reading._unpack(packed, counts, times, np.zeros(len(times), dtype=np.int16), 0)
    singly = [unpack_chunks(blob, count) for blob, count in zip(packed, counts.tolist(), strict=True)]
    assert times.tolist() == [time for each, _ in singly for time in each.tolist()]
    assert tokens.tolist() == [number for _, each in singly for number in each.tolist()]
    offsets = np.concatenate(([0], np.cumsum(counts)))
    summed = _sum_up(offsets, times, tokens)
    for place, each in enumerate(streams):
        numbers = [number for _, number in each]
        assert summed.tokens[place] == sum(max(number, 0) for number in numbers)
        assert summed.told[place] == (bool(numbers) and min(numbers) >= 0)


def test_a_blob_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="2 chunks take 24 bytes, not 12"):
        reading._unpack([b"\0" * 12], np.array([2]), np.zeros(2, np.int64), np.zeros(2, np.int16), 0)
