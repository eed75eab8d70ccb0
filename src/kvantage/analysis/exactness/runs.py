"""Two runs held against each other: the control of the first, every arm of the second."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kvantage.analysis.exactness.judge import Asked, Exactness, judge
from kvantage.analysis.exactness.study import SIMULATED, one_server
from kvantage.core import EXACTNESS, ExactnessData, UsageError
from kvantage.core.columns import StudyData

WORK = ("prompts", "output_tokens")
"""What must be the same in both runs for their answers to be answers to the same question."""


def compare_runs(
    first: StudyData, second: StudyData, drafting: Mapping[str, bool], names: tuple[str, str] = ("A", "B")
) -> Exactness:
    """Judge the arms of the second run by the control of the first; the second's control is one of them.

    `drafting` says which arms of the second speculate. Answers are scored by the control of either run.
    Raises UsageError where a run has no exactness in it, or where they were not asked the same.
    """
    asked = [_asked(data, name) for data, name in zip((first, second), names, strict=True)]
    differ = [field for field in WORK if asked[0].get(field) != asked[1].get(field)]
    if differ:
        raise UsageError(
            f"the runs were not asked the same: `phases.exactness.{differ[0]}` is {asked[0].get(differ[0])} "
            f"and {asked[1].get(differ[0])}",
            hint="measure both with the same prompts and the same longest answer",
        )
    a, b = one_server(first), one_server(second)
    control = f"{names[0]}: {first.control}"
    own = [replace(each, arm=control) for each in a.answers if each.arm == first.control]
    boots = max((each.boot for each in own), default=0) + 1
    others = [replace(each, arm=f"{names[1]}: {each.arm}", boot=each.boot + boots) for each in b.answers]
    # what the second run's control said `across` boots is the control's there, and one of the arms here
    others = [replace(each, kind="greedy") if each.kind == "across" else each for each in others]
    data = ExactnessData(
        answers=(*own, *others),
        scores={**b.scores, **a.scores},
        no_scores=a.no_scores or b.no_scores,
        spoken={(f"{names[1]}: {arm}", at): spoken for (arm, at), spoken in b.spoken.items()},
    )
    arms = tuple(f"{names[1]}: {arm.name}" for arm in second.arms)
    found = judge(
        data,
        Asked(
            control,
            (control, *arms),
            {f"{names[1]}: {name}": on for name, on in drafting.items()},
            float(asked[0].get("quantile", 0.999)),
            float(asked[0].get("margin", 0.05)),
            SIMULATED if first.simulated or second.simulated else None,
        ),
    )
    assert found is not None
    return found


def _asked(data: StudyData, name: str) -> Mapping[str, float | str]:
    phases = data.study.get("phases")
    section = phases.get(EXACTNESS) if isinstance(phases, Mapping) else None
    if not isinstance(section, Mapping) or not data.exactness.answers:
        raise UsageError(
            f"run {name} holds no exactness", hint="measure it with `phases: {exactness: {}}` in the study"
        )
    return section
