"""The server's counts of one response."""

import copy
import json
from typing import Any

import pytest

from kvantage.core import Usage
from kvantage.engines.vllm.usage import read_usage
from tests.engines.vllm.data import cases, text


def merged(stream: str) -> dict[str, Any]:
    """The chunks of a captured stream, later fields over earlier ones."""
    final: dict[str, Any] = {}
    for line in text(stream).splitlines():
        data = line.partition("data: ")[2]
        if data and data != "[DONE]":
            final |= {name: value for name, value in json.loads(data).items() if value is not None}
    return final


def test_null_is_not_zero() -> None:
    case = cases()["usage-cached-tokens-null"]
    for response, expected in zip(case["input"], case["expected"], strict=True):
        usage = read_usage(response)
        assert usage.cached_tokens == expected["cached"]
        assert usage.prompt_tokens == 50000
        if "hit" in expected:
            assert usage.cached_tokens is not None
            assert usage.cached_tokens / usage.prompt_tokens == pytest.approx(expected["hit"], abs=1e-4)


def test_per_request_speculation() -> None:
    case = cases()["vllm-per-request-spec-metrics"]
    usage = read_usage(case["input"])
    expected = case["expected"]
    assert usage.spec_steps == expected["steps"]
    assert usage.accepted_tokens == expected["accepted"]
    assert usage.drafted_tokens == expected["drafted"]
    assert usage.acceptance_histogram is not None
    steps, histogram = usage.spec_steps, usage.acceptance_histogram
    assert len(histogram) - 1 == expected["k"]
    assert 1 + usage.accepted_tokens / steps == pytest.approx(
        expected["acceptance_length_incl_bonus"], abs=1e-4
    )
    assert usage.accepted_tokens / usage.drafted_tokens == pytest.approx(expected["accept_rate"], abs=1e-4)
    survival = [sum(histogram[i:]) / steps for i in range(1, len(histogram))]
    assert survival == pytest.approx(expected["survival"], abs=1e-4)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("num_spec_steps", 44),
        ("num_accepted_draft_tokens", 11),
        ("num_accepted_draft_tokens", 130),
        ("num_draft_tokens", 9),
        ("num_draft_tokens", 130),
        ("acceptance_histogram", [39, 1, 0, -3]),
        ("acceptance_histogram", [39, 1, 0, 3.5]),
        ("acceptance_histogram", [39, 1, None, 3]),
        ("num_spec_steps", None),
        ("num_spec_steps", True),
        ("num_draft_tokens", "129"),
    ],
)
def test_a_broken_identity_refuses_all_of_it(field: str, value: object) -> None:
    response = copy.deepcopy(cases()["vllm-per-request-spec-metrics"]["input"])
    response["metrics"]["speculative_decoding"][field] = value
    response["usage"] = {"prompt_tokens": 5, "completion_tokens": 60}
    usage = read_usage(response)
    assert usage == Usage(prompt_tokens=5, output_tokens=60)


def test_more_emitted_than_there_is_output_is_refused() -> None:
    response = copy.deepcopy(cases()["vllm-per-request-spec-metrics"]["input"])
    response["usage"] = {"completion_tokens": 50}  # 43 steps + 10 accepted - 3 of a cut block
    assert read_usage(response).spec_steps == 43
    response["usage"] = {"completion_tokens": 49}
    assert read_usage(response).spec_steps is None


def test_counts_without_a_histogram_are_kept() -> None:
    response = copy.deepcopy(cases()["vllm-per-request-spec-metrics"]["input"])
    response["metrics"]["speculative_decoding"]["acceptance_histogram"] = None
    usage = read_usage(response)
    assert (usage.spec_steps, usage.accepted_tokens, usage.acceptance_histogram) == (43, 10, None)


def test_captured_stream_with_a_draft_model() -> None:
    usage = read_usage(merged("vllm-0.32-cpu/c_noisy_f32.chat_stream.txt"))
    assert usage == Usage(
        prompt_tokens=551,
        output_tokens=24,
        cached_tokens=512,
        accepted_tokens=18,
        drafted_tokens=21,
        spec_steps=7,
        acceptance_histogram=(0, 1, 1, 5),
    )


def test_captured_stream_without_per_request_counts() -> None:
    usage = read_usage(merged("vllm-0.32-cpu/b_ngram.chat_stream.txt"))
    assert usage == Usage(prompt_tokens=551, output_tokens=24, cached_tokens=512)


@pytest.mark.parametrize(("name", "cached"), [("cold", 0), ("warm", 1920)])
@pytest.mark.parametrize("run", ["b_ngram", "c_noisy_f32"])
def test_captured_responses(run: str, name: str, cached: int) -> None:
    usage = read_usage(json.loads(text(f"vllm-0.32-cpu/{run}.{name}.json")))
    assert (usage.prompt_tokens, usage.output_tokens, usage.cached_tokens) == (2000, 32, cached)
    assert usage.queue_s is None


def test_queue_time() -> None:
    assert read_usage({"metrics": {"queue_time_ms": 12.5}}).queue_s == 0.0125
    assert read_usage({"metrics": {"queue_time_ms": -1}}).queue_s is None
    assert read_usage({"metrics": {"queue_time_ms": float("nan")}}).queue_s is None
