"""A study's exactness: what the ledger holds, judged by what the study asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kvantage.analysis.exactness.judge import Asked, Exactness, judge
from kvantage.core import EXACTNESS, ExactnessData
from kvantage.core.columns import StudyData

SIMULATED = "simulated: no model's answers, or acceptance that is made up"


def read_exactness(data: StudyData, drafting: Mapping[str, bool]) -> Exactness | None:
    """Judge the study's phase `exactness`; None where it did not run. `drafting`: which arms speculate."""
    phases = data.study.get("phases")
    section = phases.get(EXACTNESS) if isinstance(phases, Mapping) else None
    asked = section if isinstance(section, Mapping) else {}
    return judge(
        one_server(data),
        Asked(
            control=data.control,
            arms=tuple(arm.name for arm in data.arms),
            speculates=drafting,
            quantile=float(asked.get("quantile", 0.999)),
            margin=float(asked.get("margin", 0.05)),
            simulated=SIMULATED if data.simulated else None,
        ),
    )


def one_server(data: StudyData) -> ExactnessData:
    """The answers with boots as they are: servers that run already are not started anew between two looks."""
    attached = data.study.get("attach") or ()
    if not attached:
        return data.exactness
    answers = tuple(
        replace(each, boot=0) if each.arm in attached else each for each in data.exactness.answers
    )
    return replace(data.exactness, answers=answers)
