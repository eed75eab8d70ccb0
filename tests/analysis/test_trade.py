"""The trade in one sentence."""

from __future__ import annotations

from dataclasses import replace

from kvantage.analysis.analyse import analyse
from kvantage.analysis.findings import Findings
from kvantage.analysis.trade import Trade
from kvantage.core import Speculation
from tests.analysis.builder import STUDY, Request, StudyBuilder, drafting, short, two_arms, wave

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
        "(30.0 against 20.0 tok/s, interval 1.46 to 1.54 within one boot), 0.90x on prose at one stream, "
        "1.50x on repeats at one stream, 1.50x on repeats at two streams, "
        "no ratio on repeats at four streams (void in 'mtp')"
    )
    assert trade.effect == "mixed"


def test_pairs_in_percent() -> None:
    found = analyse(two_arms().data()).comparisons[0]
    assert found.sentence == (
        "'mtp' against 'none': pool -6 %, code at one stream +50 %, prose at one stream -10 %, "
        "repeats at one stream +50 %, repeats at two streams +50 %"
    )


PUBLISHED = {
    "none": (1_703_232, 14.74, 14.66, 14.60, 24.57),
    "dflash-bf16": (520_192, 32.35, 26.65, 32.75, 46.06),
    "dflash-fp8": (738_624, 30.60, 27.49, 33.01, 49.78),
    "mtp": (982_464, 25.75, 23.51, 24.70, 38.73),
}


def published() -> Findings:
    """The four published arms, their speeds taken as steady rates."""
    policy = {
        "maximise": {"metric": "e2e_tok_s", "phase": "repeat", "concurrency": 2},
        "min_sessions": {"count": 4, "tokens": 130_045},
    }
    builder = StudyBuilder({**STUDY, "policy": policy})
    for name, (pool, code, prose, alone, both) in PUBLISHED.items():
        dflash = Speculation(method="dflash", draft="d", drafts=5)
        speculation = Speculation() if name == "none" else MTP if name == "mtp" else dflash
        builder.arm(name, speculation, pool=pool, facts={"context_length": 262_144, "kv_block_tokens": 1})

        def made(requests: list[Request], name: str = name) -> list[Request]:
            return requests if name == "none" else drafting(requests, 5, 2.5)

        builder.cell(name, "short", "code", 1, made(short([code] * 3)))
        builder.cell(name, "short", "prose", 1, made(short([prose] * 3, "prose")))
        for concurrency, rate in ((1, alone), (2, both / 2)):
            warm = wave(rate, concurrency, 65, cached=127_984, expected=(127_936, 127_984), prompt=127_997)
            still = [replace(each, ttft_s=1e-3) for each in warm]
            builder.cell(name, "repeat", "documents", concurrency, made(still))
    return analyse(builder.data())


def test_the_published_trade() -> None:
    found = published()
    pair = next(each for each in found.comparisons if (each.arm, each.baseline) == ("mtp", "dflash-bf16"))
    assert pair.sentence == (
        "'mtp' against 'dflash-bf16': pool +89 %, code at one stream -20 %, prose at one stream -12 %, "
        "repeats at one stream -25 %, repeats at two streams -16 %"
    )
    sentences = {trade.arm: trade.sentence for trade in found.trades}
    assert sentences["mtp"].startswith(
        "costs 42 % of the pool (720,768 of 1,703,232 tokens), buys 1.75x on code at one stream "
        "(25.7 against 14.7 tok/s"
    )
    assert sentences["dflash-bf16"].startswith("costs 69 % of the pool (1,183,040 of 1,703,232 tokens)")


def test_the_published_verdict_and_what_the_write_up_did_not_see() -> None:
    """By aggregate at two with four sessions asked, FP8 draft KV leads; its rival has 12 tokens to spare."""
    verdict = published().verdict
    assert (verdict.arm, verdict.runner_up) == ("dflash-fp8", "dflash-bf16")
    assert verdict.constraint is not None
    assert verdict.constraint.held.value == 5
    assert any("more than 5 sessions" in flip and "(then 'mtp')" in flip for flip in verdict.flips)
