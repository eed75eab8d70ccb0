"""Exactness in report.json: all of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvantage.analysis.exactness.classify import Chosen, Difference
from kvantage.analysis.exactness.divergence import PairCount
from kvantage.analysis.exactness.judge import ArmExactness, AtConcurrency, Exactness
from kvantage.analysis.exactness.streams import StreamCheck
from kvantage.analysis.exactness.survival import Curve


def exactness_json(found: Exactness | None) -> dict[str, Any] | None:
    """Everything of the phase as plain data; None where it did not run."""
    if found is None:
        return None
    floor = found.floor
    return {
        "control": found.control,
        "unit": found.unit,
        "floor": {"missing": found.no_floor}
        if floor is None
        else {
            "quantile": _n(floor.quantile, "1"),
            "gap": _n(floor.gap, "nats", floor.low, floor.high),
            "bounded": floor.high is not None,
            "largest": _n(floor.largest, "nats"),
            "tokens": _n(floor.tokens, "tokens"),
            "epsilon": _n(floor.limit, "nats"),
            "near_tie_edge": _n(floor.edge, "nats"),
        },
        "control_pairs": [_pairs(each, found.unit) for each in found.control_pairs],
        "control_curves": [_curve(each) for each in found.control_curves],
        "control_nonzero_gaps_nats": list(found.control_gaps),
        "control_streams": [_stream(each) for each in found.control_streams],
        "arms": {arm.arm: _arm(arm, found) for arm in found.arms},
        "notes": list(found.notes),
    }


def _arm(arm: ArmExactness, found: Exactness) -> dict[str, Any]:
    return {
        "class": arm.cls,
        "words": arm.words,
        "detail": arm.detail,
        "at": [_at(each, found) for each in arm.at],
        "nonzero_gaps_nats": list(found.arm_gaps.get(arm.arm, ())),
        "sampling": [
            {
                "prompt_id": each.prompt_id,
                "samples": _n(each.samples[0], "answers"),
                "control_samples": _n(each.samples[1], "answers"),
                "p": _n(each.p, "1"),
                "p_holm": _n(each.p_holm, "1"),
                "total_variation": _n(each.distance, "1"),
                "total_variation_by_chance": _n(each.expected, "1"),
                "place": each.place,
                "token": each.token,
                "effect_w": _n(each.effect, "1"),
                "detectable_w": _n(each.detectable, "1"),
            }
            for each in arm.sampling
        ],
        "tasks": None
        if arm.tasks is None
        else {
            "items": _n(arm.tasks.items, "items"),
            "right": _n(arm.tasks.right, "items"),
            "control_right": _n(arm.tasks.control_right, "items"),
            "gained": list(arm.tasks.gained),
            "lost": list(arm.tasks.lost),
            "mcnemar_p": _n(arm.tasks.mcnemar_p, "1"),
            "difference": _n(arm.tasks.difference, "1", arm.tasks.low, arm.tasks.high),
            "margin": _n(arm.tasks.margin, "1"),
            "equivalent": arm.tasks.equivalent,
        },
        "worst": [_difference(one) for one in arm.worst],
    }


def _at(at: AtConcurrency, found: Exactness) -> dict[str, Any]:
    compared, gaps = at.compared, at.gaps
    return {
        "concurrency": at.concurrency,
        "class": at.cls,
        "words": at.words,
        "detail": at.detail,
        "prompts": _n(at.prompts, "prompts"),
        "places": _n(at.places, found.unit),
        "left_out": list(at.left_out),
        "pairs": [_pairs(each, found.unit) for each in at.pairs],
        "acceptance_length": {"missing": at.drafting.fault or "nothing drafts in this arm, or it is not told"}
        if at.drafting.length is None
        else _n(at.drafting.length, "tokens a step"),
        "survival": None
        if compared is None
        else {
            "divergences_per_1000_on_off": _n(compared.rate_on_off, f"1/1000 {found.unit}"),
            "divergences_per_1000_off_off": _n(compared.rate_off_off, f"1/1000 {found.unit}"),
            "permutation_p": _n(compared.p, "1"),
            "log_rank_p": {"missing": "nothing parted, or too few pairs"}
            if compared.log_rank_p is None
            else _n(compared.log_rank_p, "1"),
            "power": _power(at.survival_power),
        },
        "curves": [_curve(each) for each in at.curves],
        "gaps": None
        if gaps is None
        else {
            "tokens": _n(gaps.tokens, "tokens"),
            "zero": _n(gaps.zero, "tokens"),
            "quantiles": [{"quantile": q, "gap": _n(value, "nats")} for q, value in gaps.quantiles.items()],
            "largest": _n(gaps.largest, "nats"),
            "structural": _n(gaps.structural, "tokens"),
            "over_floor": _n(gaps.over, "tokens"),
            "expected_over_floor": _n(gaps.expected, "tokens"),
            "control_tokens": _n(gaps.control_tokens, "tokens"),
            "control_over_floor": _n(gaps.control_over, "tokens"),
            "worst": {"prompt_id": gaps.worst[0], "position": gaps.worst[1]},
            "p": _n(gaps.p, "1"),
            "power": [
                {
                    "wrong_per_token": _n(one.rate, "1/token"),
                    "power_if_structural": _n(one.structural, "1"),
                    "power_if_just_over_floor": _n(one.counted, "1"),
                }
                for one in at.power
            ],
        },
        "differences": [_difference(one) for one in at.differences],
        "stream": None if at.stream is None else _stream(at.stream),
    }


def _n(value: float, unit: str, low: float | None = None, high: float | None = None) -> dict[str, Any]:
    made: dict[str, Any] = {"value": value, "unit": unit, "source": "computed"}
    made |= {} if low is None else {"low": low}
    return made | ({} if high is None else {"high": high})


def _power(power: Mapping[float, float]) -> list[dict[str, Any]]:
    return [
        {"wrong_per_token": _n(rate, "1/token"), "power": _n(value, "1")} for rate, value in power.items()
    ]


def _pairs(each: PairCount, unit: str) -> dict[str, Any]:
    return {
        "kind": each.kind,
        "concurrency": each.concurrency,
        "pairs": _n(each.pairs, "pairs"),
        "identical": _n(each.identical, "pairs"),
        "prompts": _n(each.prompts, "prompts"),
        "prompts_apart": _n(each.prompts_apart, "prompts"),
        "compared": _n(each.compared, unit),
        "earliest": {"missing": "no pair parted"} if each.earliest is None else _n(each.earliest, unit),
    }


def _curve(each: Curve) -> dict[str, Any]:
    return {
        "kind": each.kind,
        "concurrency": each.concurrency,
        "pairs": _n(each.pairs, "pairs"),
        "places": list(each.places),
        "share": list(each.share),
        "low": list(each.low),
        "high": list(each.high),
    }


def _stream(each: StreamCheck) -> dict[str, Any]:
    return {
        "arm": each.arm,
        "concurrency": each.concurrency,
        "streams": _n(each.streams, "answers"),
        "compared": _n(each.compared, "answers"),
        "faulty": list(each.faulty),
        "unlike": list(each.unlike),
        "words": each.words,
        "example": None if each.example is None else {"stream": each.example[0], "whole": each.example[1]},
    }


def _difference(one: Difference) -> dict[str, Any]:
    return {
        "prompt_id": one.prompt_id,
        "concurrency": one.concurrency,
        "position": one.position,
        "class": one.cls,
        "gap": {"missing": "the arm's token was not scored"} if one.gap is None else _n(one.gap, "nats"),
        "bf16_ulps_at_16_to_32": {"missing": "no gap"} if one.ulps is None else _n(one.ulps, "ULP"),
        "pairs": _n(one.pairs, "pairs"),
        "before": one.before,
        "arm": _chosen(one.arm_says, one.arm_after),
        "control": _chosen(one.control_says, one.control_after),
        "rivals": [{"text": text, "logprob": _n(logprob, "nats")} for text, logprob in one.rivals],
    }


def _chosen(said: Chosen, after: str) -> dict[str, Any]:
    return {
        "token": said.token,
        "text": said.text,
        "ended": said.ended,
        "gap": {"missing": "not scored"} if said.gap is None else _n(said.gap, "nats"),
        "after": after,
    }
