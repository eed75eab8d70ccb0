"""What SGLang says while it starts, in shapes that the captures do not have."""

from __future__ import annotations

import pytest

from kvantage.engines.sglang.boot import arguments, flags, read_boot
from kvantage.engines.sglang.lines import logical_lines
from kvantage.engines.sglang.log import read_log

GIB = 2**30


def warned(lines: list[str], *words: str) -> bool:
    return any(all(word in warning for word in words) for warning in read_log(lines).warnings)


def test_a_state_cache_and_its_buffers_are_two_things() -> None:
    line = (
        "[2026-08-28 04:00:00 TP0] Mamba Cache is allocated. max_mamba_cache_size: 20, "
        "conv_state size: 0.25GB, ssm_state size: 6.60GB intermediate_ssm_state_cache size: 48.00GB "
        "intermediate_conv_window_cache size: 1.01GB "
    )
    readings = read_log([line, line.replace("TP0", "TP1")]).readings
    assert readings["state_cache_bytes"].value == pytest.approx(6.85 * GIB)
    assert readings["state_buffer_bytes"].value == pytest.approx(49.01 * GIB)


def test_the_smallest_rank_binds() -> None:
    lines = [
        f"[2026-08-28 04:00:00 TP{rank}] KV Cache is allocated. dtype: torch.bfloat16, #tokens: {tokens}, "
        f"K size: {gib:.2f} GB, V size: {gib:.2f} GB"
        for rank, tokens, gib in ((0, 1000000, 8.0), (1, 900000, 7.2))
    ]
    readings = read_log(lines).readings
    assert readings["kv_pool_tokens"].value == 900000
    assert "the smallest of 2 ranks" in (readings["kv_pool_tokens"].note or "")
    assert "draft_kv_pool_bytes" not in readings


def test_data_parallel_pools_are_summed() -> None:
    line = "max_total_num_tokens={}, max_running_requests=24, context_len=65536, available_gpu_mem=1.00 GB"
    lines = [f"[DP{rank} TP0] {line.format(tokens)}" for rank, tokens in enumerate((50000, 40000))]
    readings = read_log(lines).readings
    assert readings["kv_pool_tokens"].value == 90000
    assert readings["effective_max_running"].value == 48
    assert warned(lines, "pool of 40000 tokens is smaller than the context length of 65536")


def test_a_pool_that_is_only_reserved_is_not_allocated() -> None:
    lines = [
        "[2026-10-30 04:00:00] KV Cache VA upper bound. dtype: torch.bfloat16, "
        "#tokens: 999999, KV size: 99.00 GB",
        "[2026-10-30 04:00:09] Post-capture KV sizing: KV cache allocated. dtype: torch.bfloat16, "
        "#tokens: 600000, KV size: 40.00 GB, avail mem=3.00 GB",
        "[2026-10-30 04:00:09] Post-capture KV sizing: draft KV cache allocated. dtype: torch.float8_e4m3fn, "
        "#tokens: 600000, KV size: 5.00 GB",
    ]
    readings = read_log(lines).readings
    assert readings["kv_pool_tokens"].value == 600000
    assert readings["kv_pool_bytes"].value == 40 * GIB
    assert readings["draft_kv_pool_bytes"].value == 5 * GIB


def test_labelled_pools_of_one_target() -> None:
    lines = [
        f"[2026-10-30 04:00:00] {label} KV Cache is allocated. dtype: torch.bfloat16, #tokens: {tokens}, "
        "K size: 1.00 GB, V size: 1.00 GB"
        for label, tokens in (("Full", 1000), ("SWA", 1000))
    ]
    readings = read_log(lines).readings
    assert readings["sliding_pool_tokens"].value == 1000
    assert "draft_kv_pool_bytes" not in readings


def test_equal_pools_are_a_targets_own_where_the_log_speaks_of_windows() -> None:
    line = (
        "[TP0] KV Cache is allocated. dtype: torch.bfloat16, #tokens: 1000, K size: 1.00 GB, V size: 1.00 GB"
    )
    window = "[TP0] SWAKVPool mem usage: 4.00 GB, swa size: 1000, full size: 1000"
    assert "sliding_pool_tokens" in read_log([line, line, window]).readings
    assert "draft_kv_pool_bytes" in read_log([line, line]).readings


def test_a_hybrid_pools_split_is_read_where_no_allocation_is_printed() -> None:
    line = "Use sliding window memory pool. full_layer_tokens=120000, swa_layer_tokens=96000"
    readings = read_log([line]).readings
    assert readings["kv_pool_tokens"].value == 120000
    assert "sliding_pool_tokens" not in readings
    assert not read_log([line[:-60]]).readings


def test_settings_that_sglang_changed_are_said_in_its_words() -> None:
    assert warned(["Setting page size to 64 for DeepSeek DSA."], "setting page size to 64 for DeepSeek DSA")
    mixed = "Mixed chunked prefill is disabled because of using eagle speculative decoding."
    assert warned([mixed], "changed a setting by itself", "mixed chunked prefill is disabled")
    steps = "DFLASH only supports speculative_num_steps == 1; overriding speculative_num_steps=3 to 1."
    assert warned([steps], "overriding speculative_num_steps=3 to 1")


def test_what_sglang_changed_by_itself() -> None:
    reset = "Max running requests is reset to 48 for speculative decoding. You can override this by ..."
    arguments_line = "server_args=ServerArgs(max_running_requests=48, speculative_algorithm='EAGLE', x=1)"
    assert warned([reset], "SGLang set max_running_requests to 48 because speculation is on")
    assert "requested_max_running" not in read_log([reset, arguments_line]).readings
    ceiling = (
        "max_total_tokens=131072 is larger than the profiled value 64832. Use the profiled value instead."
    )
    assert warned([ceiling], "131072", "SGLang uses 64832 tokens")
    retracted = "KV cache pool is full. Retract requests. #retracted_reqs: 2, #new_tokens_gained: 100, x"
    assert warned([retracted], "2 requests were retracted")


def test_simulated_and_lossy_acceptance_are_said() -> None:
    assert warned(["env: SGLANG_SIMULATE_ACC_LEN=3"], "simulated acceptance", "SGLANG_SIMULATE_ACC_LEN=3")
    lossy = (
        "server_args=ServerArgs(speculative_algorithm='EAGLE', speculative_accept_threshold_single=0.5, x=1)"
    )
    assert warned([lossy], "lossy", "0.5")


def test_simulation_that_is_switched_off_is_none() -> None:
    assert not read_log(["env: SGLANG_SIMULATE_ACC_LEN=-1", "SGLANG_SIMULATE_ACC_LEN='0'"]).warnings
    assert warned(["SIMULATE_ACC_LEN=2.5 python -m launch_server"], "simulated acceptance")


def test_arguments_in_their_three_forms() -> None:
    told = {"max_running_requests": 8, "speculative_algorithm": "EAGLE", "page_size": None}
    python = "ServerArgs(max_running_requests=8, speculative_algorithm='EAGLE', page_size=None, cut=1"
    assert arguments(python) == told
    assert (
        arguments("{'max_running_requests': 8, 'speculative_algorithm': 'EAGLE', 'page_size': None}") == told
    )
    assert (
        arguments('{"max_running_requests": 8, "speculative_algorithm": "EAGLE", "page_size": null}') == told
    )
    assert arguments("json_model_override_args='{\"page_size\": 7}', max_total_tokens=12") == {
        "json_model_override_args": '{"page_size": 7}'
    }


def test_the_command_line_in_a_log_is_the_wish() -> None:
    line = "+ python3 -m sglang.launch_server --model-path m --max-running-requests 8 --enable-metrics"
    assert flags(line) == {"model-path": "m", "max-running-requests": "8", "enable-metrics": ""}
    granted = (
        "max_total_num_tokens=90112, max_running_requests=2, context_len=65536, available_gpu_mem=1.00 GB"
    )
    assert warned([line, granted], "rows at concurrency 8 measured a queue: the server ran 2")


@pytest.mark.parametrize(
    "line",
    [
        "[2026-10-10 11:59:51] max_total_num_tokens=1226984, chunked_prefill_size=8192, context_len=262144",
        "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 1226984, KV size: 9.21 GB",
        "max_running_requests is capped to 12 by the mamba state cache (max_mamba_cache_size=64, 5 state",
        "Decode batch, #running-req: 36, #token: 958017, token usage: 0.96, gen throughput (token/s): 9.65",
    ],
)
def test_a_cut_line_never_yields_another_number(line: str) -> None:
    whole = {reading.value for reading in read_log([line]).readings.values()}
    whole |= {value for told in read_boot(logical_lines([line])).limits.values() for value in told.values()}
    for end in range(len(line)):
        boot = read_boot(logical_lines([line[:end]]))
        cut = [value for limits in boot.limits.values() for value in limits.values()]
        cut += [cap.running for cap in boot.caps]
        cut += [pool.tokens for rank in boot.pools.values() for group in rank.groups for pool in group]
        assert set(cut) <= whole
        for reading in read_log([line[:end]]).readings.values():
            assert reading.value in whole
