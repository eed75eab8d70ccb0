"""Logprobs of given tokens, read from each engine's answer in its own shape."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvantage.core import ArmSettings, ScoringError, Server
from kvantage.engines import engine_named
from kvantage.engines.llamacpp import score as llamacpp
from kvantage.engines.scoring import scores_of
from kvantage.engines.sglang import score as sglang
from kvantage.engines.vllm import score as vllm

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=True) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=20), inner, max_size=4),
    max_leaves=12,
)


def vllm_row(**tokens: float) -> dict[str, Any]:
    return {
        name[1:]: {"logprob": value, "rank": 1, "decoded_token": f"<{name[1:]}>"}
        for name, value in tokens.items()
    }


def test_vllm_tells_a_row_a_token_of_the_prompt() -> None:
    rows = [None, vllm_row(t5=-0.1), vllm_row(t7=-0.25, t8=-0.125), vllm_row(t9=-0.5, t1=-0.5)]
    scores = vllm.read_scores({"choices": [{"prompt_logprobs": rows}]}, 2, [7, 9])
    assert scores.gaps == (0.125, 0.0)
    assert scores.best_id == (8, 9)  # of equals the answer's own token comes first
    assert scores.texts[8] == "<8>"
    assert scores.rivals[0] == ((8, -0.125), (7, -0.25))


def test_sglang_tells_triples_aligned_at_the_end() -> None:
    told = {
        "meta_info": {
            "input_token_logprobs": [[None, 3, "a"], [-0.1, 5, "b"], [-0.25, 7, "c"], [-0.5, 9, "d"]],
            "input_top_logprobs": [
                None,
                [[-0.1, 5, "b"]],
                [[-0.125, 8, "x"], [-0.25, 7, "c"]],
                [[-0.5, 9, "d"]],
            ],
        }
    }
    scores = sglang.read_scores(told, 2, [7, 9])
    assert scores.gaps == (0.125, 0.0)
    assert scores.texts[8] == "x"
    with pytest.raises(ScoringError, match="no `input_top_logprobs`"):
        sglang.read_scores({"meta_info": {**told["meta_info"], "input_top_logprobs": None}}, 2, [7, 9])


def test_llamacpp_tells_the_likeliest_of_one_token_at_a_time() -> None:
    row = {
        "top_logprobs": [{"id": 8, "token": "x", "logprob": -0.1}, {"id": 7, "token": "y", "logprob": -2.0}]
    }
    position, texts = llamacpp.read_position({"completion_probabilities": [row]})
    assert position == {8: -0.1, 7: -2.0}
    assert texts == {8: "x", 7: "y"}
    with pytest.raises(ScoringError, match="no `top_logprobs`"):
        llamacpp.read_position({"content": "x"})


def test_token_ids_of_whole_answers() -> None:
    assert vllm.read_ids({"choices": [{"token_ids": [1, 2]}]}) == (1, 2)
    assert sglang.read_ids({"choices": [{"response_token_ids": [1, 2]}]}) == (1, 2)
    rows = [{"id": 4, "logprob": 0.0, "top_logprobs": []}, {"id": 5, "logprob": -0.1}]
    assert llamacpp.read_ids({"choices": [{"logprobs": {"content": rows}}]}) == (4, 5)
    assert engine_named("openai").read_ids({"choices": [{"response_token_ids": [3]}]}) == (3,)
    assert vllm.read_ids({}) is sglang.read_ids({}) is llamacpp.read_ids({}) is None


@given(JSON)
def test_whatever_a_server_says_is_read_or_refused(value: Any) -> None:
    body = value if isinstance(value, dict) else {"choices": [value], "meta_info": value}
    for read in (vllm.read_ids, sglang.read_ids, llamacpp.read_ids):
        read(body)
    for read_scores in (vllm.read_scores, sglang.read_scores):
        with pytest.raises(ScoringError):
            read_scores(body, 2, [1, 2, 3])
    with pytest.raises(ScoringError):
        llamacpp.read_position({"completion_probabilities": value})


def test_scores_that_do_not_fit_the_answer_are_refused() -> None:
    with pytest.raises(ScoringError, match="scored 1 of 2 tokens"):
        scores_of([1, 2], [{1: -0.5}])
    with pytest.raises(ScoringError, match="no logprob of the answer's token 1"):
        scores_of([1, 2], [{1: -0.5}, {3: -0.5}])


async def test_a_simulated_server_has_no_model_to_ask() -> None:
    server = Server(
        ArmSettings("none", "sim", "m", engine_options={"like": "vllm"}), "http://127.0.0.1:1", "none"
    )
    with pytest.raises(ScoringError, match="simulated"):
        await engine_named("sim").score(server, [], [], [1])
