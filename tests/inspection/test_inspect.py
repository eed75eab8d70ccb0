"""`kvantage inspect` on every capture and on the cases, through its documented JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner

from kvantage.cli import cli
from kvantage.inspection import NAMES
from tests.engines.cases import DATA, case

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "schema" / "inspect.schema.json").read_text())
CAPTURES = sorted(DATA.glob("captures/*/*"))


def inspect(*paths: Path) -> dict[str, Any]:
    result = CliRunner().invoke(cli, ["inspect", *map(str, paths), "--json"])
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.output)
    jsonschema.validate(found, SCHEMA)
    return found


def written(folder: Path, name: str, given: Any) -> Path:
    path = folder / name
    if isinstance(given, list) and all(isinstance(line, str) for line in given):
        given = "\n".join(given)
    path.write_text(given if isinstance(given, str) else json.dumps(given), encoding="utf-8")
    return path


def warned(found: dict[str, Any], *words: str) -> bool:
    return any(all(word in warning for word in words) for warning in found["warnings"])


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_capture_is_recognised(path: Path) -> None:
    engine = path.parent.name.partition("-")[0]
    if path.name.startswith("help_") or path.name.endswith((".version.json", "bad_unknown.txt")):
        return
    found = inspect(path)
    [document] = found["documents"]
    if path.name != "ctx_exceeded.json":
        assert found["engine"] == engine
    kinds = {
        ".log": "log",
        "metrics": "metrics",
        "stream": "stream",
        "server_info": "server",
        "props": "server",
    }
    wanted = next((kind for mark, kind in kinds.items() if mark in path.name), document["kind"])
    assert document["kind"] == wanted
    if path.suffix == ".log" and path.name != "dflash-fp8.log":
        assert found["kv_pool_tokens"] is not None
    if wanted in ("stream", "response") and not path.name.startswith("ctx"):
        assert found["prompt_tokens"] > 0
        assert found["completion_tokens"] > 0
        assert found["cached_tokens"] is not None
    if wanted == "metrics":
        assert found["queue_depth"] == 0


def test_a_boot_log_whose_limit_was_not_granted(tmp_path: Path) -> None:
    given, expected = case("sglang-effective-vs-requested")
    found = inspect(written(tmp_path, "boot.log", given))
    assert found["engine"] == "sglang"
    assert found["requested_max_running"] == expected["requested"]
    assert found["effective_max_running"] == expected["effective_max_running"]
    assert found["kv_pool_tokens"] == expected["max_total_num_tokens"]
    assert warned(found, "rows at concurrency 8 measured a queue: the server ran 6")


def test_a_state_cache_cap_with_the_wish_beside_it(tmp_path: Path) -> None:
    given, _ = case("sglang-mamba-cap")
    asked = "server_args=ServerArgs(model_path='m', max_running_requests=8, port=1)"
    found = inspect(written(tmp_path, "boot.log", [asked, given[0]]))
    assert (found["requested_max_running"], found["effective_max_running"]) == (8, 2)
    assert warned(found, "rows at concurrency 8 measured a queue: the server ran 2")


def test_two_engines_in_one_post(tmp_path: Path) -> None:
    given, expected = case("sglang-vs-vllm-pool")
    found = inspect(written(tmp_path, "post.txt", given))
    assert found["engine"] is None
    cost = {d["engine"]: d["readings"]["kv_bytes_per_token"]["value"] for d in found["documents"]}
    assert cost["vllm"] == pytest.approx(expected["vllm_bytes_per_token"], abs=1)
    assert cost["sglang"] == pytest.approx(expected["sglang_bytes_per_token"], abs=1)
    assert found["kv_pool_tokens"] is None
    assert warned(found, "per-token cost equal", "different budgets")


@pytest.mark.parametrize("name", ["sglext-spec-details", "vllm-per-request-spec-metrics"])
def test_speculation_of_one_response(tmp_path: Path, name: str) -> None:
    given, expected = case(name)
    found = inspect(written(tmp_path, "answer.json", given))
    length = expected.get("accept_len_incl_bonus", expected.get("acceptance_length_incl_bonus"))
    assert found["acceptance_length"] == pytest.approx(length, abs=1e-4)
    assert found["draft_acceptance_rate"] == pytest.approx(expected["accept_rate"], abs=1e-4)
    assert found["draft_tokens_per_step"] == expected["k"]
    survival = expected.get("per_position_rate", expected.get("survival"))
    assert found["per_position_acceptance"] == pytest.approx(survival, abs=1e-4)
    assert found["cached_tokens"] is None
    assert "not zero" in found["readings"]["cached_tokens"]["missing"]


def test_cached_tokens_that_are_not_reported(tmp_path: Path) -> None:
    given, expected = case("usage-cached-tokens-null")
    for one, right in zip(given, expected, strict=True):
        found = inspect(written(tmp_path, "answer.json", one))
        assert found["cached_tokens"] == right["cached"]
        assert found["prompt_tokens"] == 50000


def test_llamacpp_timings(tmp_path: Path) -> None:
    given, expected = case("llamacpp-timings-chunk")
    found = inspect(written(tmp_path, "answer.json", {"timings": given}))
    assert found["decode_tok_s"] == pytest.approx(expected["tok_s"], abs=1e-3)
    assert found["draft_acceptance_rate"] == pytest.approx(expected["accept_rate"], abs=1e-4)
    assert found["acceptance_length"] == pytest.approx(expected["accept_len_estimate"], abs=1e-4)
    assert warned(found, "the prompt came from the cache")
    given, expected = case("timings-accepted-exceeds-predicted")
    found = inspect(written(tmp_path, "answer.json", {"timings": given}))
    assert found["acceptance_length"] == expected["accept_len_delivered"]
    assert warned(found, "cut inside a draft", f"{expected['accept_len_drafter']:.2f}")


STREAMS = [
    "sse-crlf-nospace",
    "sse-empty-choices-usage",
    "sse-ping-comments",
    "sse-reasoning-rename",
    "sse-u2028",
]


@pytest.mark.parametrize("name", STREAMS)
def test_streams_as_posted(tmp_path: Path, name: str) -> None:
    given, expected = case(name)
    path = tmp_path / "stream.txt"
    text = given if isinstance(given, str) else "\n".join(given)
    path.write_bytes(text.encode())
    found = inspect(path)
    details = found["documents"][0]["details"]
    assert details["status"] == "ok"
    assert details["content"] == expected.get("content", expected.get("text_content", details["content"]))
    assert details["reasoning"] == expected.get("text_reasoning", "")
    assert found["completion_tokens"] == expected.get("completion_tokens")
    assert details["comments"] == expected.get("comments", 0)


def test_a_stream_that_fails_inside_a_200(tmp_path: Path) -> None:
    given, expected = case("sse-error-in-200")
    found = inspect(written(tmp_path, "stream.txt", given))
    details = found["documents"][0]["details"]
    assert (details["status"], details["error_code"]) == (expected["request_status"], expected["error_code"])
    assert details["content"] == expected["partial_text"]
    assert warned(found, "counts in no throughput")


def test_bytes_split_inside_a_character(tmp_path: Path) -> None:
    given, expected = case("sse-utf8-split")
    path = tmp_path / "stream.txt"
    path.write_bytes(b"".join(bytes.fromhex(chunk) for chunk in given["hex_chunks"]))
    assert inspect(path)["documents"][0]["details"]["content"] == expected["content"]


def test_a_timed_capture_has_a_first_token() -> None:
    found = inspect(DATA / "captures/llamacpp-b10434/draft-self_chat_stream.txt")
    assert found["ttft_s"] == pytest.approx(0.1348, abs=1e-4)
    assert found["decode_tok_s"] == pytest.approx(12.62, abs=0.01)


def test_reasoning_that_ate_the_budget(tmp_path: Path) -> None:
    message = {"content": "", "reasoning_content": "x" * 2600}
    answer = {
        "choices": [{"message": message, "finish_reason": "length"}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 600},
    }
    assert warned(inspect(written(tmp_path, "answer.json", answer)), "no answer, only reasoning", "void")


def test_one_server_in_several_files() -> None:
    folder = DATA / "captures/llamacpp-b10434"
    names = (
        "srv_draft-self.log",
        "draft-self_metrics.txt",
        "draft-self_props.txt",
        "draft-self_long_warm.json",
    )
    found = inspect(*(folder / name for name in names))
    assert found["engine"] == "llamacpp"
    assert found["engine_version"] == "b1-7e4c0a9"
    assert found["kv_pool_tokens"] == 8192
    assert found["readings"]["acceptance_length"]["source"] == "counter delta"
    assert found["acceptance_length"] == pytest.approx(1 + 153 / 41)
    assert found["readings"]["cached_tokens"]["source"] == "request"


def test_files_that_disagree_are_left_open() -> None:
    folder = DATA / "captures/sglang-0.5.17-h200"
    found = inspect(folder)
    assert len(found["documents"]) == 4
    assert found["kv_pool_tokens"] is None
    assert found["effective_max_running"] == 4
    assert warned(found, "the files differ in", "kv_pool_tokens")


def test_a_server_info_of_several_replicas(tmp_path: Path) -> None:
    given, _ = case("sglang-dp-accept-null")
    states = [
        {"effective_max_running_requests_per_dp": 8, **({"avg_spec_accept_length": length} if length else {})}
        for length in given["internal_states_avg_spec_accept_length"]
    ]
    info = {"speculative_algorithm": "EAGLE", "max_running_requests": 64, "internal_states": states}
    found = inspect(written(tmp_path, "server_info.json", info))
    assert found["acceptance_length"] is None
    assert warned(found, "acceptance length: unknown")
    assert found["effective_max_running"] == 48
    assert warned(found, "rows at concurrency 64 measured a queue: the server ran 48")


def test_a_config(tmp_path: Path) -> None:
    config = {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "num_hidden_layers": 8,
        "num_attention_heads": 16,
        "num_key_value_heads": 4,
        "head_dim": 64,
        "hidden_size": 1024,
        "dtype": "bfloat16",
    }
    found = inspect(written(tmp_path, "config.json", config))
    assert found["kv_bytes_per_token"] == 2 * 8 * 4 * 64 * 2
    assert found["engine"] is None
    strange = inspect(written(tmp_path, "config.json", {**config, "model_type": "x", "architectures": ["X"]}))
    assert strange["kv_bytes_per_token"] is None
    assert strange["warnings"]


def test_every_documented_name_is_there() -> None:
    found = inspect(DATA / "captures/sglang-0.5.17-h200/s-none.log")
    assert set(NAMES) <= found.keys()
    assert found["acceptance_length"] is None
    text = (ROOT / "docs" / "inspect.md").read_text()
    for name in (*NAMES, "per_position_acceptance", "engine_version", "warnings"):
        assert f"`{name}`" in text
        assert name in SCHEMA["properties"]


def test_what_is_not_known_and_not_there(tmp_path: Path) -> None:
    path = written(tmp_path, "poem.txt", "roses are red")
    result = CliRunner().invoke(cli, ["inspect", str(path)])
    assert "nothing in" in str(result.exception)
    missing = CliRunner().invoke(cli, ["inspect", str(tmp_path / "none.log")])
    assert "there is no" in str(missing.exception)


def test_text_shows_sources_and_warnings() -> None:
    path = DATA / "captures/llamacpp-b10434/deg_md-only.log"
    result = CliRunner().invoke(cli, ["inspect", str(path)])
    assert "llamacpp b1-7e4c0a9 log" in result.output
    assert "(config" in result.output
    assert "! speculation is off, and the server serves all the same" in result.output


@pytest.mark.parametrize(
    ("text", "engine"),
    [
        ("SGLANG_SIMULATE_ACC_LEN=3\nSGLANG_SIMULATE_ACC_METHOD=match-expected\n", "sglang"),
        ("llama-server -m model.gguf --spec-type draft-simple --spec-synth-len 3\n", "llamacpp"),
    ],
)
def test_an_environment_or_a_command_that_makes_acceptance_up(tmp_path: Path, text: str, engine: str) -> None:
    found = inspect(written(tmp_path, "env.txt", text))
    assert found["engine"] == engine
    assert warned(found, "simulated acceptance")


def test_two_dumps_of_one_server_are_a_difference() -> None:
    folder = DATA / "captures/vllm-0.32-cpu"
    before, after = (folder / f"b_ngram.metrics{n}.txt" for n in (0, 1))
    found = inspect(after, before)
    whole = inspect(after)
    assert found["readings"]["completion_tokens"]["note"] == "between the two dumps"
    assert 0 < found["completion_tokens"] <= whole["completion_tokens"]
    assert found["acceptance_length"] == pytest.approx(1 + found["accepted_tokens"] / found["spec_steps"])
    assert len(found["per_position_acceptance"]) == 4
    assert found["queue_depth"] == 0
    assert found["warnings"] == []
