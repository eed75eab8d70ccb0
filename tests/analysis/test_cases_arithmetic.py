"""The public cases whose arithmetic belongs to the analysis, each with its right value."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kvantage.analysis.acceptance import dead, length_from_positions, length_from_rate
from kvantage.analysis.analyse import analyse
from kvantage.analysis.compare import speed_up, step_cost, step_seconds
from kvantage.analysis.crossover import find_crossover, queueing
from kvantage.analysis.decide import rank
from kvantage.analysis.exactness import (
    bf16_ulp,
    classify_gap,
    equivalence_interval,
    fisher_p,
    placeholder_logprobs,
)
from kvantage.analysis.identities import itl_matches_rate, peak_reaches_mean
from kvantage.analysis.stats import judge, overlap, spread, t_interval
from kvantage.core import Speculation
from tests.analysis.builder import Request, StudyBuilder, drafting, short, wave

CASES = Path(__file__).parents[1] / "data" / "cases.jsonl"


@cache
def cases() -> dict[str, dict[str, Any]]:
    rows = [json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines() if line.strip()]
    return {row["id"]: row for row in rows}


def case(name: str) -> tuple[Any, Any]:
    return cases()[name]["input"], cases()[name]["expected"]


def test_verify_that_got_slower_is_told_from_a_drafter_that_got_worse() -> None:
    given, wanted = case("decision-batched-verify-regression")
    alone = speed_up(given["c1"]["spec"], given["c1"]["off"])
    crowd = speed_up(given["c8"]["spec"], given["c8"]["off"])
    assert round(alone, 2) == wanted["c1_ratio"]
    assert round(crowd, 2) == wanted["c8_ratio"]
    length = given["c1"]["accept_len"]
    assert round(step_cost(length, alone), 2) == wanted["step_cost_ratio_c1"]
    assert round(step_cost(length, crowd), 2) == wanted["step_cost_ratio_c8_if_AL_same"]


def test_crossover_is_an_interval() -> None:
    given, wanted = case("decision-crossover")
    for arm in ("dflash2", "mtp"):
        ratios = [speed_up(spec, off) for spec, off in zip(given[arm], given["none"], strict=True)]
        assert [round(ratio, 3) for ratio in ratios] == pytest.approx(wanted[f"ratio_{arm}"], abs=0.0006)
        found = find_crossover(given["concurrency"], ratios)
        assert found is not None
        assert [found.low, found.high] == wanted["crossover_interval"]
        if arm == "dflash2":
            assert found.between == pytest.approx(wanted["crossover_log_interp"], abs=0.005)
    best, ties = rank({arm: given[arm][0] for arm in ("dflash2", "mtp", "none")}, floor=0.05)
    assert best == "mtp"
    assert ties == ("dflash2",)
    for place in (1, 2):
        assert rank({arm: given[arm][place] for arm in ("dflash2", "mtp", "none")}, 0.05) == ("none", ())


def test_rows_beyond_the_effective_concurrency_measured_a_queue() -> None:
    given, wanted = case("decision-false-crossover")
    capped = [speed_up(a, b) for a, b in zip(given["spec_capped_at_2"], given["none"], strict=True)]
    free = [speed_up(a, b) for a, b in zip(given["spec_uncapped"], given["none"], strict=True)]
    assert [round(ratio, 2) for ratio in capped] == wanted["ratio_capped"]
    assert [round(ratio, 2) for ratio in free] == wanted["ratio_uncapped"]
    found = find_crossover(given["c"], capped)
    assert found is not None
    assert [found.low, found.high] == wanted["capped_crossover_interval"]
    never = find_crossover(given["c"], free)
    assert never is not None
    assert never.words == wanted["uncapped_crossover"]
    assert queueing(given["c"], 2) == (4, 8, 12)


def test_a_capped_arm_is_void_where_it_queued_and_gets_no_crossover_there() -> None:
    builder = StudyBuilder()
    builder.arm("none", facts={"effective_max_running": 8})
    builder.arm("mtp", Speculation(method="mtp", drafts=3), facts={"effective_max_running": 2})
    for arm, rates in (("none", (14.5, 13.5, 9.2)), ("mtp", (37.3, 24.7, 12.9))):
        for concurrency, rate in zip((1, 2, 4), rates, strict=True):
            requests = wave(rate, concurrency, 65, cached=1984, expected=(1968, 1984))
            made = requests if arm == "none" else drafting(requests, 3, 2.5)
            builder.cell(arm, "repeat", "documents", concurrency, made)
    found = analyse(builder.data())
    cell = found.arm("mtp").cell("repeat", None, 4)[0]
    assert cell.status.reasons[0].startswith("effective_concurrency: offered concurrency 4 > effective 2")
    ratio = found.comparisons[0].ratio("steady_tok_s", "repeat", None, 4)
    assert ratio is not None
    assert "mtp is void" in (ratio.ratio.missing or "")
    assert found.comparisons[0].crossover is not None
    assert found.comparisons[0].crossover.words == "none up to 2"


def test_overlapping_ranges_of_five_are_inconclusive() -> None:
    given, wanted = case("decision-fp8-draft-kv-L3")
    code = given["code"]
    change = speed_up(code["fp8_draft_kv_median"], code["base_median"]) - 1
    assert change == pytest.approx(wanted["code_change"], abs=5e-5)
    prose = speed_up(given["prose"]["fp8"], given["prose"]["base"]) - 1
    assert prose == pytest.approx(wanted["prose_change"], abs=5e-5)
    assert overlap(code["base_range"], code["fp8_range"]) is wanted["ranges_overlap"]


def test_a_criterion_fixed_before_the_data() -> None:
    given, wanted = case("decision-holdout-ci")
    verdicts = {
        name: "confirmed" if judge(*given[name]["ci"], neutral=0.0) == "above" else "inconclusive"
        for name in ("prose", "code")
    }
    assert verdicts == {"prose": wanted["prose"], "code": wanted["code"]}
    assert all(each == "confirmed" for each in verdicts.values()) is wanted["confirmed_both"]
    gain = (speed_up(given["prose"]["b"], given["prose"]["a"]) - 1) * 100
    assert round(gain, 2) == wanted["prose_gain_pct"]
    gain = (speed_up(given["code"]["b"], given["code"]["a"]) - 1) * 100
    assert round(gain, 2) == wanted["code_gain_from_rates_pct"]


def test_throughput_ranks_and_acceptance_does_not() -> None:
    given, wanted = case("decision-k-sweep")
    rows = given["rows"]
    lengths = {str(row["k"]): round(length_from_rate(row["accept_rate"], row["k"]), 2) for row in rows}
    assert lengths == wanted["accept_len"]
    best, ties = rank({row["k"]: row["x1_tps"] for row in rows}, given["noise_floor"]["x1"])
    assert (best, list(ties)) == (wanted["best_x1"], wanted["x1_tied_with_best"])
    best, ties = rank({row["k"]: row["x4_tps"] for row in rows}, given["noise_floor"]["x4"])
    assert (best, list(ties)) == (wanted["best_x4"], wanted["x4_tied_with_best"])
    assert max(rows, key=lambda row: row["accept_rate"])["k"] == wanted["highest_accept_rate_k"]
    assert max(lengths, key=lambda k: lengths[k]) == str(wanted["highest_accept_len_k"])


def test_a_drafter_that_kills_prefix_reuse_is_a_finding() -> None:
    given, wanted = case("vllm-prefix-zero-with-drafter")
    prompt, hit = given["prompt_tokens"], given["without_drafter"]["hits_per_repeat"]
    assert (hit // given["block"], prompt - hit) == (wanted["blocks"], wanted["tail_tokens"])
    builder = StudyBuilder()
    for name, cached in (("none", hit), ("mtp", 0)):
        builder.arm(
            name,
            Speculation(method="mtp", drafts=3) if name == "mtp" else None,
            pool=200_000,
            facts={"context_length": 131_072},
        )
        requests = wave(20.0, 1, 65, cached=cached, expected=(hit - 784, hit), prompt=prompt)
        builder.cell(
            name, "repeat", "documents", 1, drafting(requests, 3, 2.5) if name == "mtp" else requests
        )
    found = analyse(builder.data())
    sound = found.arm("none").cells[0]
    assert sound.ok
    assert sound.cached_tokens.value is not None
    assert sound.prompt_tokens.value is not None
    rate = sound.cached_tokens.value / sound.prompt_tokens.value
    assert round(rate, 4) == wanted["hit_rate_without"]
    killed = found.arm("mtp").cells[0]
    assert killed.cached_tokens.value == wanted["hit_rate_with"]
    assert killed.status.status == "void"
    assert killed.status.finding == (
        "no prefix reuse: 0 of 55,009 prompt tokens served from the cache, "
        "although the pool of 200,000 tokens holds the 55,088 needed"
    )


def test_boots_are_a_random_effect() -> None:
    given, wanted = case("stats-boot-lottery")
    assert round(spread(given["c8_aggregate_across_boots"]), 4) == wanted["range_over_min"]


def test_a_fixed_seed_measures_the_cache() -> None:
    given, _ = case("stats-contaminated-sweep")
    assert given["throughput_factor"] > 2
    builder = StudyBuilder().arm("none")
    builder.cell("none", "cold", "documents", 2, wave(20.0, 2, 33, cached=1900))
    cell = analyse(builder.data()).arm("none").cells[0]
    assert cell.status.reasons == (
        "cache_cold: 3,800 of 4,000 prompt tokens came from the cache (95.0%), "
        "3,768 more than expected on a cold cell",
    )
    assert not cell.speed.steady.known


@pytest.mark.parametrize("share", [0.005, 0.02])
def test_one_percent_of_hits_is_the_bound_of_a_cold_cell(share: float) -> None:
    builder = StudyBuilder().arm("none")
    requests = wave(20.0, 1, 33, cached=round(2000 * share), expected=(0, 0))
    builder.cell("none", "cold", "documents", 1, requests)
    assert analyse(builder.data()).arm("none").cells[0].ok is (share < 0.01)


def test_cold_hits_are_read_from_the_counters_where_requests_do_not_tell() -> None:
    builder = StudyBuilder().arm("none")
    builder.cell(
        "none",
        "cold",
        "documents",
        1,
        wave(20.0, 1, 33, cached=None),  # type: ignore[arg-type]
        counters={"prefix_hits": 1000.0, "prefix_queries": 2000.0},
    )
    cell = analyse(builder.data()).arm("none").cells[0]
    assert cell.status.reasons[0].startswith("cache_cold: 1,000 of 2,000")
    assert not cell.cached_tokens.known


def test_speed_ups_are_told_by_workload() -> None:
    given, wanted = case("stats-speedup-ratios")
    assert round(speed_up(*given["code"]), 2) == wanted["code"]
    assert round(speed_up(*given["prose"]), 2) == wanted["prose"]


def test_three_runs_of_one_prompt() -> None:
    given, wanted = case("stats-three-runs")
    interval = t_interval(given["runs_tps"])
    assert round(interval.mean, 2) == wanted["mean"]
    assert interval.sd is not None
    assert round(interval.sd, 2) == wanted["sd"]
    assert round(interval.sd / interval.mean, 3) == wanted["cv"]
    assert interval.half is not None
    assert round(interval.half, 2) == wanted["t_ci95_half"]
    assert interval.high is not None
    assert (given["leaderboard_claim"] <= interval.high) is wanted["claim_compatible"]


def test_a_wave_by_its_wall_is_bound_by_its_straggler() -> None:
    """1,600 tokens in 37 s end to end, while all slots together decode faster once the ramp is cut."""
    given, wanted = case("stats-wave-wall-max")
    study = {"phases": {"repeat": {"output_tokens": 400}, "cold": {"concurrency": [4]}}}
    builder = StudyBuilder(study).arm("none")
    requests = [
        Request(
            rate=399 / (37.0 - ttft) if place == 3 else 18.0,
            output=400,
            ttft_s=ttft,
            prompt_id=f"d{place}",
            stream=place,
            cached=100,
            expected=(90, 100),
        )
        for place, ttft in enumerate((0.5, 4.0, 8.0, 12.0))
    ]
    builder.cell("none", "repeat", "documents", 4, requests)
    speed = analyse(builder.data()).arm("none").cells[0].speed
    assert speed.end_to_end.value == pytest.approx(given["c4"]["tokens"] / given["c4"]["wall_s"], rel=1e-6)
    assert speed.end_to_end.value is not None
    assert round(speed.end_to_end.value, 1) == wanted["agg_c4"]
    true = 3 * 18.0 + 399 / 25.0
    assert speed.steady.value == pytest.approx(true, rel=0.02)
    assert "all 4 slots decoding" in (speed.steady.note or "")


def test_step_cost_and_break_even_of_a_stack() -> None:
    given, wanted = case("planner-step-cost")
    rows = {row["prompt"]: row for row in given["rows"]}
    for prompt, milliseconds in wanted["verify_step_ms"].items():
        row = rows[prompt]
        assert step_seconds(row["accept_len"], row["tps"]) * 1e3 == pytest.approx(milliseconds, abs=0.06)
    for prompt, off in given["off"].items():
        assert step_seconds(1.0, off) * 1e3 == pytest.approx(wanted["off_step_ms"][prompt], abs=0.06)
        gain = speed_up(rows[prompt]["tps"], off)
        assert round(gain, 2) == wanted["speedup"][prompt]
        rho = step_cost(rows[prompt]["accept_len"], gain)
        assert round(rho, 2) == wanted["step_cost_ratio"][prompt] == wanted["break_even_accept_len"][prompt]


def test_gaps_of_chunks_are_not_gaps_of_tokens() -> None:
    given, wanted = case("sse-itl-inflated")
    assert 1e3 / given["output_tps"] == pytest.approx(wanted["expected_ms_per_token"], abs=0.005)
    words = itl_matches_rate(given["median_itl_ms"] / 1e3, given["output_tps"])
    assert words is not None
    assert f"is {wanted['inflation']:.2f}" in words
    assert itl_matches_rate(wanted["expected_ms_per_token"] / 1e3, given["output_tps"]) is None


def test_a_peak_below_the_mean_is_impossible() -> None:
    for given, wanted in zip(*case("sse-peak-below-mean"), strict=True):
        words = peak_reaches_mean(given["peak_tps"], given["mean_tps"])
        assert (words is not None) is wanted["impossible"]
        assert f"{wanted['ratio']:.3f} of it" in (words or "")
    assert peak_reaches_mean(45.5, 27.6) is None


def test_gaps_by_the_ulp_of_their_magnitude() -> None:
    classes = {
        "near_tie": "near tie",
        "near_tie_if_threshold>=2_ulp": "near tie",
        "exact_tie": "exact tie",
        "structural": "structural",
    }
    for given, wanted in zip(*case("lossless-bf16-ulp"), strict=True):
        ulp = bf16_ulp(given["logit_magnitude"])
        assert ulp == wanted["bf16_ulp"]
        assert round(given["gap"] / ulp, 1) == wanted["gap_ulps"]
        assert classify_gap(given["gap"], ulp) == classes[wanted["cls"]]


def test_a_tie_by_the_measured_floor() -> None:
    given, wanted = case("lossless-tie-by-noise-floor")
    assert round(given["gap_logits"] / given["engine_noise_rms_top10"], 2) == wanted["gap_over_noise"]
    assert classify_gap(given["gap_logits"], given["engine_noise_rms_top10"]) == "near tie"
    ulp = given["gap_logits"] / given["fp32_ulps"]
    assert classify_gap(given["gap_logits"], ulp) == "structural"


def test_placeholder_logprobs_prove_nothing() -> None:
    given, wanted = case("lossless-logprob-zero")
    assert (placeholder_logprobs(given["token_logprobs"]) is None) is wanted["usable"]
    assert placeholder_logprobs([0.0, -0.1]) is None
    assert placeholder_logprobs([]) is None


def test_a_dead_drafter_is_void_and_not_slow() -> None:
    given, wanted = case("lossless-silent-dead-drafter")
    builder = StudyBuilder().arm("none").arm("eagle", Speculation(method="ngram", drafts=3))
    builder.cell("none", "short", "code", 1, short([20.0, 20.0, 20.0]))
    builder.cell("eagle", "short", "code", 1, drafting(short([18.0, 18.0, 18.0]), 3, 1.0))
    found = analyse(builder.data())
    cell = found.arm("eagle").cells[0]
    assert given["mean_acceptance_length"] == 1.0
    assert wanted["verdict"].startswith("void: dead drafter")
    assert cell.status.reasons[0].startswith("drafts_moved: dead drafter: acceptance length 1.00")
    assert not cell.speed.decode.known
    ratio = found.comparisons[0].ratio("decode_tok_s", "short", "code")
    assert ratio is not None
    assert "dead drafter" in (ratio.ratio.missing or "")
    assert found.trades[0].effect == "not measured"
    assert dead(cell.acceptance) is None


def test_equal_totals_support_only_their_own_margin() -> None:
    given, wanted = case("lossless-tost-gsm8k")
    right, total = map(int, given["gsm8k"]["a"].split("/"))
    low, high = (100 * end for end in equivalence_interval(right, total, right, total))
    assert [round(low, 2), round(high, 2)] == wanted["ci90_pp"]
    assert (high < 5) is wanted["equivalent_at_5pp"]
    assert (high < 3) is wanted["equivalent_at_3pp"]


def test_the_control_makes_a_rate_meaningful() -> None:
    given, wanted = case("lossless-with-control")
    (same_a, total_a), (same_b, total_b) = (
        map(int, text.split("/")) for text in given["byte_identical_to_serial"].values()
    )
    assert round(fisher_p(same_a, total_a, same_b, total_b), 3) == wanted["fisher_p"]
    assert fisher_p(10, 10, 0, 10) == pytest.approx(2 / 184_756, rel=1e-6)


def test_positions_are_unconditional() -> None:
    assert length_from_positions([0.718, 0.492, 0.396, 0.315]) == pytest.approx(2.921)


def test_every_row_of_these_kinds_is_tested() -> None:
    """Arithmetic of these kinds lives here; the rest of `lossless` belongs to the exactness phase."""
    source = Path(__file__).read_text(encoding="utf-8")
    elsewhere = {"sse-stream-text-corruption"}
    for name, row in cases().items():
        if row["kind"] in ("decision", "stats", "lossless", "tool_fault") and name not in elsewhere:
            assert f'case("{name}")' in source, name


def test_interval_needs_a_value() -> None:
    with pytest.raises(ValueError, match="at least one value"):
        t_interval(np.empty(0))
