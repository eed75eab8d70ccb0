"""What the study asked, read from its plain JSON: nothing here is measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kvantage.analysis.spending import FIRST, MOST, Level, Spending
from kvantage.analysis.stats import CONFIDENCE
from kvantage.core.cell import CellKey

MARGIN = 0.03
"""Where the study does not say: a difference that a person would not feel, and boots hide."""
FIXED_LENGTH = ("ttft", "short", "sweep", "cold", "repeat")
"""The phases in which every answer has exactly the length asked for."""


@dataclass(frozen=True, slots=True)
class Term:
    """One cell of what is maximised. `workload` None is the phase's only one."""

    phase: str
    workload: str | None
    concurrency: int
    weight: float = 1.0

    def takes(self, key: CellKey) -> bool:
        """Whether a cell is of this place."""
        return (
            key.phase == self.phase
            and self.workload in (None, key.workload)
            and key.concurrency == self.concurrency
        )


@dataclass(frozen=True, slots=True)
class Objective:
    """The one figure that ranks the arms: `metric`, as the weighted geometric mean over `terms`."""

    metric: str
    terms: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class SpeedFloor:
    """The least decode rate of one user, in tok/s, at a place."""

    tok_s: float
    place: Term


@dataclass(frozen=True, slots=True)
class FirstTokenLimit:
    """The longest median time to the first token, in seconds, at a place."""

    seconds: float
    place: Term


@dataclass(frozen=True, slots=True)
class Policy:
    """What the person wants, said before the data: the best objective among arms that keep to the rest."""

    objective: Objective
    sessions: int | None = None
    session_tokens: int | None = None
    floor: SpeedFloor | None = None
    first_token: FirstTokenLimit | None = None
    exactness: str | None = None


def phase_settings(study: Mapping[str, Any], phase: str) -> Mapping[str, Any]:
    """The settings of a phase, empty where it was not asked for."""
    found = (study.get("phases") or {}).get(phase)
    return found if isinstance(found, Mapping) else {}


def output_tokens(study: Mapping[str, Any], phase: str) -> int | None:
    """The exact output length of a phase, None where answers may stop earlier."""
    phase = "short" if phase == "recheck" else phase
    if phase not in FIXED_LENGTH:
        return None
    length = phase_settings(study, phase).get("output_tokens")
    return int(length) if length is not None else None


def document_tokens(study: Mapping[str, Any]) -> int | None:
    """Nominal length of the study's documents."""
    length = phase_settings(study, "cold").get("document_tokens")
    return int(length) if length is not None else None


def answer_tokens(study: Mapping[str, Any]) -> int | None:
    """The answer that a session holds: the repeat's, else the cold wave's."""
    repeat = output_tokens(study, "repeat")
    return repeat if repeat is not None else output_tokens(study, "cold")


def concurrencies(study: Mapping[str, Any]) -> tuple[int, ...]:
    """The concurrencies of the waves, ascending."""
    return tuple(sorted(int(value) for value in phase_settings(study, "cold").get("concurrency") or ()))


@dataclass(frozen=True, slots=True)
class Limits:
    """What a request of the sweep must keep to, to count in its goodput; None is 'no limit'. Seconds."""

    ttft_s: float | None = None
    tpot_s: float | None = None

    @property
    def some(self) -> bool:
        """True where there is a limit."""
        return self.ttft_s is not None or self.tpot_s is not None


def limits(study: Mapping[str, Any]) -> Limits:
    """The study's limits of the sweep."""
    sweep = phase_settings(study, "sweep")
    ttft, tpot = sweep.get("ttft_limit"), sweep.get("tpot_limit")
    return Limits(_seconds(ttft), _seconds(tpot))


def _seconds(text: str | None) -> float | None:
    """`50ms` or `2s`, as a study writes them."""
    if text is None:
        return None
    return float(text[:-2]) / 1000 if text.endswith("ms") else float(text[:-1])


def read_policy(study: Mapping[str, Any]) -> Policy | None:
    """The study's policy with its open fields filled in, None where it states none.

    Short prompts run one at a time, by their first set; waves and sweeps are taken at their lowest
    concurrency; a constraint without a place stands where the objective does, by its first term.
    """
    policy = study.get("policy")
    if not isinstance(policy, Mapping):
        return None
    objective = _objective(policy["maximise"], policy.get("weights") or {}, study)
    home = objective.terms[0]
    least, floor, limit = (policy.get(name) or {} for name in ("min_sessions", "min_user_speed", "max_ttft"))
    return Policy(
        objective,
        least.get("count"),
        least.get("tokens"),
        SpeedFloor(float(floor["tok_s"]), _place(floor, home, study)) if floor else None,
        FirstTokenLimit(_seconds(limit["time"]) or 0.0, _place(limit, home, study)) if limit else None,
        policy.get("worst_exactness"),
    )


def _objective(
    wanted: Mapping[str, Any], weights: Mapping[str, float], study: Mapping[str, Any]
) -> Objective:
    phase, metric = str(wanted["phase"]), str(wanted.get("metric") or "decode_tok_s")
    concurrency = int(wanted.get("concurrency") or _lowest(phase, study))
    if weights:
        terms = tuple(Term(phase, name, concurrency, float(weight)) for name, weight in weights.items())
    else:
        terms = (Term(phase, wanted.get("workload") or _first_set(phase, study), concurrency),)
    return Objective(metric, terms)


def _place(given: Mapping[str, Any], home: Term, study: Mapping[str, Any]) -> Term:
    """Where a constraint stands: as given, else as the objective."""
    phase = str(given.get("phase") or home.phase)
    same = phase == home.phase
    workload = given.get("workload") or (home.workload if same else _first_set(phase, study))
    concurrency = given.get("concurrency") or (home.concurrency if same else _lowest(phase, study))
    return Term(phase, workload, int(concurrency))


def _first_set(phase: str, study: Mapping[str, Any]) -> str | None:
    prompts = phase_settings(study, phase).get("prompts")
    return next(iter(prompts), None) if isinstance(prompts, Mapping) else None


def _lowest(phase: str, study: Mapping[str, Any]) -> int:
    if phase == "short":
        return 1
    asked = "sweep" if phase == "sweep" else "cold"
    return min((int(value) for value in phase_settings(study, asked).get("concurrency") or ()), default=1)


def spending(study: Mapping[str, Any]) -> Spending | None:
    """The looks of a study with a target (`until`), None where its number of boots is fixed."""
    until = study.get("until")
    if not isinstance(until, Mapping):
        return None
    last = int(until.get("max_boots") or MOST)
    first = min(last, max(FIRST, int(study.get("boots") or 1)))
    return Spending(last, float(until.get("confidence") or CONFIDENCE), first)


def level(study: Mapping[str, Any], boots: int) -> Level | None:
    """The level of the intervals of a study with a target that was looked at after so many boots; None where
    its number of boots is fixed.
    """
    found = spending(study)
    return None if found is None else found.level(boots)


def margin(study: Mapping[str, Any]) -> float:
    """The relative difference that matters to the person: two arms nearer than that are tied. 0.03 is 3 %."""
    until = study.get("until")
    return float(until.get("margin") or MARGIN) if isinstance(until, Mapping) else MARGIN


def model_name(study: Mapping[str, Any]) -> str:
    """The model's path or name as the study gives it."""
    model = study.get("model")
    if isinstance(model, Mapping):
        return str(model.get("path", ""))
    return str(model or "")


def engine_name(study: Mapping[str, Any]) -> str:
    """The engine's name as the study gives it."""
    engine = study.get("engine")
    if isinstance(engine, Mapping):
        return str(engine.get("name", ""))
    return str(engine or "")
