"""What took the pool: held against boots of real servers, none of them ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvantage.analysis.attribution import Attribution, attribute
from kvantage.core import ArmSettings, Facts, Reading, ServerSettings, Speculation
from kvantage.engines.sglang.log import read_log
from kvantage.engines.vllm.boot import boot_log
from kvantage.engines.vllm.facts import Told, facts

CAPTURES = Path(__file__).parents[1] / "data" / "captures"
GIB = 1 << 30


def an_arm(name: str, method: str = "none", **settings: int) -> ArmSettings:
    draft = "drafter" if method == "dflash" else None
    how = Speculation() if method == "none" else Speculation(method, drafts=3, draft=draft)  # type: ignore[arg-type]
    return ArmSettings(name, "x", "m", settings=ServerSettings(**settings), speculation=how)  # type: ignore[arg-type]


def of_sglang(name: str) -> Facts:
    lines = (CAPTURES / "sglang-0.5.17-h200" / f"{name}.log").read_text().splitlines()
    return Facts("sglang", "0.5.17", read_log(lines).readings)


def of_vllm(name: str, arm: ArmSettings) -> Facts:
    log = boot_log((CAPTURES / "vllm-0.26-h200" / f"{name}.log").read_text().splitlines())
    assert log.pool_tokens is not None
    blocks = {"num_gpu_blocks": str(log.pool_tokens // 16), "block_size": "16"}
    return facts(Told(arm, log=log, cache=[blocks]))


def parts(found: Attribution | None) -> dict[str, float | None]:
    assert found is not None
    return {part.name: part.bytes.value for part in found.parts}


def test_sglang_two_pools_leave_nothing_unexplained() -> None:
    for control, arm, method in (("s-none", "s-dflash-bf16", "dflash"), ("s-glm-none", "s-glm-mtp", "mtp")):
        before, after = of_sglang(control), of_sglang(arm)
        found = attribute(an_arm("a", method), after, an_arm("none"), before)
        assert found is not None
        assert [part.name for part in found.parts] == ["draft weights", "draft KV"]
        assert found.lost.bytes.value == pytest.approx(
            before.reading("kv_pool_bytes").value - after.reading("kv_pool_bytes").value  # type: ignore[operator]
        )
        lost = before.reading("kv_pool_tokens").value - after.reading("kv_pool_tokens").value  # type: ignore[operator]
        assert found.lost.tokens.value == pytest.approx(lost, rel=1e-3)
        rest = found.unexplained.bytes
        assert abs(rest.value or 0) < 0.01 * GIB
        assert rest.low is not None
        assert rest.high is not None
        assert rest.low < 0 < rest.high


def test_a_shared_pool_is_divided_by_the_controls_bytes_a_token() -> None:
    """vLLM keeps the drafter's KV in the same blocks, so that the pool's bytes hardly change."""
    arm = an_arm("a", "dflash")
    found = attribute(arm, of_vllm("dflash-bf16", arm), an_arm("none"), of_vllm("none", an_arm("none")))
    told = parts(found)
    assert told["draft KV"] == pytest.approx(18.93 * GIB, rel=0.01)
    assert told["draft weights"] == pytest.approx(0.02 * GIB, rel=1e-6)
    assert told["buffers"] == pytest.approx(0.03 * GIB, rel=1e-6)
    assert found is not None
    assert abs(found.unexplained.bytes.value or 0) < 0.01 * GIB
    assert found.unexplained.tokens.known


def test_ngram_loses_nothing_and_says_nothing() -> None:
    arm = an_arm("a", "ngram")
    assert attribute(arm, of_vllm("ngram", arm), an_arm("none"), of_vllm("none", an_arm("none"))) is None


def test_another_kv_dtype_is_refused_not_guessed() -> None:
    arm = an_arm("a", "dflash")
    found = attribute(arm, of_vllm("dflash-allfp8", arm), an_arm("none"), of_vllm("none", an_arm("none")))
    assert found is not None
    assert found.parts == ()
    assert "arm a does not tell" in (found.lost.bytes.missing or "")
    assert "arm a does not tell" in (found.unexplained.bytes.missing or "")


def told(**readings: float) -> Facts:
    return Facts("x", None, {name: Reading.of(value, "bytes", "config") for name, value in readings.items()})


def test_states_and_buffers_are_told_apart_and_what_is_left_is_unexplained() -> None:
    control = told(kv_pool_bytes=1000.0, kv_bytes_per_token=10.0, state_cache_bytes=50.0)
    arm = told(
        kv_pool_bytes=600.0,
        kv_bytes_per_token=10.0,
        draft_kv_pool_bytes=100.0,
        draft_weights_bytes=40.0,
        state_cache_bytes=80.0,
        state_buffer_bytes=200.0,
    )
    found = attribute(an_arm("a", "mtp"), arm, an_arm("none"), control)
    assert parts(found) == {"draft weights": 40, "draft KV": 100, "state": 30, "buffers": 200}
    assert found is not None
    assert found.unexplained.bytes.value == 30
    assert found.unexplained.tokens.value == 3


def test_what_only_one_server_tells_is_missing_not_zero() -> None:
    control = told(kv_pool_bytes=1000.0)
    arm = told(kv_pool_bytes=900.0, draft_kv_pool_bytes=60.0, graphs_bytes=10.0)
    found = attribute(an_arm("a", "mtp"), arm, an_arm("none"), control)
    assert found is not None
    told_of = {part.name: part.bytes for part in found.parts}
    assert "not told by both" in (told_of["draft weights"].missing or "")
    assert "graphs_bytes" in (told_of["buffers"].missing or "")
    assert found.unexplained.bytes.value == 40


def test_a_pool_that_the_study_gave_loses_nothing_to_weights() -> None:
    control = told(kv_pool_bytes=1000.0, kv_bytes_per_token=10.0, weights_bytes=500.0)
    arm = told(
        kv_pool_bytes=1000.0,
        target_kv_pool_bytes=700.0,
        draft_kv_pool_bytes=300.0,
        weights_bytes=600.0,
    )
    found = attribute(an_arm("a", "mtp", pool_bytes=1000), arm, an_arm("none"), control)
    assert found is not None
    told_of = {part.name: part.bytes for part in found.parts}
    assert told_of["draft KV"].value == 300
    assert "the study gives the pool's size" in (told_of["draft weights"].missing or "")
    assert found.unexplained.bytes.value == 0


def test_memory_that_an_engine_leaves_unused_is_told_apart() -> None:
    """SGLang 0.5.17 charges a DFlash drafter on a DSA target more than it then takes: 11.4 GiB stay free."""

    def of(name: str) -> Facts:
        lines = (CAPTURES / "sglang-0.5.17-h200-glm5" / f"{name}.log").read_text().splitlines()
        return Facts("sglang", "0.5.17", read_log(lines).readings)

    found = attribute(an_arm("a", "dflash"), of("dflash"), an_arm("none"), of("none"))
    told = parts(found)
    assert found is not None
    assert found.lost.bytes.value == pytest.approx((69.35 - 49.53) * GIB)
    assert told["draft KV"] == pytest.approx(7.90 * GIB)
    assert told["left unused"] == pytest.approx((80.36 - 68.96) * GIB)
    assert found.unexplained.bytes.value == pytest.approx(0.52 * GIB, abs=0.011 * GIB)
    mtp = attribute(an_arm("a", "mtp"), of("mtp"), an_arm("none"), of("none"))
    assert mtp is not None
    assert mtp.unexplained.bytes.value == pytest.approx(0.01 * GIB, abs=0.011 * GIB)


def test_a_drafters_cache_beside_a_given_pool_took_nothing_from_it() -> None:
    """llama.cpp allocates the cells that it was told, and the drafter's cache as well."""
    control = told(kv_pool_bytes=1000.0, kv_bytes_per_token=10.0)
    arm = told(kv_pool_bytes=1000.0, kv_bytes_per_token=10.0, draft_kv_pool_bytes=300.0)
    assert attribute(an_arm("a", "dflash", pool_bytes=1000), arm, an_arm("none"), control) is None
