"""Answers of many servers, as public reports show them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kvantage.engines.openai.usage import read_usage
from kvantage.inspection.document import Document
from kvantage.inspection.gather import read_text


def read(answer: Any) -> Document:
    (document,) = read_text("posted", json.dumps(answer))
    return document


def values(document: Document) -> dict[str, float]:
    return {name: one.value for name, one in document.readings.items() if one.value is not None}


@pytest.mark.parametrize(
    ("usage", "prompt", "output", "cached", "reasoning"),
    [
        (
            {"prompt_tokens": 1000, "completion_tokens": 20, "prompt_cache_hit_tokens": 896},
            1000,
            20,
            896,
            None,
        ),
        ({"prompt_tokens": 1000, "completion_tokens": 20, "cached_tokens": 0}, 1000, 20, 0, None),
        ({"input_tokens": 4, "output_tokens": 20, "cache_read_input_tokens": 896}, 900, 20, 896, None),
        (
            {
                "input_tokens": 1000,
                "input_tokens_details": {"cached_tokens": 896},
                "output_tokens": 20,
                "output_tokens_details": {"reasoning_tokens": 12},
            },
            1000,
            20,
            896,
            12,
        ),
        (
            {"prompt_tokens": 1000, "completion_tokens": 20, "prompt_tokens_details": None},
            1000,
            20,
            None,
            None,
        ),
    ],
)
def test_names_of_other_servers(
    usage: dict[str, Any], prompt: int, output: int, cached: int | None, reasoning: int | None
) -> None:
    found = values(read({"object": "response", "usage": usage}))
    assert found["prompt_tokens"] == prompt
    assert found["completion_tokens"] == output
    assert found.get("cached_tokens") == cached
    assert found.get("reasoning_tokens") == reasoning


def test_lm_studio_s_drafts_and_speed() -> None:
    usage = {
        "prompt_tokens": 66,
        "completion_tokens": 300,
        "total_draft_tokens_count": 492,
        "accepted_draft_tokens_count": 176,
        "rejected_draft_tokens_count": 316,
    }
    stats = {"tokens_per_second": 17.92897117267284, "time_to_first_token": 1.162136}
    found = values(read({"choices": [], "usage": usage, "stats": stats}))
    assert found["draft_acceptance_rate"] == pytest.approx(176 / 492)
    assert found["decode_tok_s"] == pytest.approx(17.929, abs=1e-3)
    assert "acceptance_length" not in found
    wrong = read_usage({"usage": usage | {"rejected_draft_tokens_count": 300}})
    assert wrong.drafted_tokens is None
    assert wrong.accepted_tokens is None


def test_ollama_s_own_answer() -> None:
    found = values(
        read(
            {
                "model": "qwen3.5:4b",
                "message": {"role": "assistant", "content": "hi"},
                "done": True,
                "prompt_eval_count": 24,
                "prompt_eval_duration": 964379584,
                "eval_count": 290,
                "eval_duration": 4709213000,
            }
        )
    )
    assert (found["prompt_tokens"], found["completion_tokens"]) == (24, 290)
    assert found["decode_tok_s"] == pytest.approx(290 / 4.709213)


def test_sglang_s_first_count_of_steps_tells_its_own_length() -> None:
    document = read(
        {"text": "x", "meta_info": {"prompt_tokens": 7, "completion_tokens": 64, "spec_verify_ct": 20}}
    )
    assert document.engine == "sglang"
    assert values(document)["acceptance_length"] == pytest.approx(3.2)
    assert "draft_acceptance_rate" not in values(document)


def test_vllm_s_counts_that_are_longer_than_the_output_are_refused_aloud() -> None:
    told = {
        "num_spec_steps": 43,
        "num_accepted_draft_tokens": 10,
        "num_draft_tokens": 129,
        "num_spec_tokens": 3,
    }
    document = read(
        {"usage": {"completion_tokens": 35}, "metrics": {"speculative_decoding": told}, "choices": []}
    )
    assert "drafted_tokens" not in values(document)
    assert any("are refused: 43 steps, 10 of 129 drafts" in warning for warning in document.warnings)


@pytest.mark.parametrize(
    ("stream", "prompt", "output"),
    [
        (
            'data: {"type":"response.created","response":{"id":"r","usage":null}}\n\n'
            'data: {"type":"response.output_text.delta","delta":"Hi"}\n\n'
            'data: {"type":"response.completed",'
            '"response":{"usage":{"input_tokens":10,"output_tokens":3}}}\n\n',
            10,
            3,
        ),
        (
            'data: {"type":"message_start","message":{"usage":{"input_tokens":25,"output_tokens":1}}}\n\n'
            'data: {"type":"message_delta","delta":{},"usage":{"output_tokens":15}}\n\n'
            'data: {"type":"message_stop"}\n\n',
            25,
            15,
        ),
        (
            'data: {"content":"Hel","stop":false,"tokens_predicted":1}\n\n'
            'data: {"content":"","stop":true,"tokens_evaluated":5,'
            '"timings":{"predicted_n":2,"predicted_ms":20.0}}\n\n',
            5,
            2,
        ),
    ],
)
def test_a_stream_in_another_form_did_not_fail(stream: str, prompt: int, output: int) -> None:
    (document,) = read_text("posted", stream)
    assert (values(document)["prompt_tokens"], values(document)["completion_tokens"]) == (prompt, output)
    assert document.details["status"] == "unknown"
    assert not any("failed" in warning for warning in document.warnings)


def test_an_error_line_instead_of_data() -> None:
    stream = 'data: {"choices":[{"index":0,"delta":{"content":"Hello"}}]}\n\n'
    stream += 'error: {"code":500,"message":"boom"}\n\n'
    (document,) = read_text("posted", stream)
    assert document.details["status"] == "failed"
    assert document.details["error_code"] == 500
    assert any("boom" in warning for warning in document.warnings)


def test_an_error_object_is_a_failed_request() -> None:
    (document,) = read_text("posted", '{"object":"error","message":"too long","code":400}')
    assert document.warnings == ("the request failed: too long",)


def test_a_list_of_models_tells_the_context() -> None:
    (document,) = read_text(
        "posted", '{"object":"list","data":[{"id":"m","owned_by":"vllm","max_model_len":40960}]}'
    )
    assert document.engine == "vllm"
    assert values(document)["context_length"] == 40960
