"""Policies: short forms, weights, constraints with a place, and what the study does not measure."""

from __future__ import annotations

import pytest

from kvantage.core import StudyError
from kvantage.study import Study
from tests.study.base import read

HEAD = """
model: org/target
engine: fast
control: none
arms: {none: {}, mtp: {speculation: {method: mtp, drafts: 3}}}
phases:
  short: {prompts: {code: builtin, prose: builtin}}
  sweep: {prompts: {code: builtin, prose: builtin}, concurrency: [1, 4]}
  cold: {document_tokens: 2k, concurrency: [1, 2, 4]}
  repeat: {output_tokens: 256}
policy:
"""


def study(policy: str) -> Study:
    return read(HEAD + "".join(f"  {line}\n" for line in policy.strip().splitlines()))


def refusal(policy: str) -> str:
    with pytest.raises(StudyError) as caught:
        study(policy)
    return str(caught.value)


def test_short_forms_and_places() -> None:
    policy = study("""
maximise: {phase: sweep, workload: code, concurrency: 4, metric: steady_tok_s}
min_user_speed: 10
max_ttft: {time: 2s, phase: cold, concurrency: 2}
""").policy
    assert policy is not None
    assert policy.min_user_speed is not None
    assert policy.min_user_speed.tok_s == 10
    assert policy.max_ttft is not None
    assert (policy.max_ttft.time, policy.max_ttft.phase) == (2.0, "cold")


def test_a_policy_is_written_and_read_back() -> None:
    made = study("""
maximise: {phase: short}
weights: {code: 3, prose: 1}
min_user_speed: 10
max_ttft: 300ms
""")
    assert Study.from_json(made.to_json()).policy == made.policy


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        (
            "maximise: {phase: short, workload: code, metric: turns_per_hour}",
            "policy.maximise.metric: finished turns an hour need growing sessions",
        ),
        ("maximise: {phase: short, metric: steady_tok_s}", "aggregate of several users"),
        ("maximise: {phase: short}", "policy.maximise: `workload` is missing: one of code, prose"),
        (
            "maximise: {phase: sweep, workload: code, concurrency: 8}",
            "policy.maximise.concurrency: is not measured; `phases.sweep.concurrency` is 1, 4",
        ),
        (
            "maximise: {phase: repeat, concurrency: 1}\nweights: {code: 1}",
            "policy.weights: `repeat` has one workload: leave them out",
        ),
        (
            "maximise: {phase: short, workload: code}\nweights: {code: 1}",
            "policy.weights: stand in place of `workload` of `maximise`",
        ),
        (
            "maximise: {phase: short}\nweights: {code: 1, pros: 2}",
            "policy.weights.pros: there is no workload `pros`; did you mean `prose`?",
        ),
        ("maximise: {phase: short}\nweights: {}", "policy.weights: is empty"),
        ("maximise: {phase: short}\nweights: {code: 0}", "policy.weights.code: needs more than 0"),
        (
            "maximise: {phase: short, workload: code}\nmin_user_speed: {tok_s: 5, phase: cold}",
            "policy.min_user_speed: `concurrency` is missing: one of 1, 2, 4",
        ),
        (
            "maximise: {phase: short, workload: code}\nmax_ttft: {time: 2s, phase: cold, concurrency: 3}",
            "policy.max_ttft.concurrency: is not measured; `phases.cold.concurrency` is 1, 2, 4",
        ),
        ("maximise: {phase: short, workload: code}\nmax_ttft: fast", "policy.max_ttft"),
        (
            "maximise: {phase: short, workload: code}\nworst_exactness: differs",
            "policy.worst_exactness: the study does not run the phase `exactness`",
        ),
    ],
)
def test_what_cannot_be_judged_is_said(policy: str, said: str) -> None:
    assert said in refusal(policy)
