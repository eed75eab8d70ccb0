"""What a booted server says of itself."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kvantage.core import ServerSettings, Speculation
from kvantage.engines.vllm.boot import BootLog, boot_log
from kvantage.engines.vllm.cache import expected_cached
from kvantage.engines.vllm.facts import DERIVED, SMALLEST, Told, facts
from kvantage.engines.vllm.resolved import resolved, speculation_of
from tests.engines.vllm.data import CONFIGS, arm, cases, told

TINY = str(CONFIGS / "captured-tiny-cpu")


def test_a_plain_server() -> None:
    found = facts(
        told("vllm-0.32-cpu/a_plain.log", arm(model=TINY, settings=ServerSettings(dtype="bfloat16")))
    )
    assert found.engine_version == "0.32.0"
    values = {name: reading.value for name, reading in found.readings.items()}
    assert values == {
        "kv_pool_tokens": 524288,
        "kv_pool_blocks": 4096,
        "kv_block_tokens": 128,
        "kv_pool_bytes": 1 << 30,
        "kv_bytes_per_token": 2048,
        "draft_kv_pool_bytes": 0,
        "target_kv_pool_bytes": 1 << 30,
        "kv_available_bytes": pytest.approx(1 << 30),
        "max_concurrency": 128.0,
        "context_length": 4096,
        "boot_s": 59.12,
        "dropped_blocks": 0,
    }
    assert found.reading("kv_pool_bytes").source == "computed"
    assert found.prefix_caching is True
    assert found.warnings == ()
    assert found.speculation == {}
    assert found.reading("weights_bytes").missing == "vllm did not report weights_bytes"


def test_a_drafter_shares_the_blocks() -> None:
    settings = arm(
        model=TINY,
        settings=ServerSettings(dtype="float32"),
        speculation=Speculation("dflash", 3, str(CONFIGS / "captured-tiny-cpu-dflash")),
    )
    given = told("vllm-0.32-cpu/d_dflash.log", settings)
    assert given.log.speculation is not None
    given = replace(
        given,
        log=replace(given.log, speculation={**given.log.speculation, "model": settings.speculation.draft}),
    )
    found = facts(given)
    assert found.reading("kv_bytes_per_token").value == 6144
    assert found.reading("kv_pool_bytes").value == 1365 * 128 * 6144
    assert found.reading("draft_kv_pool_bytes").value == 1365 * 128 * 2048
    assert found.reading("dropped_blocks").value == 1
    assert found.speculation["num_speculative_tokens"] == 3


def test_a_geometry_that_does_not_lead_to_the_blocks_is_not_believed() -> None:
    found = facts(told("vllm-0.32-cpu/d_dflash.log", arm(model=TINY)))  # the drafter's folder is not here
    pool = found.reading("kv_pool_bytes")
    assert pool.source == "config"
    assert pool.low is not None
    assert pool.high is not None
    assert pool.low <= 1365 * 128 * 6144 <= pool.high
    assert pool.high - pool.low < 1.1 * 128 * 6144
    assert "kv_bytes_per_token" not in found.readings


def test_resolved_settings_of_a_real_server() -> None:
    given = told(
        "vllm-0.32-cpu/c_noisy_f32.log", arm("draft_model", settings=ServerSettings(max_running_requests=4))
    )
    found = facts(given)
    assert found.reading("effective_max_running").value == found.reading("requested_max_running").value == 4
    assert found.resolved["model_config.dtype"] == "torch.float32"
    assert found.resolved["scheduler_config.max_num_scheduled_tokens"] == 2048
    assert found.resolved["speculative_config.method"] == "draft_model"
    assert found.resolved["env.VLLM_CPU_KVCACHE_SPACE"] == 1
    assert found.speculation["rejection_sample_method"] == "standard"
    assert "simulated" not in found.speculation
    assert not [name for name in found.resolved if "port" in name.rpartition(".")[2].split("_")]
    assert not any(name.startswith("speculative_config.target_model_config") for name in found.resolved)
    assert json.loads(json.dumps(found.resolved)) == found.resolved


def test_two_arms_differ_in_what_was_declared() -> None:
    ngram = facts(told("vllm-0.32-cpu/b_ngram.log")).resolved
    draft = facts(told("vllm-0.32-cpu/c_noisy_f32.log")).resolved
    differing = {name for name in ngram.keys() | draft.keys() if ngram.get(name) != draft.get(name)}
    assert {name for name in differing if not name.startswith("compilation_config.")} == {
        "cache_config.kv_cache_max_concurrency",
        "cache_config.kv_cache_size_tokens",
        "cache_config.num_gpu_blocks",
        "kernel_config.enable_jit_warmup",
        "model_config.dtype",
        "model_config.enforce_eager",
        "parallel_config.disable_nccl_for_dp_synchronization",
        "speculative_config.draft_tensor_parallel_size",
        "speculative_config.method",
        "speculative_config.model",
        "speculative_config.num_speculative_tokens",
        "speculative_config.prompt_lookup_max",
        "speculative_config.prompt_lookup_min",
    }


@pytest.mark.parametrize(
    ("log", "tokens", "block", "hit"),
    [
        # a prompt of so many tokens, repeated, as the servers themselves counted it
        ("vllm-0.32-cpu/a_plain.log", 2000, 128, 1920),
        ("vllm-0.32-cpu/b_ngram.log", 2000, 128, 1920),
        ("vllm-0.32-cpu/c_noisy_f32.log", 2000, 128, 1920),
        ("vllm-0.32-cpu/d_dflash.log", 2000, 128, 1792),
        ("vllm-0.32-cpu/d_eagle3.log", 2000, 128, 1792),
        ("vllm-0.32-cpu/e_mimo_mtp.log", 2000, 128, 1792),
        ("vllm-0.26-h200/none.log", 2001, 16, 2000),
        ("vllm-0.26-h200/ngram.log", 2001, 16, 2000),
        ("vllm-0.26-h200/glm-none.log", 2001, 64, 1984),
        ("vllm-0.26-h200/glm-dflash.log", 2001, 64, 1920),
        ("vllm-0.26-h200/glm-mtp.log", 2001, 64, 1920),
    ],
)
def test_expected_hits_hold_what_was_seen(log: str, tokens: int, block: int, hit: int) -> None:
    given = told(log)
    if not given.cache and given.log.block_tokens is None:
        given = replace(given, log=replace(given.log, block_tokens=block))
    found = facts(given)
    assert found.reading("kv_block_tokens").value == block
    low, high = expected_cached(tokens, found)
    assert low <= hit <= high
    assert high - low <= high if log.endswith("mtp.log") else high - low in (0, block)


def test_expected_hits_at_the_edges() -> None:
    found = facts(told("vllm-0.32-cpu/a_plain.log"))
    assert expected_cached(0, found) == (0, 0)
    assert expected_cached(127, found) == (0, 0)
    assert expected_cached(128, found) == (0, 128)  # the same prompt again computes its last token
    assert expected_cached(129, found) == (128, 128)
    dropping = facts(told("vllm-0.32-cpu/d_eagle3.log"))
    assert expected_cached(129, dropping) == (0, 0)
    assert expected_cached(257, dropping) == (128, 128)
    assert expected_cached(256, replace(found, prefix_caching=False)) == (0, 0)
    assert expected_cached(300, replace(found, readings={})) == (0, 300)


def test_a_hit_in_blocks_of_784() -> None:
    case = cases()["vllm-prefix-zero-with-drafter"]
    given = Told(arm(), BootLog(block_tokens=case["input"]["block"]))
    low, high = expected_cached(case["input"]["prompt_tokens"], facts(given))
    assert low == high == case["input"]["without_drafter"]["hits_per_repeat"]
    assert high == case["expected"]["blocks"] * case["input"]["block"]
    assert case["input"]["prompt_tokens"] - high == case["expected"]["tail_tokens"]


def test_the_label_of_a_hybrid_is_no_page() -> None:
    case = cases()["vllm-cacheconfig-blocksize"]
    size = case["input"]["cache_config_info_block_size"]
    given = Told(
        arm(), cache=[{"block_size": size, "num_gpu_blocks": "642", "kv_cache_size_tokens": "1553140"}]
    )
    found = facts(given)
    assert found.reading("kv_block_tokens").value == case["expected"]["block_size_is_min_over_groups"]
    assert found.reading("kv_block_tokens").note == SMALLEST
    assert found.reading("kv_pool_tokens").note == DERIVED
    low, high = expected_cached(10_000, found)
    assert (low, high) == (0, 10_000)


def test_mtp_on_a_hybrid_prints_tokens_that_are_no_blocks() -> None:
    found = facts(told("vllm-0.26-h200/glm-mtp.log"))
    assert found.reading("kv_pool_tokens").value == 8_070_591
    assert found.reading("kv_pool_tokens").note == DERIVED
    assert facts(told("vllm-0.26-h200/glm-none.log")).reading("kv_pool_tokens").note != DERIVED


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (told("vllm-0.32-cpu/f_synth.log"), "simulated or lossy acceptance"),
        (told("vllm-0.26-h200/dflash-bf16.log"), "a step takes at most 8176 tokens, not 8192"),
        (told("vllm-0.32-cpu/a_plain.log", arm("ngram")), "speculation `ngram` was asked for and is off"),
        (
            Told(arm(), BootLog(pool_tokens=1000, concurrency_length=4096)),
            "the pool (1,000 tokens) is smaller than the context length (4,096)",
        ),
        (
            Told(arm(), BootLog(caching_off="forcing chunked prefill and prefix caching to be disabled.")),
            "the engine turned prefix caching off: forcing",
        ),
        (
            told("vllm-0.32-cpu/b_ngram.log", arm("ngram", settings=ServerSettings(max_running_requests=9))),
            "at most 4 requests run at once, not the 9 asked for",
        ),
        (
            told("vllm-0.32-cpu/b_ngram.log", arm("ngram", settings=ServerSettings(chunked_prefill=4096))),
            "a step takes at most 2048 tokens, not 4096",
        ),
    ],
)
def test_warnings(given: Told, words: str) -> None:
    (warning,) = facts(given).warnings
    assert words in warning


def test_prefix_caching_that_was_not_wanted_is_no_warning() -> None:
    off = Told(arm(settings=ServerSettings(prefix_caching=False)), BootLog(prefix_caching=False))
    found = facts(off)
    assert found.prefix_caching is False
    assert found.warnings == ()


@pytest.mark.parametrize("method", ["synthetic", "fly"])
def test_acceptance_that_is_not_the_drafters_own(method: str) -> None:
    info = {"vllm_config": {"speculative_config": {"method": "ngram", "rejection_sample_method": method}}}
    found = facts(Told(arm("ngram"), info=info))
    assert found.speculation["simulated"] == f"rejection_sample_method={method}"
    assert method in found.warnings[0]


def test_blocks_set_by_number() -> None:
    log = boot_log(
        [
            "(EngineCore pid=1) INFO 11-30 04:13:00 [kv_cache_utils.py:2617] Overriding"
            " num_gpu_blocks=1269 with"
            " num_gpu_blocks_override=70",
            "(Worker pid=2) INFO 11-30 04:13:00 [cpu_worker.py:260] Auto set (0.31/8.84) GiB for KV"
            " cache on node 0.",
        ]
    )
    labels = {
        "num_gpu_blocks": "70",
        "block_size": "128",
        "kv_cache_size_tokens": "8960",
        "cache_dtype": "auto",
    }
    found = facts(Told(arm(model=TINY, settings=ServerSettings(dtype="bfloat16")), log, [labels]))
    assert found.reading("kv_pool_bytes").value == 70 * 128 * 2048
    unknown = facts(Told(arm(), log, [labels])).reading("kv_pool_bytes")
    assert unknown.value == pytest.approx(70 * 128 * 2048, rel=0.02)
    assert unknown.low is not None
    assert unknown.high is not None
    assert unknown.low < 70 * 128 * 2048 < unknown.high


def test_several_engines_have_as_many_blocks() -> None:
    one = {"num_gpu_blocks": "10", "block_size": "16", "kv_cache_size_tokens": "160"}
    found = facts(Told(arm(), cache=[one, one]))
    assert found.reading("kv_pool_blocks").value == 20
    assert found.reading("kv_pool_tokens").value == 320
    assert found.reading("kv_pool_tokens").note != DERIVED


@pytest.mark.parametrize("info", [None, [], "x", {}, {"vllm_config": None}, {"vllm_config": "text"}])
def test_no_server_info(info: Any) -> None:
    assert resolved(info) == {}
    assert speculation_of(info) is None
    assert facts(Told(arm(), info=info)).readings.keys() == {"dropped_blocks"}


def test_secrets_are_not_kept(tmp_path: Path) -> None:
    info = {"vllm_config": {"model_config": {"hf_token": "hf_x", "api_key": "k", "max_model_len": 5}}}
    assert resolved(info) == {"model_config.max_model_len": 5}
