"""Acceptance that is made up: refused, or marked where a study asks for it."""

from __future__ import annotations

from typing import Any

from kvantage.core import ArmSettings, HostFacts, Speculation
from kvantage.engines.llamacpp.checks import synthetic_problems
from kvantage.engines.llamacpp.facts import Told as LlamacppTold
from kvantage.engines.llamacpp.facts import facts as llamacpp_facts
from kvantage.engines.llamacpp.scan import scan
from kvantage.engines.sglang.checks import problems, simulation_problems
from kvantage.engines.sglang.facts import Told, facts
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
