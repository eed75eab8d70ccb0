"""The log's windows of throughput and acceptance."""

import itertools

import pytest

from kvantage.engines.vllm.log import read_log
from kvantage.engines.vllm.windows import windows
from tests.engines.vllm.data import cases, lines


def test_a_dead_drafter_of_one_draft() -> None:
    case = cases()["vllm-log-v1-k1"]
    (window,) = windows(case["input"])
    expected = case["expected"]
    assert window["accepted_tokens"] == expected["accepted"]
    assert window["drafted_tokens"] == expected["drafted"]
    assert window["drafts"] == expected["drafts"]
    assert window["acceptance_length"] == pytest.approx(expected["accept_len_incl_bonus"], abs=1e-4)
    assert window["draft_acceptance_rate"] == pytest.approx(expected["draft_accept_rate"], abs=1e-4)
    assert window["window_s"] == pytest.approx(expected["window_s"], abs=0.01)
    assert window["emitted_tokens"] == expected["emitted_tokens_in_window"]
    assert window["position_0"] == expected["per_position"][0]
    assert window["engine"] == int(expected["engine"])
    assert window["generation_tok_s"] == expected["gen_tps"]
    assert window["running"] == expected["running"]
    assert window["pool_usage"] == pytest.approx(expected["kv_usage"])


def test_counts_reproduce_the_throughput() -> None:
    case = cases()["vllm-log-sustained-crosscheck"]
    (window,) = windows(case["input"])
    expected = case["expected"]
    assert window["drafts"] == expected["drafts"]
    assert window["acceptance_length"] == pytest.approx(expected["accept_len_incl_bonus"], abs=1e-4)
    assert window["emitted_tokens"] == expected["emitted"]
    assert window["window_s"] == pytest.approx(expected["window_s"], abs=1e-3)
    assert window["generation_tok_s"] == expected["gen_tps"]
    assert window["emitted_tokens"] / window["window_s"] == pytest.approx(expected["emitted_per_s"], abs=0.1)
    assert 1000 * window["window_s"] / window["drafts"] == pytest.approx(
        expected["ms_per_verify_step"], abs=0.01
    )
    survival = [1.0, *(window[f"position_{i}"] for i in range(7))]
    conditional = [after / before for before, after in itertools.pairwise(survival)]
    assert conditional == pytest.approx(expected["conditional_accept"], abs=1e-3)


def test_windows_are_pooled_by_counts() -> None:
    case = cases()["vllm-log-saturated"]
    found = windows(case["input"])
    for window, expected in zip(found, case["expected"]["windows"], strict=True):
        assert window["drafts"] == expected["drafts"]
        assert window["emitted_tokens"] == expected["emitted"]
        assert window["window_s"] == pytest.approx(expected["window_s"], abs=0.01)
    readings = read_log(case["input"])
    assert readings.readings["acceptance_length"].value == case["expected"]["pooled_accept_len"]
    assert any("every draft was accepted" in warning for warning in readings.warnings)


def test_v0_counts_emitted_tokens() -> None:
    case = cases()["vllm-log-v0-d"]
    (window,) = windows([case["input"]])
    expected = case["expected"]
    assert window["drafts"] == expected["verify_steps"]
    assert window["acceptance_length"] == expected["accept_len_incl_bonus"]
    assert (
        window["emitted_tokens"] / (window["drafts"] * (expected["k"] + 1)) == expected["system_efficiency"]
    )
    assert "accepted_tokens" not in window  # V0's is not prefix-based


def test_a_shortened_and_broken_line() -> None:
    case = cases()["vllm-log-zero-accept"]
    (window,) = windows(case["input"])
    expected = case["expected"]
    assert window["acceptance_length"] == expected["accept_len_incl_bonus"]
    assert window["accepted_tokens"] == expected["accepted"]
    assert window["drafted_tokens"] == expected["drafted"]
    assert window["drafts"] == expected["drafts"]
    assert window["position_4"] == 0.0
    assert "position_5" not in window
    [warning] = read_log(case["input"]).warnings
    assert warning.startswith("dead drafter: acceptance length 1.00 over 1 log window")


def test_more_accepted_than_drafted_is_refused() -> None:
    line = "SpecDecoding metrics: Mean acceptance length: 3.00, Accepted: 90 tokens, Drafted: 30 tokens,"
    assert windows([line]) == ()


@pytest.mark.parametrize(
    ("name", "length", "rate", "drafted"),
    [
        ("vllm-0.32-cpu/b_ngram.log", 1 + 3803 / 1760, 3803 / 6523, 6523),
        ("vllm-0.32-cpu/c_noisy_f32.log", 1 + 3262 * 3 / 4555, 3262 / 4555, 4555),
        ("vllm-0.32-cpu/d_dflash.log", 1.0, 0.0, 5289),
        ("vllm-0.32-cpu/d_eagle3.log", 1 + 10 * 3 / 3774, 10 / 3774, 3774),
        ("vllm-0.32-cpu/e_mimo_mtp.log", 1.0, 0.0, 2019),
        ("vllm-0.32-cpu/g_kv8.log", 1 + 667 * 3 / 1014, 667 / 1014, 1014),
    ],
)
def test_acceptance_of_every_capture_that_drafted(
    name: str, length: float, rate: float, drafted: int
) -> None:
    readings = read_log(lines(name)).readings
    assert readings["acceptance_length"].value == pytest.approx(length, abs=0.002)
    assert readings["draft_acceptance_rate"].value == pytest.approx(rate)
    assert readings["drafted_tokens"].value == drafted


def test_ngrams_drafts_vary_in_length() -> None:
    first, second = windows(lines("vllm-0.32-cpu/b_ngram.log"))
    assert first["acceptance_length"] == 3.90  # as printed: 4 x 1252 / 1637 + 1 would be 4.06
    assert "drafts" not in first
    assert second["acceptance_length"] == 2.92


def test_plain_windows_have_no_acceptance() -> None:
    found = windows(lines("vllm-0.32-cpu/a_plain.log"))
    assert [window["generation_tok_s"] for window in found] == [76.9, 147.0, 402.1, 0.0]
    assert not any("acceptance_length" in window for window in found)
    assert "acceptance_length" not in read_log(lines("vllm-0.32-cpu/a_plain.log")).readings
