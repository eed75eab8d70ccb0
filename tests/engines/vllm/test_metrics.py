"""/metrics, and what moved between two looks at it."""

import pytest

from kvantage.core import Snapshot
from kvantage.engines.vllm.counters import delta
from kvantage.engines.vllm.metrics import cache_config, look, snapshot
from tests.engines.vllm.data import CAPTURES, cases, text

METRICS = sorted(path for path in CAPTURES.glob("vllm-*/*.metrics1.txt"))


def counted(drafts: float, drafted: float, accepted: float) -> Snapshot:
    return snapshot(
        f'vllm:spec_decode_num_drafts_total{{engine="0"}} {drafts}\n'
        f'vllm:spec_decode_num_draft_tokens_total{{engine="0"}} {drafted}\n'
        f'vllm:spec_decode_num_accepted_tokens_total{{engine="0"}} {accepted}\n',
        0,
    )


def test_ngram_counts_both_lengths() -> None:
    moved = delta(
        snapshot(text("vllm-0.32-cpu/b_ngram.metrics0.txt"), 0),
        snapshot(text("vllm-0.32-cpu/b_ngram.metrics1.txt"), 10**9),
    )
    assert moved.seconds == 1.0
    assert moved.counters == {
        "drafts": 1760,
        "drafted_tokens": 6523,
        "accepted_tokens": 3803,
        "prefix_queries": 32954,
        "prefix_hits": 20736,
        "preemptions": 0,
        "prompt_tokens": 32954,
        "generation_tokens": 6260,
        "requests_finished": 46,
        "decode_steps": 2467,
        "queue_s": pytest.approx(0.000804, abs=1e-6),
    }
    assert moved.accepted_per_position == (1325, 968, 822, 688)
    assert not moved.reset
    # per drafting step, and per decode step with draftless steps counted
    assert pytest.approx(3.161, abs=1e-3) == 1 + 3803 / 1760
    assert pytest.approx(2.519, abs=1e-3) == (6260 - 46) / 2467


@pytest.mark.parametrize("path", METRICS, ids=lambda path: path.name)
def test_identities_hold_in_every_capture(path) -> None:  # type: ignore[no-untyped-def]
    found = snapshot(path.read_text(), 0)
    counters = found.counters
    assert counters["prefix_hits"] <= counters["prefix_queries"]
    assert found.gauges["running"] == found.gauges["waiting"] == 0
    if "drafts" in counters:
        assert counters["accepted_tokens"] <= counters["drafted_tokens"]
        assert found.accepted_per_position is not None
        assert sum(found.accepted_per_position) == counters["accepted_tokens"]
        assert list(found.accepted_per_position) == sorted(found.accepted_per_position, reverse=True)
    else:
        assert found.accepted_per_position is None
        assert path.name.startswith("a_plain")


@pytest.mark.parametrize("path", METRICS, ids=lambda path: path.name)
def test_the_cheap_look_agrees_with_the_parser(path) -> None:  # type: ignore[no-untyped-def]
    found = snapshot(path.read_text(), 0)
    drafts = {name: found.counters[name] for name in ("drafts", "accepted_tokens") if name in found.counters}
    assert look(path.read_bytes()) == {
        **drafts,
        "running": found.gauges["running"],
        "waiting": found.gauges["waiting"],
        "pool_usage": found.gauges["pool_usage"],
        "generation_tokens": found.counters["generation_tokens"],
    }


def test_engines_are_summed_but_the_fullest_pool_counts() -> None:
    both = (
        'vllm:num_requests_running{engine="0"} 2.0\nvllm:num_requests_running{engine="1"} 3.0\n'
        'vllm:kv_cache_usage_perc{engine="0"} 0.25\nvllm:kv_cache_usage_perc{engine="1"} 0.5\n'
        'vllm:generation_tokens_total{engine="0"} 10.0\nvllm:generation_tokens_total{engine="1"} 5.0\n'
        'vllm:generation_tokens_created{engine="1"} 1.7e9\n'
        'vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="0"} 4.0\n'
        'vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="1",position="0"} 3.0\n'
        'vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="1",position="2"} 1.0\n'
    )
    found = snapshot(both, 0)
    assert found.gauges == {"running": 5, "pool_usage": 0.5}
    assert found.counters == {"generation_tokens": 15}
    assert found.accepted_per_position == (7, 0, 1)
    assert look(b"#\n" + both.encode()) == {"running": 5, "pool_usage": 0.5, "generation_tokens": 15}


def test_older_names() -> None:
    found = snapshot(
        "vllm:gpu_prefix_cache_queries_total 100\nvllm:gpu_prefix_cache_hits_total 64\n"
        "vllm:gpu_cache_usage_perc 0.125\nvllm:time_per_output_token_seconds_count 7\n",
        0,
    )
    assert found.counters == {"prefix_queries": 100, "prefix_hits": 64, "decode_steps": 7}
    assert found.gauges == {"pool_usage": 0.125}


def test_what_is_not_a_number_is_not_reported() -> None:
    found = snapshot(
        "vllm:num_requests_running NaN\nvllm:prompt_tokens_total -1\nvllm:generation_tokens_total x\n", 0
    )
    assert (found.counters, found.gauges) == ({}, {})


def test_one_request_is_proven_clean_by_its_counts() -> None:
    case = cases()["usage-accepted-plus-drafts"]
    k = case["input"]["k"]
    drafted = accepted = 0
    for repeat, expected in zip(case["input"]["reps"], case["expected"]["reps"], strict=True):
        before = counted(drafted / k, drafted, accepted)
        drafted, accepted = drafted + repeat["drafted"], accepted + repeat["accepted"]
        moved = delta(before, counted(drafted / k, drafted, accepted)).counters
        assert moved["drafts"] == expected["drafts"]
        assert 1 + moved["accepted_tokens"] / moved["drafts"] == pytest.approx(
            expected["accept_len"], abs=1e-3
        )
        assert moved["accepted_tokens"] / moved["drafted_tokens"] == pytest.approx(expected["rate"], abs=1e-4)
        assert moved["accepted_tokens"] + moved["drafts"] == expected["emitted"]
        off = abs(expected["emitted"] - case["input"]["max_tokens"])
        assert off <= case["expected"]["emitted_vs_max_tokens_tolerance"]
    assert accepted / drafted == pytest.approx(case["expected"]["pooled_rate"], abs=1e-4)
    assert 1 + accepted * k / drafted == pytest.approx(case["expected"]["pooled_accept_len"], abs=1e-3)


def test_hits_around_the_warm_turn_alone() -> None:
    case = cases()["vllm-hit-rate-window"]
    cold, warm = case["input"]["cold_prompt_tokens"], case["input"]["warm_prompt_tokens"]
    hits = case["input"]["hits_delta_over_both"]

    def at(queries: int, hit: int) -> Snapshot:
        return snapshot(f"vllm:prefix_cache_queries_total {queries}\nvllm:prefix_cache_hits_total {hit}\n", 0)

    alone = delta(at(cold, 0), at(cold + warm, hits)).counters
    both = delta(at(0, 0), at(cold + warm, hits)).counters
    rate = alone["prefix_hits"] / alone["prefix_queries"]
    assert rate == pytest.approx(case["expected"]["hit_rate_warm_turn_only"], abs=1e-4)
    assert both["prefix_hits"] / both["prefix_queries"] == pytest.approx(
        case["expected"]["hit_rate_if_window_covers_both"], abs=1e-4
    )


def test_a_counter_that_ran_backwards_is_a_restart() -> None:
    moved = delta(counted(10, 30, 20), counted(2, 6, 4))
    assert moved.reset
    assert moved.counters == {}
    assert moved.accepted_per_position is None


def test_a_restart_is_seen_by_the_start_time_too() -> None:
    before = snapshot("process_start_time_seconds 100.5\nvllm:prompt_tokens_total 10\n", 0)
    after = snapshot("process_start_time_seconds 200.5\nvllm:prompt_tokens_total 50\n", 0)
    assert delta(before, after).reset
    assert not delta(before, before).reset


def test_a_counter_that_only_one_has_is_not_told() -> None:
    moved = delta(
        snapshot("vllm:prompt_tokens_total 10\n", 0), snapshot("vllm:generation_tokens_total 9\n", 0)
    )
    assert moved.counters == {}
    assert not moved.reset


def test_cache_config_labels() -> None:
    (labels,) = cache_config(text("vllm-0.32-cpu/d_dflash.metrics1.txt"))
    assert (labels["num_gpu_blocks"], labels["block_size"], labels["kv_cache_size_tokens"]) == (
        "1365",
        "128",
        "174720",
    )
    assert "hash_block_size" not in labels  # 'None'
