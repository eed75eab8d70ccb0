"""Pools against those that servers printed, the worked example, and the arithmetic's own laws."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvantage.core import ServerSettings, Speculation, UsageError
from kvantage.planner.drafts import drafter_of
from kvantage.planner.measured import Compared, compare
from kvantage.planner.memory import GIB, Demand, Left, Rank, draft_logit_bytes, smallest
from kvantage.planner.pools import find, llamacpp, predict, sglang, vllm

from .cases import CONFIGS, DATA, case, config, geometry, model

ROWS = compare(DATA / "pools.yaml", CONFIGS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_measured_pools(row: Compared) -> None:
    assert abs(row.error) <= (0.01 if row.known else 0.03)


def test_printed_pools_of_the_cpu_are_exact() -> None:
    exact = {row.name for row in ROWS if row.error == 0}
    assert {"cpu-mla-none", "cpu-mla-mtp", "cpu-mla-dflash", "cpu-eagle3-f32", "cpu-draft-fp8"} <= exact


def flash(method: str = "none", tp: int = 2, **given: Any) -> Demand:
    speculation = Speculation()
    if method == "mtp":
        speculation = Speculation(method="mtp", drafts=3)
    elif method != "none":
        dtype = method.removeprefix("dflash-")
        speculation = Speculation(method="dflash", drafts=7, draft="d", draft_kv_dtype=dtype)
    given = {"max_running_requests": 48, **given}
    return Demand(
        model("glm-5.3-flash"),
        ServerSettings(tensor_parallel_size=tp, **given),
        speculation,
        drafter_of(config("glm-5.3-flash-dflash2")) if "dflash" in method else None,
    )


@pytest.mark.parametrize(
    ("method", "tp", "rest", "tokens", "cap"),
    [
        ("none", 8, 60, 2_917_376, None),
        ("none", 4, 40, 1_944_832, None),
        ("none", 2, 20, 977_152, 27),
        ("mtp", 8, 60, 3_459_840, None),
        ("mtp", 4, 40, 1_931_264, None),
        ("mtp", 2, 20, 913_152, 14),
        ("dflash-bf16", 8, 60, 2_894_336, None),
        ("dflash-bf16", 4, 40, 1_152_000, None),
        ("dflash-bf16", 2, 20, 423_936, 9),
        ("dflash-fp8", 8, 60, 3_328_000, None),
        ("dflash-fp8", 4, 40, 1_452_288, None),
        ("dflash-fp8", 2, 20, 599_296, 9),
    ],
)
def test_worked_example_of_a_hybrid(method: str, tp: int, rest: int, tokens: int, cap: int | None) -> None:
    pool = sglang.predict(flash(method, tp), rest * GIB)
    assert pool.tokens == tokens
    assert pool.block_tokens == 256
    if cap:
        assert pool.max_running == cap
        assert pool.capped_by == "the state cache"


def test_speculation_can_enlarge_the_pool_of_a_hybrid() -> None:
    plain, mtp = (sglang.predict(flash(name, 8), 60 * GIB).tokens for name in ("none", "mtp"))
    assert mtp > plain


def test_case_draft_logit_buffer() -> None:
    row = case("kv-draft-logit-buffer")
    given, want = row["input"], row["expected"]
    size = draft_logit_bytes(given["slots"], given["k"], given["vocab"], given["bytes"])
    assert size == want["buffer_bytes"] == given["torch_alloc_prob"] - given["torch_alloc_greedy"]
    assert round(size / 2**20, 2) == want["mib"]


def test_the_smallest_rank_binds() -> None:
    for pair in case("kv-pool-min-over-ranks")["input"]:
        ranks = [Rank(100 * GIB, int(pair[f"rank{i}_gib"] * GIB), 0) for i in (0, 1)]
        assert smallest(ranks).free == int(min(pair["rank0_gib"], pair["rank1_gib"]) * GIB)
    with pytest.raises(UsageError):
        smallest([])


def test_a_pool_line_with_its_size_in_bytes() -> None:
    row = case("sglang-mla-kv-size")
    per_token = model("kimi-linear-48b").kv_bytes_per_token(flash().kv)
    for size, tokens in zip(row["expected"]["kv_gb"], (1_912_896, 1_226_984), strict=True):
        assert abs(tokens * per_token / GIB - size) < 0.01


def test_windowed_pools_share_the_memory_by_their_ratio() -> None:
    demand = Demand(model("gemma-3-4b"), ServerSettings())
    pool = sglang.predict(demand, 10 * GIB)
    assert pool.token_bytes == 20480 + int(0.8 * 29 * 4096)
    fewer = sglang.predict(replace(demand, flags={"swa-full-tokens-ratio": 0.5}), 10 * GIB)
    assert fewer.tokens > pool.tokens


def test_llamacpp_allocates_what_its_log_says() -> None:
    demand = Demand(model("gemma-3-270m"), ServerSettings(context_length=8192))
    assert llamacpp.cache_bytes(demand, 8192) == (24 + 15) * 2**20
    pool = predict("llamacpp", demand, Left.exactly(GIB)).at
    assert pool.tokens == 8192
    short = predict("llamacpp", demand, Left.exactly(20 * 2**20)).at
    assert short.tokens < 8192
    assert short.capped_by is not None
    quantised = replace(demand, settings=ServerSettings(context_length=8192, kv_dtype="q8_0"))
    assert llamacpp.cache_bytes(quantised, 8192) == (24 + 15) * 2**20 * 34 // 64


def test_ceilings_and_pinned_bytes() -> None:
    demand = Demand(model("captured-qwen3"), ServerSettings(pool_tokens=1000, pool_bytes=GIB))
    pool = predict("vllm", demand, [Rank(140 * GIB, 139 * GIB, 0)])
    assert (pool.at.tokens, pool.at.capped_by) == (992, "the ceiling asked for")
    assert pool.left.known
    assert sglang.predict(flash(pool_tokens=100_000), 20 * GIB).tokens == 99_840


def test_tokens_of_a_mixed_model_are_derived_from_its_longest_request() -> None:
    demand = Demand(model("gemma-3-4b"), ServerSettings(context_length=8192))
    pool = vllm.predict(demand, 10 * GIB)
    assert pool.blocks is not None
    assert pool.per_request_blocks is not None
    assert pool.tokens == int(pool.blocks / pool.per_request_blocks * 8192)
    assert "derived" in pool.notes[0]
    longer = vllm.predict(replace(demand, settings=ServerSettings(context_length=65536)), 10 * GIB)
    assert longer.tokens > pool.tokens


def test_a_state_fits_a_block_of_a_mixed_model() -> None:
    target = model("qwen3-next-80b-a3b")
    pool = vllm.predict(Demand(target, ServerSettings(context_length=262144)), 40 * GIB)
    state = target.state_layers[0].state
    assert state is not None
    assert pool.block_tokens * 2048 >= state.bytes()


def test_an_arm_that_cannot_draft_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match="Qwen3ForCausalLM"):
        Demand(model("captured-qwen3"), speculation=Speculation(method="mtp", drafts=1)).draft_bytes()
    with pytest.raises(UsageError, match="dflash"):
        Demand(model("captured-qwen3"), speculation=Speculation("dflash", 5, "x")).draft_bytes()
    with pytest.raises(UsageError, match="tensorrt"):
        find("tensorrt")
    with pytest.raises(UsageError, match="recurrent"):
        sglang.predict(Demand(model("kimi-k3")), GIB)


def test_derived_memory_has_a_range_and_the_fraction_is_the_engines_own_where_none_is_given() -> None:
    demand = Demand(model("qwen3-8b"), ServerSettings())
    ranks = [Rank(int(139.8 * GIB), 139 * GIB, 16 * GIB, free_low=138 * GIB)]
    for engine in ("vllm", "sglang", "llamacpp"):
        found = predict(engine, demand, ranks)
        assert found.left.low <= found.left.bytes <= found.left.high
        assert found.tokens().source == "predicted"
        assert found.bytes().value == found.at.kv_bytes
    assert round(sglang.default_fraction(140 * GIB, None, 1), 3) == 0.929


@given(rest=st.integers(0, 80), kind=st.sampled_from(["none", "mtp", "dflash-bf16", "dflash-fp8"]))
def test_a_pool_never_exceeds_its_memory(rest: int, kind: str) -> None:
    pool = sglang.predict(flash(kind), rest * GIB)
    assert pool.tokens % 256 == 0
    assert pool.kv_bytes + pool.draft_pool_bytes + pool.state_bytes <= max(rest * GIB, pool.state_bytes)
    assert pool.tokens <= pool.ideal_tokens or pool.tokens == 0


@given(
    rest=st.integers(1, 10**11),
    heads=st.integers(1, 16),
    dtype=st.sampled_from(["bf16", "fp8_e4m3", "fp32", "nvfp4"]),
    engine=st.sampled_from(["vllm", "sglang"]),
)
def test_more_memory_never_gives_fewer_tokens(rest: int, heads: int, dtype: str, engine: str) -> None:
    target = geometry(
        {"num_hidden_layers": 4, "hidden_size": 64 * heads, "num_attention_heads": heads, "head_dim": 64}
    )
    demand = Demand(target, ServerSettings(kv_dtype=dtype))
    one, two = (predict(engine, demand, Left.exactly(size)).at for size in (rest, rest * 2))
    assert one.tokens <= two.tokens
    assert one.kv_bytes <= rest


def test_a_cache_follows_the_dtype_that_the_model_is_served_in() -> None:
    """Seen on vLLM: the toy in float32 holds 15,360 tokens where it holds 30,720 in BF16."""
    plain = Demand(model("captured-qwen3"), ServerSettings())
    wide = Demand(model("captured-qwen3"), ServerSettings(dtype="float32"))
    assert wide.target_bytes() == 2 * plain.target_bytes()
    assert (
        Demand(model("captured-qwen3"), ServerSettings(dtype="auto")).target_bytes() == plain.target_bytes()
    )
    both = Demand(model("captured-qwen3"), ServerSettings(dtype="float32", kv_dtype="fp8_e5m2"))
    assert 2 * both.target_bytes() == plain.target_bytes()
