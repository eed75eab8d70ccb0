"""The published pools and their sessions, and the arithmetic around them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from kvantage.analysis.analyse import analyse
from kvantage.analysis.capacity import count_sessions, lost_percent, session_lengths
from kvantage.core import Speculation
from tests.analysis.builder import STUDY, StudyBuilder, wave

POOLS = {"dflash-bf16": 520_192, "dflash-fp8": 738_624, "mtp": 982_464, "none": 1_703_232}
PUBLISHED = {
    "dflash-bf16": (4.0, 2.0, 1.0),
    "dflash-fp8": (5.7, 2.9, 1.4),
    "mtp": (7.6, 3.8, 1.9),
    "none": (13.1, 6.6, 3.3),
}


def published_study() -> dict[str, object]:
    return {
        **STUDY,
        "phases": {
            "cold": {"document_tokens": 128_000, "concurrency": [1, 2, 4], "output_tokens": 512},
            "repeat": {"output_tokens": 2048},
        },
        "policy": None,
    }


def test_lengths_are_input_and_answer() -> None:
    lengths = session_lengths(128_000, 2_048, measured=127_997)
    assert [length.tokens for length in lengths] == [130_045, 258_048, 514_048]
    assert [length.name for length in lengths] == ["1x", "2x", "4x"]


@pytest.mark.parametrize("arm", POOLS)
def test_published_sessions(arm: str) -> None:
    lengths = session_lengths(128_000, 2_048, measured=127_997)
    assert tuple(count_sessions(POOLS[arm], length.tokens)[0] for length in lengths) == PUBLISHED[arm]


def test_published_headroom() -> None:
    assert count_sessions(520_192, 130_045) == (4.0, 4, 12)
    assert count_sessions(520_192, 258_048) == (2.0, 2, 4_096)
    assert 982_464 - 4 * 130_045 == 462_284


def test_blocks_are_taken_whole() -> None:
    assert count_sessions(520_192, 130_045, block=64) == (4.0, 4, 0)
    assert count_sessions(520_192, 130_049, block=64)[1] == 3


def test_published_losses() -> None:
    assert round(lost_percent(POOLS["none"], POOLS["mtp"])) == 42
    assert round(lost_percent(POOLS["none"], POOLS["dflash-bf16"])) == 69
    assert round(-lost_percent(POOLS["dflash-bf16"], POOLS["mtp"])) == 89


def test_the_whole_table_from_a_study() -> None:
    builder = StudyBuilder(published_study())
    for name, pool in POOLS.items():
        speculation = Speculation() if name == "none" else Speculation(method="ngram", drafts=5)
        builder.arm(name, speculation, pool=pool, facts={"context_length": 262_144, "kv_block_tokens": 1})
    requests = wave(14.6, 1, 512, prompt=127_997)
    builder.cell("none", "cold", "documents", 1, requests)
    found = analyse(builder.data())
    for name, wanted in PUBLISHED.items():
        held = found.arm(name).sessions
        assert tuple(each.sessions.value for each in held) == wanted
        assert [each.session_tokens.value for each in held] == [130_045, 258_048, 514_048]
        assert held[1].note is None
        assert held[2].note is not None
        assert held[2].note.startswith("pool arithmetic, not served")
        assert "262,144" in held[2].note
    lost = found.arm("mtp").pool.lost_tokens
    assert lost.value is not None
    assert round(lost.value) == 42
    rival = next(each for each in found.comparisons if (each.arm, each.baseline) == ("mtp", "dflash-bf16"))
    assert rival.pool_tokens.value is not None
    assert round((rival.pool_tokens.value - 1) * 100) == 89


def test_an_unknown_pool_has_no_sessions_and_is_not_zero() -> None:
    builder = StudyBuilder(published_study()).arm("none", pool=None)
    held = analyse(builder.data()).arm("none").sessions
    assert all(each.sessions.missing == "toy did not report kv_pool_tokens" for each in held)


def test_boots_that_differ_give_a_range() -> None:
    builder = StudyBuilder(published_study()).arm("none", pool=1000).arm("none", pool=1030, block=1)
    tokens = analyse(builder.data()).arm("none").pool.tokens
    assert (tokens.value, tokens.low, tokens.high) == (1015, 1000, 1030)


@given(
    pool=some.integers(0, 10**9),
    session=some.integers(1, 10**7),
    block=some.integers(1, 4096),
)
def test_sessions_fit_and_one_more_does_not(pool: int, session: int, block: int) -> None:
    quotient, whole, left = count_sessions(pool, session, block)
    taken = -(-session // block) * block
    assert whole * taken + left == pool
    assert 0 <= left < taken
    assert whole <= pool / session
    assert quotient == pytest.approx(pool / session, abs=0.0501)
