"""llama.cpp's lines of old and new builds and of its forks, as public reports show them."""

from __future__ import annotations

import pytest

from kvantage.engines.numbers import MIB
from kvantage.inspection.document import Document
from kvantage.inspection.gather import read_text

EXAMPLE = """\
generated 129 tokens in 248.340 seconds, speed: 0.519 t/s

n_draft   = 8
n_predict = 129
n_drafted = 132
n_accept  = 47
accept    = 35.606%

draft:

llama_print_timings:  eval time = 27360.44 ms / 214 runs (127.85 ms per token, 7.82 tokens per second)

target:

llama_print_timings:  eval time = 25460.44 ms / 90 runs (282.89 ms per token, 3.53 tokens per second)
"""


def read(text: str) -> Document:
    (document,) = read_text("posted", text)
    assert document.engine == "llamacpp"
    return document


def values(document: Document) -> dict[str, float]:
    return {name: one.value for name, one in document.readings.items() if one.value is not None}


def test_the_example_s_runs_of_each_context_are_no_requests() -> None:
    found = values(read(EXAMPLE))
    assert found["completion_tokens"] == 129
    assert found["decode_tok_s"] == pytest.approx(0.519)
    assert (found["accepted_tokens"], found["drafted_tokens"]) == (47, 132)
    assert "acceptance_length" not in found


def test_a_run_without_a_drafter_still_tells_its_speed() -> None:
    line = "llama_perf_context_print:        eval time =    2502.93 ms /   231 runs   ("
    found = values(read(f"llama_kv_cache: n_ctx\n{line}   10.84 ms per token,    92.29 tokens per second)"))
    assert found["decode_tok_s"] == pytest.approx(92.29)


def test_a_latent_cache_of_a_fork() -> None:
    line = (
        "llama_new_context_with_model: KV self size  = 5833.12 MiB, c^KV (q8_0): 5833.12 MiB, kv^T: not used"
    )
    found = values(read(f"llama_new_context_with_model: n_ctx      = 163840\n{line}"))
    assert found["kv_pool_bytes"] == pytest.approx(5833.12 * MIB)
    assert found["kv_pool_tokens"] == 163_840


DOCUMENTED = """\
draft acceptance rate = 0.57576 (  171 accepted /   297 generated)
statistics ngram_simple: #calls = 15, #gen drafts = 5, #acc drafts = 5, #gen tokens = 187, #acc tokens = 73
statistics draft: #calls = 10, #gen drafts = 10, #acc drafts = 10, #gen tokens = 110, #acc tokens = {}
"""


def test_statistics_that_end_in_a_count_are_believed_where_they_add_up() -> None:
    found = values(read(DOCUMENTED.format(98)))
    assert found["spec_steps"] == 15
    assert found["acceptance_length"] == pytest.approx(1 + 171 / 15)
    cut = values(read(DOCUMENTED.format(9)))
    assert "acceptance_length" not in cut
    assert cut["accepted_tokens"] == 171
    alone = values(read(DOCUMENTED.format(98).partition("\n")[2]))
    assert "acceptance_length" not in alone


def test_no_draft_accepted_is_a_length_of_one_and_a_dead_drafter() -> None:
    line = "draft acceptance = 0.00000 (    0 accepted /    90 generated), mean acceptance length =  1.00"
    document = read(
        f"slot print_timing: id  0 | task 0 | {line}, acceptance rate per position = (0.000, 0.000)"
    )
    assert values(document)["acceptance_length"] == 1.0
    assert any(warning.startswith("dead drafter") for warning in document.warnings)


@pytest.mark.parametrize(
    "counts", ["1.33333 (    4 accepted /     3 generated)", "0.50000 (171 accepted / 297 generated)"]
)
def test_counts_that_are_not_the_printed_rate_are_refused(counts: str) -> None:
    document = read(f"draft acceptance rate = {counts}")
    assert not {"accepted_tokens", "drafted_tokens", "draft_acceptance_rate"} & values(document).keys()
    assert any("are refused" in warning for warning in document.warnings)


def test_made_up_acceptance_in_a_command() -> None:
    document = read("llama-server -m x.gguf --spec-synthetic-acceptance-length 3")
    assert any("simulated acceptance" in warning for warning in document.warnings)
