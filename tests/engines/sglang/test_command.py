"""Every arm's command, and SGLang's own parser on each."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from kvantage.core import ArmSettings, HostFacts, ServerSettings, Speculation, UsageError
from kvantage.engines import engine_named
from kvantage.engines.sglang import Sglang
from tests.engines.sglang.flags import Refused, parse

HOST = HostFacts("spark1", "GB10", 20, 128 << 30)
SETTINGS = ServerSettings(
    tensor_parallel_size=2,
    memory_fraction=0.9,
    pool_tokens=2097152,
    kv_dtype="fp8_e4m3",
    dtype="bf16",
    context_length=262144,
    chunked_prefill=4096,
    max_running_requests=4,
    page_size=64,
    prefix_caching=False,
    eager=True,
)
ARMS = {
    "none": Speculation(),
    "ngram": Speculation("ngram", 7),
    "draft_model": Speculation("draft_model", 4, "/drafts/small"),
    "eagle3": Speculation("eagle3", 3, "/drafts/eagle", draft_revision="main"),
    "mtp": Speculation("mtp", 3),
    "dflash": Speculation("dflash", 5, "/drafts/dflash", options={"draft_attention_backend": "flashinfer"}),
}
ALGORITHMS = {
    "none": (None, None, None, None),
    "ngram": ("NGRAM", None, None, 8),
    "draft_model": ("STANDALONE", 4, 1, 5),
    "eagle3": ("EAGLE3", 3, 1, 4),
    "mtp": ("NEXTN", 3, 1, 4),
    "dflash": ("DFLASH", None, None, 6),
}


def arm(speculation: Speculation | None = None, **changes: Any) -> ArmSettings:
    options = {"settings": SETTINGS, "engine_options": {"version": "0.5.23"}, **changes}
    return ArmSettings("arm", "sglang", "model", speculation=speculation or Speculation(), **options)


@pytest.mark.parametrize("version", ["0.5.17", "0.5.23"])
@pytest.mark.parametrize("nodes", [None, 2])
@pytest.mark.parametrize("method", ARMS)
def test_sglangs_parser_accepts_every_command(method: str, nodes: int | None, version: str) -> None:
    wanted = arm(ARMS[method], settings=dataclasses.replace(SETTINGS, nodes=nodes))
    assert Sglang().problems(wanted, HOST) == []
    launch = Sglang().command(wanted, HOST, 30000)
    assert len(launch.per_node) == (nodes or 0)
    for rank, argv in enumerate(launch.per_node or (launch.argv,)):
        assert argv[:3] == ("python3", "-m", "sglang.launch_server")
        told = parse(version, argv[3:])
        assert ALGORITHMS[method] == (
            told.speculative_algorithm,
            told.speculative_num_steps,
            told.speculative_eagle_topk,
            told.speculative_num_draft_tokens,
        )
        assert (told.max_total_tokens, told.context_length) == ("2097152", "262144") or (
            told.max_total_tokens,
            told.context_length,
        ) == (2097152, 262144)
        assert (told.max_running_requests, told.random_seed, told.decode_log_interval) == (4, 0, 1)
        assert (told.min_free_slots_delay, told.sampling_defaults) == (1, "openai")
        assert told.enable_cache_report
        assert told.enable_metrics
        if nodes:
            assert (told.nnodes, told.node_rank, told.dist_init_addr) == (nodes, rank, "spark1:25000")


def test_the_drafters_kv_type_needs_a_recent_version() -> None:
    wanted = arm(Speculation("dflash", 5, "/drafts/dflash", draft_kv_dtype="fp8"))
    argv = Sglang().command(wanted, HOST, 30000).argv[3:]
    assert parse("0.5.23", argv).speculative_draft_kv_cache_dtype == "fp8_e4m3"
    with pytest.raises(Refused, match="draft-kv-cache-dtype"):
        parse("0.5.17", argv)
    older = dataclasses.replace(wanted, engine_options={"version": "0.5.17"})
    [problem] = Sglang().problems(older, HOST)
    assert "0.5.23 has" in problem
    assert "`kv_dtype`" in problem
    unknown = dataclasses.replace(wanted, engine_options={"python": "/elsewhere/python"})
    assert any("0.5.23 or later" in note for note in Sglang().command(unknown, HOST, 30000).notes)


def test_every_arm_runs_as_many_requests_unless_told() -> None:
    for speculation in ARMS.values():
        told = parse(
            "0.5.23", Sglang().command(arm(speculation, settings=ServerSettings()), HOST, 1).argv[3:]
        )
        assert told.max_running_requests == 48


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"settings": ServerSettings(pool_bytes=1 << 30)}, ("pool_bytes", "memory_fraction")),
        ({"settings": ServerSettings(kv_dtype="q8_0")}, ("q8_0", "fp8_e4m3")),
        ({"flags": {"port": 1}}, ("port", "set by kvantage")),
        ({"flags": {"tp": 4}}, ("tp", "both set")),
        (
            {"flags": {"speculative-accept-threshold-single": 0.5}},
            ("accept_threshold_single", "leave it at 1"),
        ),
        ({"env": {"SGLANG_SIMULATE_ACC_LEN": "3"}}, ("SGLANG_SIMULATE_ACC_LEN=3", "fakes acceptance")),
        ({"engine_options": {"pyhton": "x"}}, ("pyhton", "did you mean `python`?")),
        (
            {"speculation": Speculation("mtp", 3, options={"num_step": 1})},
            ("num_step", "did you mean `num-steps`?"),
        ),
        (
            {"settings": ServerSettings(nodes=2), "engine_options": {"dist_init_addr": "spark1"}},
            ("dist_init_addr", "HOST:PORT"),
        ),
    ],
)
def test_what_cannot_be_started_is_refused_with_what_would_work(change: dict, words: tuple[str, ...]) -> None:
    wanted = dataclasses.replace(arm(settings=SETTINGS), **change)
    problems = Sglang().problems(wanted, HOST)
    assert any(all(word in problem for word in words) for problem in problems), problems


def test_a_block_drafter_drafts_one_fewer_than_its_block(tmp_path: Any) -> None:
    (tmp_path / "config.json").write_text('{"dflash_config": {"block_size": 8}}')
    fits, more = (arm(Speculation("dflash", k, str(tmp_path))) for k in (7, 8))
    assert Sglang().problems(fits, HOST) == []
    assert "at most 7" in Sglang().problems(more, HOST)[0]


def test_a_container_may_stand_in_front() -> None:
    wanted = arm(engine_options={"launcher": "docker run --gpus all image python3 -m sglang.launch_server"})
    argv = Sglang().command(wanted, HOST, 30000).argv
    assert argv[:5] == ("docker", "run", "--gpus", "all", "image")
    with pytest.raises(UsageError, match="launcher"):
        Sglang().command(arm(engine_options={"launcher": 7}), HOST, 1)


def test_it_is_registered() -> None:
    assert engine_named("sglang").name == "sglang"
