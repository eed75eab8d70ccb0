"""vLLM's lines in the spellings of many versions, as public reports show them."""

from __future__ import annotations

import pytest

from kvantage.engines.numbers import GIB
from kvantage.inspection.document import Document
from kvantage.inspection.gather import read_text


def read(text: str) -> Document:
    (document,) = read_text("posted", text)
    assert document.engine == "vllm"
    return document


def values(document: Document) -> dict[str, float]:
    return {name: one.value for name, one in document.readings.items() if one.value is not None}


def spec_v0(drafted: int, emitted: int, k: int = 16, accepted: int = 0) -> str:
    return (
        f"INFO 07-24 04:00:31 metrics.py:316] Speculative metrics: Draft acceptance rate: 0.000, System "
        f"efficiency: 0.059, Number of speculative tokens: {k}, Number of accepted tokens: {accepted}, "
        f"Number of draft tokens tokens: {drafted}, Number of emitted tokens tokens: {emitted}."
    )


def test_v0_counts_since_the_start_so_only_the_last_line_before_a_restart_counts() -> None:
    # Public report: 549 more were emitted in the 5 s between, at 110 tok/s.
    lines = [spec_v0(42272, 2642), spec_v0(51056, 3191)]
    found = values(read("\n".join(lines)))
    assert found["drafted_tokens"] == 51056
    assert found["spec_steps"] == 3191
    assert found["acceptance_length"] == 1.0
    again = values(read("\n".join([*lines, spec_v0(160, 10)])))
    assert again["drafted_tokens"] == 51056 + 160


def test_v0_throughput_has_no_engine_and_says_pending() -> None:
    document = read(
        "INFO 01-02 10:00:00 metrics.py:449] Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: "
        "41.2 tokens/s, Running: 1 reqs, Swapped: 0 reqs, Pending: 3 reqs, GPU KV cache usage: 2.1%, CPU KV "
        "cache usage: 0.0%."
    )
    assert values(document)["queue_depth"] == 3
    assert values(document)["decode_tok_s"] == pytest.approx(41.2)
    assert any("measured a queue: the server ran 1" in warning for warning in document.warnings)


@pytest.mark.parametrize(
    ("lines", "tokens"),
    [
        (["# GPU blocks: 127626", "Maximum concurrency for 2048 tokens per request: 997.08x"], 2_042_016),
        (
            [
                "# CUDA blocks: 1952, # CPU blocks: 2048",
                "Maximum concurrency for 20000 tokens per request: 1.56x",
            ],
            31_232,
        ),
        (["# GPU blocks: 12762", "Maximum concurrency for 2048 tokens per request: 997.08x"], None),
    ],
)
def test_blocks_and_their_concurrency_tell_tokens_unless_cut_off(
    lines: list[str], tokens: int | None
) -> None:
    assert values(read("\n".join(lines))).get("kv_pool_tokens") == tokens


@pytest.mark.parametrize(
    "line",
    [
        "memory_usage_post_profile=15.35GiB kv_cache_size=3.81GiB gpu_memory_utilization=0.90",
        "peak memory takes 2.07GiB; the rest of the memory reserved for KV Cache is 3.81GiB.",
    ],
)
def test_v0_memory_of_the_pool(line: str) -> None:
    found = values(read(f"# GPU blocks: 1952, # CPU blocks: 2048\n{line}"))
    assert found["kv_pool_bytes"] == pytest.approx(3.81 * GIB)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("(VllmWorker rank=0 pid=11) ", "(VllmWorker rank=1 pid=12) "),
        ("(EngineCore_0 pid=2) (VllmWorker TP0 pid=8) ", "(EngineCore_0 pid=2) (VllmWorker TP1 pid=9) "),
        ("(RayWorkerWrapper pid=14, ip=10.0.0.2) ", "(RayWorkerWrapper pid=15, ip=10.0.0.3) "),
        ("vllm-1  | (Worker_TP0 pid=27) ", "vllm-1  | (Worker_TP1 pid=28) "),
        (
            "Aug 19 18:30:22 box vllm[87]: (Worker_TP0 pid=87) ",
            "Aug 19 18:30:22 box vllm[87]: (Worker_TP1 pid=88) ",
        ),
        ("", ""),
    ],
)
def test_the_smallest_rank_binds_however_workers_are_named(first: str, second: str) -> None:
    stamp = "INFO 09-06 14:20:34 [gpu_worker.py:227] Available KV cache memory:"
    for one, other in ((5.54, 8.54), (8.54, 5.54)):
        found = values(read(f"{first}{stamp} {one} GiB\n{second}{stamp} {other} GiB"))
        assert found["kv_pool_bytes"] == pytest.approx(5.54 * GIB)


def test_data_parallel_engines_are_summed_and_a_token_costs_what_one_of_them_pays() -> None:
    lines = []
    for rank, (gib, tokens, times) in enumerate([(6.20, "169,280", 4.13), (5.20, "141,280", 3.45)]):
        writer = f"(EngineCore_DP{rank} pid={rank}) INFO 09-09 11:51:35"
        lines += [
            f"{writer} [gpu_worker.py:276] Available KV cache memory: {gib:.2f} GiB",
            f"{writer} [kv_cache_utils.py:849] GPU KV cache size: {tokens} tokens",
            f"{writer} [kv_cache_utils.py:853] Maximum concurrency for 40,960 tokens per request: {times}x",
        ]
    document = read("\n".join(lines))
    found = values(document)
    assert found["kv_pool_tokens"] == 310_560
    assert document.readings["kv_pool_tokens"].note is None
    assert found["max_concurrency"] == pytest.approx(7.58)
    assert found["kv_bytes_per_token"] == pytest.approx(5.20 * GIB / 141_280)


def test_no_memory_left_is_no_pool() -> None:
    document = read(
        "INFO 08-25 09:12:34 [gpu_worker.py:276] Available KV cache memory: -2.16 GiB\n"
        "ValueError: No available memory for the cache blocks."
    )
    assert not {"kv_pool_bytes", "kv_available_bytes", "kv_pool_tokens"} & values(document).keys()
    assert any("no memory was left for the KV cache: -2.16 GiB" in one for one in document.warnings)


def test_bytes_in_use_of_older_versions() -> None:
    found = values(
        read("Available KV cache memory: 54.36 GiB\nCurrent kv cache memory in use is 58363014041 bytes.")
    )
    assert found["kv_pool_bytes"] == 58_363_014_041


def test_early_v1_prints_the_rate_first_and_no_length() -> None:
    text = "SpecDecoding metrics: Draft acceptance rate: 61.2%, Accepted: 150 tokens, Drafted: 245 tokens"
    found = values(read(text))
    assert found["draft_acceptance_rate"] == pytest.approx(150 / 245)
    assert "acceptance_length" not in found
    idle = "SpecDecoding metrics: Draft acceptance rate: nan%, Accepted: 0 tokens, Drafted: 0 tokens"
    assert "draft_acceptance_rate" not in values(read(idle))


def test_a_line_without_counts_is_read_as_printed_and_several_by_what_they_drafted() -> None:
    line = "SpecDecoding metrics: Mean acceptance length: {}, Current speculative depth: 3, "
    line += "Accepted throughput: 11.42 tokens/s, Drafted throughput: {} tokens/s, "
    line += "Avg Draft acceptance rate: 83.7%"
    alone = values(read(line.format("3.51", "13.65")))
    assert alone["acceptance_length"] == pytest.approx(3.51)
    assert alone["draft_acceptance_rate"] == pytest.approx(0.837)
    both = values(read(f"{line.format('3.00', '30.00')}\n{line.format('2.00', '10.00')}"))
    assert both["acceptance_length"] == pytest.approx(2.75)


def test_a_refusal_to_start_and_a_preemption_are_vllm_s() -> None:
    refused = read(
        "ValueError: To serve at least one request with the models's max seq len (262144), (6.00 GiB KV "
        "cache is needed, which is larger than the available KV cache memory (3.65 GiB)."
    )
    assert "kv_pool_bytes" not in values(refused)
    assert any("6.00 GiB KV cache is needed" in warning for warning in refused.warnings)
    preempted = read(
        "Sequence group cmpl-1 is preempted by PreemptionMode.RECOMPUTE mode because there is not"
    )
    assert any("is preempted" in warning for warning in preempted.warnings)


@pytest.mark.parametrize("prefix", ["vllm:", "vllm_", "ray_vllm_", "ray_vllm:"])
def test_metrics_by_exporters_that_rename(prefix: str) -> None:
    counts = {"drafts_total": 22, "draft_tokens_total": 66, "accepted_tokens_total": 30}
    text = "".join(f'{prefix}spec_decode_num_{name}{{engine="0"}} {n}.0\n' for name, n in counts.items())
    found = values(read(f'{text}{prefix}num_requests_waiting{{engine="0"}} 4.0\n'))
    assert found["acceptance_length"] == pytest.approx(1 + 30 / 22)
    assert found["queue_depth"] == 4


def test_a_line_that_a_post_set_out_field_by_field() -> None:
    laid_out = (
        "SpecDecoding metrics:\n  Mean acceptance length: 3.32             # of 4\n"
        "  Accepted throughput: 39.00 tokens/s\n  Drafted throughput: 50.40 tokens/s\n"
        "  Per-position acceptance rate: 0.851, 0.762, 0.708\n  Avg Draft acceptance rate: 77.4%\n"
    )
    found = values(read(laid_out))
    assert found["acceptance_length"] == pytest.approx(3.32)
    assert found["draft_acceptance_rate"] == pytest.approx(0.774)
    dead = read(
        "SpecDecoding metrics: Mean acceptance length: 1.00\nPer-position acceptance rate: 0.000, 0.000\n"
        "Avg Draft acceptance rate: 0.0%"
    )
    assert values(dead)["acceptance_length"] == 1.0
    assert values(dead)["draft_acceptance_rate"] == 0.0
    assert any(warning.startswith("dead drafter") for warning in dead.warnings)


@pytest.mark.parametrize(
    "line",
    [
        "non-default args: {'speculative_config': {'method': 'mtp', 'rejection_sample_method': 'synthetic'}}",
        """vllm serve m --speculative-config '{"method":"eagle3","synthetic_acceptance_rates":[0.8,0.6]}'""",
        """vllm serve m --speculative-config '{"method":"mtp", "rejection_sample_method": "fly"}'""",
    ],
)
def test_made_up_or_lossy_acceptance_wherever_the_log_shows_it(line: str) -> None:
    assert any(warning.startswith("simulated acceptance") for warning in read(line).warnings)


def test_a_standard_sampler_is_not_made_up() -> None:
    line = "non-default args: {'speculative_config': {'rejection_sample_method': 'standard', "
    line += "'synthetic_acceptance_length': None}}"
    assert not read(line).warnings


def test_preemptions_in_a_window_void_its_speed() -> None:
    document = read(
        "(APIServer pid=1) INFO 09-04 11:47:26 [loggers.py:310] Engine 000: Avg prompt throughput: 0.0 "
        "tokens/s, Avg generation throughput: 168.1 tokens/s, Running: 8 reqs, Waiting: 4 reqs, "
        "Preemptions: 3, GPU KV cache usage: 99.6%, Prefix cache hit rate: 0.0%"
    )
    assert values(document)["queue_depth"] == 4
    assert "3 preemptions: the pool was full, which voids a speed" in document.warnings
