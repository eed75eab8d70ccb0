"""The trade in one sentence."""

from __future__ import annotations

from kvantage.analysis.analyse import analyse
from kvantage.analysis.trade import Trade, pair_sentence
from kvantage.core import Speculation
from tests.analysis.builder import StudyBuilder, drafting, short, two_arms

MTP = Speculation(method="mtp", drafts=3)


def trade_of(rate: list[float], pool: float | None, control_pool: float | None = 8448) -> Trade:
    builder = StudyBuilder().arm("none", pool=control_pool).arm("mtp", MTP, pool=pool)
    builder.cell("none", "short", "code", 1, short([20.0, 20.2, 19.8]))
    builder.cell("mtp", "short", "code", 1, drafting(short(rate), 3, 2.5))
    return analyse(builder.data()).trades[0]


def test_cost_and_gain() -> None:
    trade = trade_of([32.0, 32.5, 31.5], 7424)
    assert trade.sentence.startswith(
        "costs 12 % of the pool (1,024 of 8,448 tokens), "
        "buys 1.60x on code at one stream (32.0 against 20.0 tok/s, interval 1.5"
    )
    assert trade.effect == "wins"


def test_a_drafter_that_loses_is_said_to_lose() -> None:
    trade = trade_of([16.8, 17.0, 16.6], 7424)
    assert trade.sentence.startswith("costs 12 % of the pool (1,024 of 8,448 tokens), and is 0.84x on code")
    assert trade.sentence.endswith(": it loses on both")
    assert trade.effect == "loses"


def test_losing_speed_alone() -> None:
    trade = trade_of([16.8, 17.0, 16.6], 8448)
    assert trade.sentence.startswith("costs nothing of the pool (8,448 tokens), is 0.84x on code")
    assert trade.sentence.endswith(": it loses")


def test_a_gain_of_pool() -> None:
    assert trade_of([20.0, 20.0, 20.0], 9293).sentence.startswith(
        "adds 10 % to the pool (845 to 8,448 tokens)"
    )


def test_what_spans_one_is_not_told_apart() -> None:
    trade = trade_of([19.0, 22.0, 20.0], 7424)
    assert "(not told apart from 1)" in trade.sentence
    assert trade.effect == "undecided"


def test_an_unknown_pool_is_said() -> None:
    trade = trade_of([32.0, 32.5, 31.5], None)
    assert trade.sentence.startswith("its pool is not known (toy did not report kv_pool_tokens), buys 1.60x")
    assert not trade.pool_lost.known


def test_the_whole_sentence() -> None:
    trade = analyse(two_arms().data()).trades[0]
    assert trade.sentence == (
        "costs 5.6 % of the pool (500 of 9,000 tokens), buys 1.50x on code at one stream "
        "(30.0 against 20.0 tok/s, interval 1.46 to 1.54), 0.90x on prose at one stream, "
        "1.50x on repeats at one stream, 1.50x on repeats at two streams, "
        "no ratio on repeats at four streams (void in 'mtp')"
    )
    assert trade.effect == "mixed"


def test_pairs_in_percent() -> None:
    found = analyse(two_arms().data()).comparisons[0]
    assert pair_sentence(found) == (
        "'mtp' against 'none': pool -6 %, code at one stream +50 %, prose at one stream -10 %, "
        "repeats at one stream +50 %, repeats at two streams +50 %"
    )
