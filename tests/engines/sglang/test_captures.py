"""Real SGLang 0.5.17 logs, read for pools, acceptance, cached tokens, concurrency and warnings."""

from __future__ import annotations

import pytest

from kvantage.engines.sglang.log import read_log
from tests.engines.cases import capture

GIB = 2**30

CAPTURES = {
    "s-none": {
        "kv_pool_tokens": 9092500,
        "kv_pool_bytes": 69.38,
        "cached_tokens": 2000,
        "kv_block_tokens": 1,
    },
    "s-dflash-bf16": {
        "kv_pool_tokens": 6610493,
        "kv_pool_bytes": 50.44,
        "draft_kv_pool_bytes": 18.92,
        "cached_tokens": 2000,
        "acceptance_length": 1.0,
        "draft_tokens_per_step": 7,
        "kv_block_tokens": 1,
    },
    "s-glm-none": {
        "kv_pool_tokens": 9653440,
        "kv_pool_bytes": 69.26,
        "cached_tokens": 1984,
        "kv_block_tokens": 64,
    },
    "s-glm-mtp": {
        "kv_pool_tokens": 8269504,
        "kv_pool_bytes": 59.33,
        "draft_kv_pool_bytes": 9.89,
        "cached_tokens": 1984,
        "acceptance_length": 1.0103,
        "draft_tokens_per_step": 3,
        "kv_block_tokens": 64,
    },
}


@pytest.mark.parametrize("name", CAPTURES)
def test_readings(name: str) -> None:
    readings = read_log(capture(f"sglang-0.5.17-h200/{name}.log").split("\n")).readings
    for word, right in CAPTURES[name].items():
        value = readings[word].value
        assert value is not None
        assert value / (GIB if word.endswith("_bytes") else 1) == pytest.approx(right, abs=1e-4), word
    speculating = "draft" in str(CAPTURES[name])
    assert ("draft_kv_pool_bytes" in readings) is speculating
    assert ("acceptance_length" in readings) is speculating
    assert readings["effective_max_running"].value == readings["requested_max_running"].value == 4
    assert readings["queue_depth"].value == 0
    assert "state_cache_bytes" not in readings


@pytest.mark.parametrize("name", CAPTURES)
def test_warnings(name: str) -> None:
    readings = read_log(capture(f"sglang-0.5.17-h200/{name}.log").split("\n"))
    dead = [warning for warning in readings.warnings if warning.startswith("dead drafter")]
    assert len(dead) == ("draft" in str(CAPTURES[name]))
    changed = [warning for warning in readings.warnings if warning.startswith("SGLang changed a setting")]
    assert len(changed) == (2 if "glm" in name else 0)
    assert len(readings.warnings) == len(dead) + len(changed)
    assert readings.errors == ()


def test_the_same_model_weighs_the_same_with_a_drafter_beside_it() -> None:
    for pair in (("s-none", "s-dflash-bf16"), ("s-glm-none", "s-glm-mtp")):
        readings = [read_log(capture(f"sglang-0.5.17-h200/{n}.log").split("\n")).readings for n in pair]
        without, beside = (told["kv_bytes_per_token"] for told in readings)
        assert without.low is not None
        assert without.high is not None
        assert beside.value is not None
        assert without.low - 2 <= beside.value <= without.high + 2


def test_a_report_after_a_prefill_is_no_speed() -> None:
    log = read_log(capture("sglang-0.5.17-h200/s-none.log").split("\n"))
    assert [window["generation_tok_s"] for window in log.windows[:2]] == [0.01, 0.88]
    assert [window["steady"] for window in log.windows[:3]] == [0.0, 0.0, 1.0]
    speed = log.readings["decode_tok_s"].value
    assert speed is not None
    assert 100 < speed < 160
