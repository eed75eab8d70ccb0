"""The boot log, of every version that was seen."""

import pytest

from kvantage.engines.vllm.boot import GIB, boot_log
from tests.engines.vllm.data import LOGS, cases, lines

POOLS = {
    "vllm-0.26-h200/none.log": (9_103_792, 34.73, 262_144, 69.46),
    "vllm-0.26-h200/ngram.log": (9_103_664, 34.73, 262_144, 69.46),
    "vllm-0.26-h200/dflash-bf16.log": (6_616_752, 25.24, 262_144, 69.41),
    "vllm-0.26-h200/dflash-allfp8.log": (13_227_536, 50.46, 262_144, 69.38),
    "vllm-0.26-h200/dflash-fp8.log": (7_658_048, 29.21, 262_144, 69.38),
    "vllm-0.26-h200/glm-none.log": (9_432_064, 46.52, 202_752, 67.67),
    "vllm-0.26-h200/glm-mtp.log": (8_070_591, 39.81, 202_752, 67.56),
    "vllm-0.26-h200/glm-dflash.log": (7_443_776, 36.71, 202_752, 67.61),
    "vllm-0.32-cpu/a_plain.log": (524_288, 128.0, 4096, 1.0),
    "vllm-0.32-cpu/b_ngram.log": (524_288, 128.0, 4096, 1.0),
    "vllm-0.32-cpu/c_noisy_f32.log": (131_072, 32.0, 4096, 1.0),
    "vllm-0.32-cpu/d_dflash.log": (174_720, 42.66, 4096, 1.0),
    "vllm-0.32-cpu/d_eagle3.log": (209_664, 51.19, 4096, 1.0),
    "vllm-0.32-cpu/e_mimo_mtp.log": (262_144, 64.0, 4096, 1.0),
    "vllm-0.32-cpu/f_draftkv8.log": (349_440, 85.31, 4096, 1.0),
    "vllm-0.32-cpu/f_synth.log": (262_144, 64.0, 4096, 1.0),
    "vllm-0.32-cpu/g_kv8.log": (524_288, 128.0, 4096, 1.0),
}


def test_every_capture_is_known() -> None:
    assert {f"{path.parent.name}/{path.name}" for path in LOGS} == set(POOLS)


@pytest.mark.parametrize("name", POOLS)
def test_pool_of_every_capture(name: str) -> None:
    tokens, concurrency, length, gib = POOLS[name]
    log = boot_log(lines(name))
    assert log.pool_tokens == tokens
    assert log.max_concurrency == concurrency
    assert log.concurrency_length == log.context_length == length
    assert log.binding_kv_bytes == pytest.approx(gib * GIB)
    assert log.tokens_agree
    assert log.version == ("0.26.0" if "0.26" in name else "0.32.0")
    assert log.prefix_caching is True
    assert log.caching_off is None


@pytest.mark.parametrize(
    ("name", "speculation"),
    [
        ("vllm-0.26-h200/none.log", {}),
        ("vllm-0.26-h200/ngram.log", {"method": "ngram", "num_spec_tokens": "5"}),
        (
            "vllm-0.26-h200/glm-mtp.log",
            {"method": "mtp", "model": "/models/glm5", "num_spec_tokens": "3"},
        ),
        (
            "vllm-0.32-cpu/d_eagle3.log",
            {"method": "eagle3", "model": "/models/eagle3", "num_spec_tokens": "3"},
        ),
    ],
)
def test_speculation_as_the_engine_has_it(name: str, speculation: dict[str, str]) -> None:
    assert boot_log(lines(name)).speculation == speculation


def test_one_line_form_and_the_binding_rank() -> None:
    case = cases()["vllm-kv-boot-one-line"]
    log = boot_log(case["input"])
    expected = case["expected"]
    assert log.pool_tokens == expected["pool_tokens"]
    assert log.concurrency_length == expected["max_model_len"]
    assert log.max_concurrency == expected["max_concurrency"]
    assert {rank: round(size / GIB, 2) for rank, size in log.kv_bytes.items()} == expected["kv_gib_by_rank"]
    assert log.binding_kv_bytes == pytest.approx(expected["binding_kv_gib"] * GIB)


def test_split_lines() -> None:
    case = cases()["vllm-kv-boot-split-lines"]
    log = boot_log(case["input"])
    expected = case["expected"]
    assert log.pool_tokens == expected["pool_tokens"]
    assert log.concurrency_length == expected["max_model_len"]
    assert log.max_concurrency == expected["max_concurrency"]
    assert log.tokens_agree is expected["consistent"]
    assert log.pool_tokens / log.concurrency_length == pytest.approx(expected["tokens_over_len"], abs=1e-3)
    assert log.binding_kv_bytes is not None
    assert log.binding_kv_bytes / log.pool_tokens == pytest.approx(
        expected["bytes_per_token_apparent"], rel=1e-3
    )


def test_tokens_and_concurrency_in_different_units() -> None:
    case = cases()["vllm-kv-inconsistent-concurrency"]
    log = boot_log(case["input"])
    assert log.pool_tokens == case["expected"]["pool_tokens"]
    assert log.max_concurrency == case["expected"]["max_concurrency"]
    assert log.tokens_agree is case["expected"]["consistent"]


def test_hybrid_tokens_are_concurrency_times_length() -> None:
    case = cases()["vllm-kv-hybrid-derived-tokens"]
    log = boot_log([case["input"]["line"]])
    expected = case["expected"]
    assert log.pool_tokens == expected["pool_tokens_reported"]
    assert log.tokens_agree
    assert log.pool_tokens / expected["cached_conversation_upper_bound_tokens"] == pytest.approx(
        expected["ratio_reported_to_cacheable"], abs=0.05
    )


def test_the_pool_is_the_least_of_all_ranks() -> None:
    case = cases()["kv-pool-min-over-ranks"]
    for pair, expected in zip(case["input"], case["expected"], strict=True):
        log = boot_log(
            f"(Worker_TP{rank} pid={rank}) INFO 09-04 11:00:12 [gpu_worker.py:624] Available KV cache memory:"
            f" {pair[f'rank{rank}_gib']} GiB"
            for rank in (0, 1)
        )
        assert log.binding_kv_bytes == pytest.approx(expected["binding_gib"] * GIB)
        assert max(log.kv_bytes.values()) - log.binding_kv_bytes == pytest.approx(expected["lost_gib"] * GIB)


def test_the_same_memory_costs_the_same_a_token_in_both_engines() -> None:
    case = cases()["sglang-vs-vllm-pool"]
    log = boot_log(case["input"])
    assert log.binding_kv_bytes is not None
    assert log.pool_tokens is not None
    per_token = log.binding_kv_bytes / log.pool_tokens
    assert per_token == pytest.approx(case["expected"]["vllm_bytes_per_token"], abs=1)


def test_v0_blocks() -> None:
    log = boot_log(["INFO 01-02 03:04:05 executor_base.py:110] # cuda blocks: 27123, # CPU blocks: 1638"])
    assert log.pool_blocks == 27123


def test_engines_of_one_server_are_summed() -> None:
    log = boot_log(
        f"(EngineCore_DP{rank} pid={rank}) INFO 09-04 11:00:12 [x.py:1] GPU KV cache size: 1,000 tokens"
        for rank in range(3)
    )
    assert log.pool_tokens == 3000


def test_prefix_caching_forced_off() -> None:
    log = boot_log(
        [
            "(APIServer pid=1) INFO 11-30 01:00:00 [cpu.py:523] MLA is enabled on a non-GPU platform; forcing"
            " chunked prefill and prefix caching to be disabled.",
            "... enable_prefix_caching=False, enable_chunked_prefill=False",
        ]
    )
    assert log.caching_off is not None
    assert "forcing chunked prefill" in log.caching_off
    assert log.prefix_caching is False


def test_simulated_acceptance_is_seen_in_the_log() -> None:
    assert boot_log(lines("vllm-0.32-cpu/f_synth.log")).simulated == "rejection_sample_method: synthetic"
    assert boot_log(lines("vllm-0.32-cpu/b_ngram.log")).simulated is None


def test_nothing_is_told_by_nothing() -> None:
    log = boot_log([])
    assert (log.pool_tokens, log.binding_kv_bytes, log.tokens_agree, log.speculation) == (
        None,
        None,
        None,
        None,
    )
