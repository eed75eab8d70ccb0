"""What the study asked, read from its plain JSON: nothing here is measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

FIXED_LENGTH = ("ttft", "short", "sweep", "cold", "repeat")
"""The phases in which every answer has exactly the length asked for."""


@dataclass(frozen=True, slots=True)
class Objective:
    """The one figure that ranks the arms: `metric` of a phase, at one workload and concurrency."""

    metric: str
    phase: str
    workload: str | None
    concurrency: int | None


@dataclass(frozen=True, slots=True)
class Policy:
    """What the person wants, said before the data: maximise the objective among arms that hold enough."""

    objective: Objective
    sessions: int | None = None
    session_tokens: int | None = None


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
    """The study's policy, None where it states none."""
    policy = study.get("policy")
    if not isinstance(policy, Mapping):
        return None
    wanted = policy["maximise"]
    least = policy.get("min_sessions") or {}
    return Policy(
        Objective(
            str(wanted.get("metric", "decode_tok_s")),
            str(wanted["phase"]),
            wanted.get("workload"),
            wanted.get("concurrency"),
        ),
        least.get("count"),
        least.get("tokens"),
    )


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


def settle(objective: Objective, study: Mapping[str, Any]) -> Objective:
    """The objective with workload and concurrency filled in where the study leaves them open.

    Short prompts run one at a time, by their first set; waves are taken at their lowest concurrency.
    """
    if objective.phase == "short":
        prompts = phase_settings(study, "short").get("prompts") or {}
        first = next(iter(prompts), None) if isinstance(prompts, Mapping) else None
        return Objective(objective.metric, "short", objective.workload or first, 1)
    least = next(iter(concurrencies(study)), 1)
    return Objective(objective.metric, objective.phase, objective.workload, objective.concurrency or least)
