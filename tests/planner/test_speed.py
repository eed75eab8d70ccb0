"""Acceptance, step costs and speeds, against the shared cases and public figures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kvantage.core import ServerSettings, Speculation, UsageError
from kvantage.planner.acceptance import (
    PRIORS,
    Acceptance,
    conditional,
    from_conditional,
    from_unconditional,
    leviathan,
    prior,
    rate_for,
    speed_up,
    step_cost,
)
from kvantage.planner.drafts import drafter_of
from kvantage.planner.machine import hardware_names, read_machine
from kvantage.planner.memory import GIB, Demand
from kvantage.planner.speed import Calibration, Steps, expected_experts
from kvantage.planner.weights import head_parameters, weights_of

from .cases import DATA, case, config, model

TABLES = json.loads((DATA / "published.json").read_text(encoding="utf-8"))["four_arms"]


def test_case_moe_union() -> None:
    row = case("planner-moe-union")
    given, want = row["input"], row["expected"]
    found = [expected_experts(given["E"], given["topk"], tokens) for tokens in given["tokens"]]
    assert found == pytest.approx(want["expected_active"], abs=0.006)
    assert [round(one / found[0], 2) for one in found] == want["inflation_vs_1"]


def test_case_step_cost() -> None:
    row = case("planner-step-cost")
    given, want = row["input"], row["expected"]
    for run in given["rows"]:
        assert round(1000 * run["accept_len"] / run["tps"], 1) == pytest.approx(
            want["verify_step_ms"][run["prompt"]], abs=0.06
        )
        assert run["accept_len"] == pytest.approx(1 + given["k"] * run["accept_ratio"], abs=0.01)
        if run["prompt"] in given["off"]:
            off = given["off"][run["prompt"]]
            assert round(1000 / off, 1) == want["off_step_ms"][run["prompt"]]
            rho = step_cost(run["accept_len"], run["tps"], off)
            assert round(rho, 2) == want["step_cost_ratio"][run["prompt"]]
            assert round(rho, 2) == want["break_even_accept_len"][run["prompt"]]
            assert round(speed_up(run["accept_len"], rho), 2) == want["speedup"][run["prompt"]]
    drafter = given["weights_gib_with"] - given["weights_gib_without"]
    assert round(drafter, 2) == want["drafter_weight_gib_per_rank"]
    assert round(given["kv_tokens"] / given["max_len"], 2) == want["max_concurrency"]


def test_one_pair_predicts_every_other_prompt() -> None:
    """Calibrated on the plain speed and on prose alone, the other prompts follow from their AL within 6 %."""
    given = case("planner-step-cost")["input"]
    prose = next(run for run in given["rows"] if run["prompt"] == "prose")
    rho = step_cost(prose["accept_len"], prose["tps"], given["off"]["prose"])
    for run in given["rows"]:
        predicted = given["off"]["prose"] * speed_up(run["accept_len"], rho)
        assert predicted == pytest.approx(run["tps"], rel=0.06)


def test_acceptance_lengths() -> None:
    assert from_unconditional([0.718, 0.492, 0.396, 0.315]) == pytest.approx(2.921)
    assert from_conditional(conditional([0.718, 0.492, 0.396, 0.315])) == pytest.approx(2.921)
    assert leviathan(0.8, 4, 0.1) == pytest.approx(2.401, abs=5e-4)
    assert leviathan(1.0, 4, 0.1) == pytest.approx(5 / 1.4)
    with pytest.raises(UsageError, match="conditional"):
        from_unconditional([0.5, 0.6])
    with pytest.raises(UsageError, match="between 1 and 4"):
        Acceptance.measured(4.5, 3)
    with pytest.raises(UsageError, match="oracle"):
        prior("oracle", 3)


@given(length=st.floats(1.0, 8.0), drafts=st.integers(1, 16))
def test_a_length_and_its_rate_agree(length: float, drafts: int) -> None:
    if length <= drafts + 1:
        assert from_conditional([rate_for(length, drafts)] * drafts) == pytest.approx(length, abs=1e-6)


@given(method=st.sampled_from(sorted(PRIORS)), drafts=st.integers(1, 16))
def test_priors_are_ordered_and_bounded(method: str, drafts: int) -> None:
    found = prior(method, drafts)
    assert 1 < found.low <= found.value <= found.high <= drafts + 1


@pytest.mark.parametrize(
    ("name", "total", "active"),
    [
        ("llama-3.1-8b", 8.03, 7.5),
        ("llama-3.1-70b", 70.55, 69.5),
        ("qwen3-8b", 8.19, 7.57),
        ("qwen3-30b-a3b", 30.5, 3.0),
        ("gpt-oss-120b", 117, 5.1),
        ("deepseek-v3", 671, 37),
        ("glm-5", 744, 40),
        ("glm-5.3-flash", 320, 18),
        ("kimi-linear-48b", 48, 3),
    ],
)
def test_parameters_of_public_models(name: str, total: float, active: float) -> None:
    weights = weights_of(model(name))
    assert weights.total / 1e9 == pytest.approx(total, rel=0.03)
    assert weights.active / 1e9 == pytest.approx(active, rel=0.08)


def test_an_mtp_head_is_a_whole_layer_of_experts() -> None:
    flash = model("glm-5.3-flash")
    head = head_parameters(flash, weights_of(flash))
    assert head / 1e9 == pytest.approx(7.4, rel=0.03)


def test_every_hardware_figure_has_a_source() -> None:
    assert {"two-gb10", "gb10", "h100", "h200", "b200", "rtx-6000", "cpu"} <= set(hardware_names())
    for name in hardware_names():
        machine = read_machine(name)
        for figure in machine.figures.values():
            assert figure.low <= figure.value <= figure.high
            assert len(figure.source) > 5
    with pytest.raises(UsageError, match="two-gb10"):
        read_machine("tpu")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ranks: 1", "memory_gib"),
        ("[1]", "no hardware"),
        ("a: {b: ", "YAML"),
    ],
)
def test_bad_hardware_files(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    with pytest.raises(UsageError, match=words):
        read_machine(str(file))


def steps(method: str, drafts: int = 0, calibration: Calibration | None = None) -> Steps:
    target = model("glm-5.3-flash")
    speculation = Speculation()
    drafter = None
    if method == "mtp":
        speculation = Speculation("mtp", drafts)
    elif method == "dflash":
        speculation = Speculation("dflash", drafts, "d", draft_kv_dtype="bf16")
        drafter = drafter_of(config("glm-5.3-flash-dflash2"))
    return Steps(
        Demand(target, ServerSettings(tensor_parallel_size=2, kv_dtype="fp8_e4m3"), speculation, drafter),
        read_machine("two-gb10"),
        weights_of(target, int(2 * 88.89 * GIB)),
        calibration or Calibration(),
    )


def test_uncalibrated_ranges_hold_the_published_speeds() -> None:
    arms = TABLES["arms"]
    plain = steps("none").decode(None, 1, 1024)
    assert plain.low is not None
    assert plain.high is not None
    assert plain.low <= arms["none"]["short_code_tok_s"] <= plain.high
    for method, drafts, name in (("mtp", 3, "mtp"), ("dflash", 5, "dflash-bf16")):
        found = steps(method, drafts).decode(prior(method, drafts), 1, 1024)
        assert found.low is not None
        assert found.high is not None
        assert found.low <= arms[name]["short_code_tok_s"] <= found.high


def test_calibrated_on_short_code_prose_and_repeats_follow_within_10_percent() -> None:
    """MTP: its lengths are published. Calibrated on short code, prose and both repeats are predicted."""
    arms, lengths = TABLES["arms"], {row["workload"]: row["length_of_3"] for row in TABLES["mtp_acceptance"]}
    plain, mtp = arms["none"], arms["mtp"]
    rho = step_cost(lengths["short code"], mtp["short_code_tok_s"], plain["short_code_tok_s"])
    fitted = Calibration(1 / plain["short_code_tok_s"], 1024, {("mtp", 3): rho})
    arm = steps("mtp", 3, fitted)
    prose = arm.decode(Acceptance.measured(lengths["short prose"], 3), 1, 1024).value
    assert prose == pytest.approx(mtp["short_prose_tok_s"], rel=0.10)
    once = arm.decode(Acceptance.measured(lengths["128k cached C4"], 3), 1, 129_000).value
    assert once == pytest.approx(mtp["repeat_c1_tok_s"], rel=0.10)
    control = steps("none", calibration=fitted)
    assert control.decode(None, 1, 129_000).value == pytest.approx(plain["repeat_c1_tok_s"], rel=0.10)


def test_speculation_on_wide_batches_costs_more() -> None:
    arm = steps("dflash", 7)
    assert arm.rho(1, 1024).value < arm.rho(2, 1024).value
    parts = arm.parts(1, 1024)
    assert sum(parts.values()) == pytest.approx(1)


def test_dense_models_decode_near_their_bandwidth() -> None:
    target = model("qwen3-8b")
    found = Steps(Demand(target), read_machine("h100"), weights_of(target)).decode(None, 1, 500)
    assert found.value == pytest.approx(155, rel=0.15)
    many = Steps(Demand(target), read_machine("h100"), weights_of(target)).decode(None, 32, 500)
    assert many.value is not None
    assert found.value is not None
    assert many.value > 20 * found.value


def test_a_real_server_on_a_cpu_within_15_percent_after_one_pair() -> None:
    """vLLM's CPU build: the first row calibrates, the others follow (tests/data/speeds.yaml)."""
    data = yaml.safe_load((DATA / "speeds.yaml").read_text(encoding="utf-8"))
    target = model(data["model"])
    first, *rest = data["rows"]
    fitted = Calibration(first["step_ms"] / 1000, first["length"])
    arm = Steps(Demand(target, processor=True), read_machine(data["hardware"]), weights_of(target), fitted)
    for row in rest:
        assert 1000 * arm.plain(row["batch"], row["length"]).value == pytest.approx(row["step_ms"], rel=0.15)
