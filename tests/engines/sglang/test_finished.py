"""Requests that end in a log."""

from __future__ import annotations

import pytest

from kvantage.engines.sglang.log import read_log

LINE = (
    "[2026-02-03 10:00:00] Finish: obj=GenerateReqInput(rid='a', text='What is 2 + 2?', stream=False), "
    "out={'text': ' 4', 'meta_info': {'id': 'a', 'finish_reason': {'type': 'length', 'length': 64}, "
    "'prompt_tokens': 12, 'completion_tokens': 64, 'cached_tokens': 0, 'spec_verify_ct': 20, "
    "'spec_accept_length': 3.2, 'spec_accept_token_num': 44, 'spec_draft_token_num': 60}}"
)


def test_acceptance_over_finished_requests_where_no_decode_report_tells_it() -> None:
    readings = read_log([LINE, LINE.replace("'spec_verify_ct': 20", "'spec_verify_ct': 24")]).readings
    assert readings["acceptance_length"].value == 3
    assert readings["draft_acceptance_rate"].value == pytest.approx(88 / 120)
    assert readings["draft_tokens_per_step"].value == pytest.approx(120 / 44)


def test_a_cut_or_contradicting_line_tells_nothing() -> None:
    assert "acceptance_length" not in read_log([LINE[:-20]]).readings
    assert "acceptance_length" not in read_log([LINE.replace("_token_num': 44", "_token_num': 64")]).readings
