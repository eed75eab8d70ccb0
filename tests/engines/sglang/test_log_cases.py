"""Every case of SGLang's log, with its right answer."""

from __future__ import annotations

import pytest

from kvantage.core import LogReadings
from kvantage.engines.acceptance import infer_width, printed_rate
from kvantage.engines.sglang.boot import read_boot
from kvantage.engines.sglang.lines import logical_lines, read_report
from kvantage.engines.sglang.log import read_log
from tests.engines.cases import case


def read(name: str) -> tuple[LogReadings, dict]:
    given, expected = case(name)
    return read_log([given] if isinstance(given, str) else given), expected


def reports(given: str | list[str]) -> list:
    lines = logical_lines([given] if isinstance(given, str) else given)
    return [report for line in lines if (report := read_report(line))]


def warned(readings: LogReadings, *words: str) -> bool:
    return any(all(word in warning for word in words) for warning in readings.warnings)


def test_a_report_with_an_expert_rank_and_an_idle_gap() -> None:
    given, expected = case("sglang-decode-ep-prefix")
    decode, prefill = reports(given)
    assert decode.rank == expected["rank"]
    assert decode.accept_length == expected["accept_len_incl_bonus"]
    assert decode.accept_rate == expected["accept_rate"]
    assert infer_width([(decode.accept_length, decode.accept_rate)]) == (expected["inferred_D"], "m/k")
    told = expected["prefill"]
    assert prefill.new_requests == told["new_seq"]
    assert prefill.new_tokens == told["new_token"]
    assert (prefill.cached_tokens, prefill.pending) == (told["cached"], told["pending"])
    assert prefill.throughput == told["input_tps"]
    readings = read_log(given)
    assert "decode_tok_s" not in readings.readings
    assert warned(readings, "no speed", "excluded")


def test_a_hybrid_report() -> None:
    given, expected = case("sglang-decode-gdn")
    [report] = reports(given)
    told = (report.stamp, report.rank, report.running, report.tokens, report.token_usage)
    assert told == tuple(expected[name] for name in ("ts", "rank", "running", "full_tokens", "full_usage"))
    assert (report.mamba_slots, report.mamba_usage) == (expected["mamba_num"], expected["mamba_usage"])
    assert (report.cuda_graph, report.throughput, report.queue) == (
        True,
        expected["gen_tps"],
        expected["queue"],
    )
    readings = read_log([given]).readings
    assert readings["acceptance_length"].value == expected["accept_len_incl_bonus"]
    assert readings["acceptance_length"].value - 1 == pytest.approx(expected["drafts_accepted_per_step"])
    assert readings["draft_tokens_per_step"].value == expected["inferred_D"] - 1
    assert readings["draft_acceptance_rate"].value == pytest.approx(expected["accept_rate"], abs=0.005)


def test_a_repetition_loop_is_suspected() -> None:
    readings, expected = read("sglang-loop-detector")
    assert readings.readings["acceptance_length"].value == expected["accept_len"]
    assert len(readings.windows) == expected["at_ceiling_windows"]
    assert warned(readings, "degenerate output suspected", f"{expected['tokens_per_window']} tokens a report")


def test_an_old_line_with_a_trailing_comma_brackets_its_pool() -> None:
    readings, expected = read("sglang-old-line-trailing-comma")
    [window] = readings.windows
    assert (window["running"], window["waiting"]) == (expected["running"], expected["queue"])
    assert (window["pool_tokens_used"], window["pool_usage"]) == (expected["tokens"], expected["usage"])
    pool = readings.readings["kv_pool_tokens"]
    assert pool.value == expected["pool_tokens_estimate"]
    assert [pool.low, pool.high] == expected["pool_tokens_range"]
    assert warned(readings, "KV-bound", "queue > 0 and usage >= 0.9")


def test_an_older_line_with_a_period() -> None:
    given, expected = case("sglang-older-line-period")
    [report] = reports(given)
    assert (report.running, report.tokens, report.token_usage) == (36, expected["tokens"], expected["usage"])
    assert report.stamp is expected["ts"]
    assert report.throughput is None
    pool = read_log([given]).readings["kv_pool_tokens"]
    assert pool.value == expected["pool_tokens_estimate"]


def test_what_was_asked_is_not_what_runs() -> None:
    readings, expected = read("sglang-effective-vs-requested")
    told = {name: reading.value for name, reading in readings.readings.items()}
    assert told["requested_max_running"] == expected["requested"]
    assert told["effective_max_running"] == expected["effective_max_running"]
    assert told["kv_pool_tokens"] == expected["max_total_num_tokens"]
    assert told["context_length"] == expected["context_len"]
    assert warned(readings, "rows at concurrency 8 measured a queue: the server ran 6 and 2 queued")
    assert warned(readings, "smaller than the context length", "a full-length request cannot fit")


def test_the_state_cache_caps_concurrency() -> None:
    given, expected = case("sglang-mamba-cap")
    for line, right in zip(given, expected, strict=True):
        boot = read_boot(logical_lines([line]))
        [cap] = boot.caps
        assert boot.effective_running == right["effective_max_running"]
        assert (cap.slots, cap.slots_per_request) == (right["slots"], right["slots_per_req"])
        for requests, slots in right["slots_needed_for"].items():
            assert cap.slots_for(int(requests)) == slots
            asked = f"server_args=ServerArgs(model_path='m', max_running_requests={requests}, port=1)"
            readings = read_log([asked, line])
            ran = right["effective_max_running"]
            assert warned(readings, f"{requests} at once need {slots} slots")
            assert warned(readings, f"rows at concurrency {requests} measured a queue: the server ran {ran}")


def test_a_latent_pool_is_one_size_and_the_last_boot_counts() -> None:
    given, expected = case("sglang-mla-kv-size")
    for line, gib, per_token in zip(given, expected["kv_gb"], expected["bytes_per_token"], strict=False):
        readings = read_log([line]).readings
        assert readings["kv_pool_bytes"].value == pytest.approx(gib * 2**30)
        assert readings["kv_bytes_per_token"].value == pytest.approx(per_token, abs=1)
    together = read_log(given).readings
    assert together["kv_pool_tokens"].value == expected["max_total_num_tokens"]
    assert together["kv_pool_bytes"].value == pytest.approx(expected["kv_gb"][1] * 2**30)
    assert "draft_kv_pool_bytes" not in together
    assert "requested_max_running" not in together
    assert "effective_max_running" not in together


def test_sliding_and_full_pools_are_no_drafter() -> None:
    readings, expected = read("sglang-two-kv-pools-swa")
    told = readings.readings
    assert told["kv_pool_tokens"].value == expected["capacity_tokens"] == expected["full_tokens"]
    assert told["sliding_pool_tokens"].value == expected["swa_tokens"]
    assert told["kv_pool_bytes"].value == pytest.approx(expected["total_gb"] * 2**30)
    assert ("draft_kv_pool_bytes" in told) is expected["draft_present"]
    ratio = told["sliding_pool_tokens"].value / told["kv_pool_tokens"].value
    assert ratio == pytest.approx(expected["swa_full_ratio"], abs=0.001)


def test_an_old_pool_line_beside_another_engines() -> None:
    given, expected = case("sglang-vs-vllm-pool")
    told = read_log(given).readings
    assert told["kv_bytes_per_token"].value == pytest.approx(expected["sglang_bytes_per_token"], abs=1)
    vllm_bytes, vllm_tokens = 8.11 * 2**30, 178_880
    assert vllm_bytes / vllm_tokens == pytest.approx(expected["vllm_bytes_per_token"], abs=1)
    assert told["kv_pool_tokens"].value / vllm_tokens == pytest.approx(expected["token_ratio"], abs=0.001)
    assert told["kv_pool_bytes"].value / vllm_bytes == pytest.approx(expected["memory_ratio"], abs=0.01)


def test_the_older_acceptance_rate() -> None:
    given, expected = case("sglang-accept-rate-old-formula")
    width = given["num_draft_tokens"]
    for one, right in zip(given["cases"], expected, strict=True):
        accepted = one["accepted_drafts_per_step"]
        old, new = printed_rate(accepted, width, "(m+1)/D"), printed_rate(accepted, width, "m/k")
        assert old == pytest.approx(right["old_rate"], abs=1e-4)
        assert new == pytest.approx(right["new_rate"], abs=1e-4)
        assert old - new == pytest.approx(right["bias"], abs=1e-4)
        assert 1 + accepted == right["accept_len"]
        told = f"accept len: {1 + accepted:.2f}, accept rate: {old:.2f}"
        line = f"Decode batch, #running-req: 1, {told}, #queue-req: 0"
        asked = f"server_args=ServerArgs(speculative_num_draft_tokens={width}, port=1)"
        readings = read_log([asked, line]).readings
        assert readings["draft_acceptance_rate"].value == pytest.approx(right["new_rate"], abs=2e-3)


def test_an_older_rate_is_told_by_its_numbers() -> None:
    line = "Decode batch, #running-req: 1, accept len: 3.65, accept rate: 0.46, #queue-req: 0"
    readings = read_log([line])
    assert readings.readings["draft_tokens_per_step"].value == 7
    assert readings.readings["draft_acceptance_rate"].value == pytest.approx(0.3786, abs=1e-3)
    assert warned(readings, "older formula")
    ambiguous = read_log([line.replace("3.65", "2.00").replace("0.46", "0.33")])
    assert "draft_tokens_per_step" not in ambiguous.readings
    assert warned(ambiguous, "fits both")
