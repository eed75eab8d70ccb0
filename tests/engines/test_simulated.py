"""Acceptance that is made up: refused, or marked where a study asks for it."""

from __future__ import annotations

from typing import Any

import pytest

from kvantage.core import ArmSettings, HostFacts, Speculation
from kvantage.engines.llamacpp.checks import synthetic_problems
from kvantage.engines.llamacpp.facts import Told as LlamacppTold
from kvantage.engines.llamacpp.facts import facts as llamacpp_facts
from kvantage.engines.llamacpp.scan import scan
from kvantage.engines.sglang.checks import problems, simulation_problems
from kvantage.engines.sglang.facts import Told, facts
from kvantage.engines.simulated import refusal
from kvantage.engines.vllm.boot import BootLog
from kvantage.engines.vllm.checks import simulation_problems as vllm_problems
from kvantage.engines.vllm.facts import Told as VllmTold
from kvantage.engines.vllm.facts import facts as vllm_facts
from tests.engines.sglang.test_facts import INFO

FAKED = {"SGLANG_SIMULATE_ACC_LEN": "3"}


def arm(engine: str, *, allowed: Any = None, **more: Any) -> ArmSettings:
    options = {} if allowed is None else {"allow_simulated": allowed}
    wanted = Speculation("mtp", 3)
    return ArmSettings("mtp", engine, "m", speculation=wanted, engine_options=options, **more)


def test_refused_with_what_would_work() -> None:
    lossy = {"speculative-accept-threshold-acc": 0.5}
    for made in (
        simulation_problems(arm("sglang", env=FAKED)),
        simulation_problems(arm("sglang", flags=lossy)),
        synthetic_problems(arm("llamacpp", flags={"spec-synth-len": 3})),
        synthetic_problems(arm("llamacpp", env={"LLAMA_ARG_SPEC_SYNTH_LEN": "3"})),
    ):
        assert len(made) == 1
        assert "allow_simulated: true" in made[0]


def test_allowed_and_then_marked() -> None:
    wanted = arm("sglang", allowed=True, env=FAKED)
    assert not any("fakes" in text for text in problems(wanted, HostFacts("here", "CPU", 2, 1 << 34)))
    found = facts(Told(arm=wanted, info=INFO, env=FAKED))
    assert found.resolved["simulated"] == "simulated or lossy acceptance: SGLANG_SIMULATE_ACC_LEN=3"
    assert "simulated" not in facts(Told(arm=wanted, info=INFO)).resolved

    wanted = arm("llamacpp", allowed=True, flags={"spec-synth-len": 3})
    assert synthetic_problems(wanted) == []
    log = scan(["W speculative: --spec-synth-len 3: synthetic acceptance, outputs are not valid"])
    slots = [{"speculative": True}]
    assert "synth" in llamacpp_facts(LlamacppTold(arm=wanted, slots=slots, log=log)).resolved["simulated"]


def test_only_a_plain_yes_allows_it() -> None:
    for word in ("yes", 1, False):
        assert simulation_problems(arm("sglang", allowed=word, env=FAKED))
    found = facts(Told(arm=arm("sglang", env=FAKED), info=INFO, env=FAKED))
    assert "simulated" in found.speculation
    assert "simulated" not in found.resolved


SYNTHETIC = {"rejection_sample_method": "synthetic", "synthetic_acceptance_length": 3}


@pytest.mark.parametrize(
    "given",
    [
        {"speculation": Speculation("mtp", 3, options=SYNTHETIC)},
        {"speculation": Speculation("mtp", 3, options={"rejection_sample_method": "fly"})},
        {"flags": {"speculative-config": SYNTHETIC}},
        {"flags": {"speculative_config": '{"method": "mtp", "synthetic_acceptance_rates": [0.9]}'}},
    ],
)
def test_vllms_own_ways_to_make_acceptance_up(given: dict[str, Any]) -> None:
    [told] = vllm_problems(ArmSettings("a", "vllm", "m", **given))
    assert "makes acceptance up" in told
    assert "--allow-simulated" in told
    allowed = ArmSettings("a", "vllm", "m", engine_options={"allow_simulated": True}, **given)
    assert vllm_problems(allowed) == []
    standard = Speculation("mtp", 3, options={"rejection_sample_method": "standard"})
    assert vllm_problems(ArmSettings("a", "vllm", "m", speculation=standard)) == []
    assert vllm_problems(ArmSettings("a", "vllm", "m", flags={"speculative-config": "{not json"})) == []


@pytest.mark.parametrize("allowed", [False, True])
def test_what_a_server_resolved_is_refused_or_marked(allowed: bool) -> None:
    """As a server tells it that was started by somebody else, or by a variable that we do not know."""
    made = ArmSettings("a", "vllm", "m", engine_options={"allow_simulated": True} if allowed else {})
    log = BootLog(speculation=dict(SYNTHETIC, method="mtp"))
    found = vllm_facts(VllmTold(arm=made, log=log))
    assert found.speculation["simulated"] == "rejection_sample_method=synthetic"
    assert (refusal(made, found.speculation) is None) is allowed
    assert ("simulated" in found.resolved) is allowed
    assert refusal(made, {"method": "mtp"}) is None


def test_to_allow_it_makes_no_other_arm() -> None:
    plain, allowed = arm("sglang"), arm("sglang", allowed=True)
    assert plain.fingerprint() == allowed.fingerprint()
