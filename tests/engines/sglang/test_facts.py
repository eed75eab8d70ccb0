"""Facts, counters and usage of a running SGLang."""

from __future__ import annotations

from typing import Any

import pytest

from kvantage.core import ArmSettings, Facts, ServerSettings, Speculation
from kvantage.engines.acceptance import SpeculationCounts
from kvantage.engines.sglang import Sglang
from kvantage.engines.sglang.boot import read_boot
from kvantage.engines.sglang.cache import expected_cached, judged
from kvantage.engines.sglang.facts import Told, accept_length_of, facts
from kvantage.engines.sglang.lines import logical_lines
from kvantage.engines.sglang.metrics import facts_of, look, snapshot
from kvantage.engines.sglang.usage import read_usage, speculation_counts
from tests.engines.cases import capture, case

GIB = 2**30

INFO: dict[str, Any] = {
    "model_path": "/models/glm5",
    "api_key": "never kept",
    "max_running_requests": 48,
    "max_total_num_tokens": 8269504,
    "context_length": 202752,
    "page_size": 64,
    "disable_radix_cache": False,
    "speculative_algorithm": "EAGLE",
    "speculative_num_steps": 3,
    "speculative_num_draft_tokens": 4,
    "launch_command": "python3 -m sglang.launch_server --model-path /models/glm5",
    "version": "0.5.23",
    "internal_states": [
        {
            "effective_max_running_requests_per_dp": 12,
            "memory_usage": {"weight": 0.23, "kvcache": 59.33, "token_capacity": 8269504},
        }
    ],
}


def told(name: str, **changes: Any) -> Told:
    boot = read_boot(logical_lines(capture(f"sglang-0.5.17-h200/{name}.log").split("\n")))
    return Told(boot=boot, **changes)


def test_facts_of_server_and_log_together() -> None:
    found = facts(told("s-glm-mtp", info=INFO))
    assert found.engine_version == "0.5.23"
    values = {name: reading.value for name, reading in found.readings.items()}
    assert values["kv_pool_tokens"] == 8269504
    assert values["effective_max_running"] == 12
    assert values["draft_kv_pool_bytes"] == pytest.approx(9.89 * GIB)
    assert values["kv_block_tokens"] == 64
    assert values["context_length"] == 202752
    assert found.speculation["method"] == "EAGLE"
    assert found.speculation["num_speculative_tokens"] == 3
    assert found.prefix_caching is True
    assert "api_key" not in found.resolved
    assert "launch_command" not in found.resolved
    assert "SGLang set max_running_requests to 48 because speculation is on" in found.warnings


def test_facts_of_a_log_alone() -> None:
    found = facts(told("s-none"))
    assert found.reading("kv_pool_tokens").value == 9092500
    assert found.reading("effective_max_running").value == 4
    assert found.speculation == {}
    assert not found.reading("draft_kv_pool_bytes").known
    assert found.resolved["max_running_requests"] == 4


def test_what_was_asked_and_not_granted() -> None:
    arm = ArmSettings(
        "mtp",
        "sglang",
        "m",
        settings=ServerSettings(max_running_requests=16, pool_tokens=10_000_000),
        speculation=Speculation("mtp", 3),
    )
    found = facts(told("s-glm-mtp", info=INFO, arm=arm))
    assert any("16 running requests were asked for and 12 granted" in text for text in found.warnings)
    assert any("ceiling of 10000000" in text and "granted 8269504" in text for text in found.warnings)
    off = facts(Told(arm=arm, info={**INFO, "speculative_algorithm": None}))
    assert "speculation `mtp` was asked for and is off" in off.warnings


def test_simulation_is_found_in_the_environment_and_the_resolved_settings() -> None:
    _, expected = case("stats-simulated-acceptance")
    given, _ = case("stats-simulated-acceptance")
    env = dict(pair.split("=") for pair in given["env"])
    found = facts(Told(info=INFO, env=env))
    assert found.speculation["simulated"] == "SGLANG_SIMULATE_ACC_LEN=3"
    assert expected["acceptance_measured"] is False
    assert any("acceptance was not measured" in text for text in found.warnings)
    states = [{**INFO["internal_states"][0], "env_vars": {"SGLANG_SIMULATE_ACC_LEN": 3.0}}]
    assert "simulated" in facts(Told(info={**INFO, "internal_states": states})).speculation
    lossy = facts(Told(info={**INFO, "speculative_accept_threshold_acc": 0.9}))
    assert lossy.speculation["simulated"] == "speculative_accept_threshold_acc=0.9"
    off = facts(Told(info=INFO, env={"SGLANG_SIMULATE_ACC_LEN": "-1"}))
    assert "simulated" not in off.speculation


def test_replicas_are_not_averaged() -> None:
    given, expected = case("sglang-dp-accept-null")
    states = [
        {"avg_spec_accept_length": length} if length is not None else {}
        for length in given["internal_states_avg_spec_accept_length"]
    ]
    reading = accept_length_of(states, speculation=True)
    assert reading.value is None
    assert reading.missing is not None
    assert reading.missing.startswith(expected["status"])


def test_a_flush_erases_the_lifetime_length() -> None:
    _, expected = case("sglang-flush-resets-spec")
    reading = accept_length_of([{"last_gen_throughput": 1.0}], speculation=True)
    assert reading.value is expected["avg_spec_accept_length"]
    assert "zeroed by a cache flush" in (reading.missing or "")


def test_a_flush_is_believed_by_its_words() -> None:
    body = "Cache flushed.\nPlease check backend logs for more details. ...\n"
    assert judged(200, body).believed
    assert not judged(200, "").believed
    assert not judged(400, "Flush cache failed.").believed


@pytest.mark.parametrize(
    ("name", "prefix", "hit"),
    [("s-none", 2001, 2000), ("s-dflash-bf16", 2001, 2000), ("s-glm-mtp", 2001, 1984)],
)
def test_expected_hits_hold_what_was_seen(name: str, prefix: int, hit: int) -> None:
    low, high = expected_cached(prefix, facts(told(name)))
    assert low <= hit <= high


METRICS = """\
# HELP sglang:num_running_reqs The number of running requests.
# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{model_name="m",tp_rank="0",dp_rank="0"} 3.0
sglang:num_running_reqs{model_name="m",tp_rank="1",dp_rank="0"} 3.0
sglang:num_running_reqs{model_name="m",tp_rank="0",dp_rank="1"} 2.0
sglang:num_running_reqs{model_name="m",tp_rank="0",dp_rank="1",priority="7"} 2.0
sglang:num_queue_reqs{model_name="m"} 1.0
sglang:token_usage{model_name="m"} 0.25
sglang:mamba_usage{model_name="m"} 0.75
sglang:prompt_tokens_total{model_name="m",is_streaming="True"} 100.0
sglang:prompt_tokens_total{model_name="m",is_streaming="False"} 11.0
sglang:prompt_tokens_created{model_name="m"} 1.7e9
sglang:cached_tokens_total{cache_source="device"} 64.0
sglang:generation_tokens_total{model_name="m"} 50.0
sglang:spec_verify_calls_total{model_name="m"} 20.0
sglang:spec_accept_length{model_name="m"} 2.5
sglang:queue_time_seconds_sum{model_name="m"} 0.5
sglang:num_requests_total{model_name="m"} nan
sglang:max_total_num_tokens{model_name="m"} 1000.0
broken line {
sglang:num_used_tokens 12"""


def test_counters_and_gauges() -> None:
    found = snapshot(METRICS, 1)
    assert found.counters == {
        "drafts": 20,
        "prompt_tokens": 111,
        "prefix_hits": 64,
        "prefix_queries": 111,
        "generation_tokens": 50,
        "queue_s": 0.5,
    }
    assert found.gauges == {"running": 5, "waiting": 1, "pool_usage": 0.75}
    assert facts_of(METRICS)["kv_pool_tokens"] == 1000
    assert facts_of(METRICS)["acceptance_length"] == 2.5
    renamed = METRICS.replace("sglang:", "sglang_")
    assert snapshot(renamed, 1) == found
    assert snapshot(METRICS.replace("\n", "\r\n"), 1) == found


def test_names_of_older_dashboards() -> None:
    dump = 'sglang:num_requests_running{a="b"} 3.0\nsglang:max_running_requests{a="b"} 48.0\n'
    assert snapshot(dump).gauges["running"] == 3
    assert facts_of(dump) == {"effective_max_running": 48}


def test_a_look_without_a_parser() -> None:
    found = look(METRICS.encode())
    assert found["waiting"] == 1
    assert found["generation_tokens"] == 50
    assert found["pool_usage"] == 0.25


def test_sglext_of_a_real_reply() -> None:
    given, expected = case("sglext-spec-details")
    usage = read_usage(given)
    assert usage.output_tokens == given["completion_tokens"]
    spec = speculation_counts(given)
    assert spec.broken() == []
    assert spec.acceptance_length == pytest.approx(expected["accept_len_incl_bonus"], abs=1e-6)
    assert spec.acceptance_rate == pytest.approx(expected["accept_rate"], abs=1e-6)
    assert spec.drafts_per_step == expected["k"]
    assert spec.per_position == pytest.approx(expected["per_position_rate"], abs=1e-4)
    assert spec.conditional == pytest.approx(expected["conditional_rate"], abs=1e-4)
    streamed = {"usage": {"completion_tokens": 106}, "sglext": {"spec_tokens_details": given["sglext"]}}
    assert read_usage(streamed) == usage
    old = {
        "meta_info": {
            "completion_tokens": 106,
            "spec_verify_ct": 43,
            "spec_accept_token_num": 63,
            "spec_draft_token_num": 215,
        }
    }
    assert read_usage(old).accepted_tokens == 63
    assert read_usage(old).spec_steps == 43


def test_counts_under_other_names() -> None:
    meta = {
        "completion_tokens": 30,
        "spec_verify_ct": 10,
        "spec_accepted_drafts": 20,
        "spec_proposed_drafts": 30,
        "spec_acceptance_histogram": [1, 2, 3, 4],
        "total_retractions": 1,
    }
    usage = read_usage({"meta_info": meta})
    assert (usage.spec_steps, usage.accepted_tokens, usage.drafted_tokens) == (10, 20, 30)
    assert usage.acceptance_histogram == (1, 2, 3, 4)
    assert usage.retractions == 1


def test_counts_that_contradict_each_other_are_refused() -> None:
    given, _ = case("sglext-spec-details")
    broken = {**given, "sglext": {**given["sglext"], "spec_verify_ct": 44}}
    usage = read_usage(broken)
    assert (usage.spec_steps, usage.accepted_tokens, usage.acceptance_histogram) == (None, None, None)
    assert SpeculationCounts(steps=2, accepted=9, drafted=8).broken()


def test_cached_tokens_are_missing_or_counted_but_never_zero_for_null() -> None:
    given, expected = case("usage-cached-tokens-null")
    for one, right in zip(given, expected, strict=True):
        usage = read_usage(one)
        assert usage.cached_tokens == right["cached"]
        if "hit" in right:
            assert usage.cached_tokens / usage.prompt_tokens == pytest.approx(right["hit"], abs=1e-4)
    assert read_usage({"meta_info": {"cached_tokens": 7}}).cached_tokens == 7
    assert read_usage({"sglext": {"cached_tokens_details": {"device": 5, "host": 2}}}).cached_tokens == 7


def test_no_hit_is_left_out_of_an_answer_and_is_zero_only_where_hits_are_reported() -> None:
    """SGLang 0.5.17: a cold prompt carries `prompt_tokens_details: null` with the flag on."""
    answer = {
        "usage": {"prompt_tokens": 500, "completion_tokens": 4, "prompt_tokens_details": None},
    }
    on = Facts("sglang", "0.5.17", resolved={"enable_cache_report": True})
    off = Facts("sglang", "0.5.17", resolved={"enable_cache_report": False})
    assert Sglang().read_usage(answer, on).cached_tokens == 0
    assert Sglang().read_usage(answer, off).cached_tokens is None
    assert Sglang().read_usage(answer).cached_tokens is None
    assert Sglang().read_usage({}, on).cached_tokens is None
    hit = {"usage": {"prompt_tokens": 500, "prompt_tokens_details": {"cached_tokens": 448}}}
    assert Sglang().read_usage(hit, on).cached_tokens == 448
