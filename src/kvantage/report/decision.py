"""The verdict: every arm under the policy, each constraint with its margin, and the same as JSON."""

from __future__ import annotations

from typing import Any

from kvantage.analysis.compare import Ratio
from kvantage.analysis.constraints import Constraint, Kept
from kvantage.analysis.decide import Standing, Verdict
from kvantage.analysis.findings import Findings
from kvantage.analysis.inference import Inference
from kvantage.core.reading import Reading
from kvantage.report.figures import DASH, Notes, figure, interval, number, times
from kvantage.report.tables import Table

Json = dict[str, Any]

UNDER = {
    "min_sessions": "sessions",
    "min_user_speed": "a user's speed",
    "max_ttft": "first token",
    "worst_exactness": "exactness",
}


def standings(findings: Findings) -> Table:
    """An arm a row: what is maximised, how it stands to the best, and each constraint with its margin."""
    notes = Notes()
    verdict = findings.verdict
    names = list(dict.fromkeys(each.name for standing in verdict.standings for each in standing.kept))
    columns = ("Arm", "maximised", "the best over it", "place", *(UNDER[name] for name in names))
    rows = []
    for each in verdict.standings:
        held = {kept.name: kept for kept in each.kept}
        rows.append(
            (
                each.arm,
                notes.mark(f"{figure(each.figure)} {each.figure.unit}".strip(), each.figure),
                _over(each, notes),
                each.place,
                *(_kept(held.get(name), notes) for name in names),
            )
        )
    said = f"Maximised: {verdict.objective}."
    if names:
        said += " Constraints: what was found, and in brackets the margin to what is asked."
    return Table("How the arms stand", columns, tuple(rows), (1, 2), (said, *notes.lines()))


def _over(standing: Standing, notes: Notes) -> str:
    if standing.margin.value is None:
        return DASH
    if standing.margin.low is None:
        return f"{times(standing.margin)} [{notes.number('no interval')}]"
    return f"{times(standing.margin)}, {interval(standing.margin)} [{notes.number(standing.why)}]"


def _kept(kept: Kept | None, notes: Notes) -> str:
    if kept is None:
        return DASH
    if kept.name == "worst_exactness":
        text = kept.found_class or DASH
    else:
        digits = 0 if kept.name == "min_sessions" else None
        text = f"{figure(kept.found, digits)} {kept.found.unit}".strip()
        if kept.margin.value is not None:
            shown = figure(kept.margin, digits)
            text += f" ({'' if shown.startswith('-') else '+'}{shown})"
    return f"{text}, {kept.state} [{notes.number(kept.words)}]"


def beside_verdict(findings: Findings) -> list[str]:
    """What stands under the verdict in a terminal: the nearest rivals, and what would narrow its interval."""
    verdict = findings.verdict
    lines = []
    if verdict.rivals:
        lines.append(f"Nearest rivals: {'; '.join(each.words for each in verdict.rivals)}.")
    for comparison in findings.comparisons:
        if verdict.arm not in (comparison.arm, comparison.baseline):
            continue
        split = next(
            (each.inference.split for each in comparison.ratios if each.inference and each.inference.split),
            None,
        )
        if split is not None:
            lines.append(
                f"Noise of {comparison.arm} against {comparison.baseline}: {split.words}; {split.advice}."
            )
            break
    return lines


def verdict_json(verdict: Verdict) -> Json:
    """The verdict's block."""
    return {
        "status": verdict.status,
        "arm": verdict.arm,
        "sentences": list(verdict.sentences),
        "objective": verdict.objective,
        "figure": number(verdict.figure),
        "margin": number(verdict.margin),
        "margin_replication": verdict.level,
        "matters": _share(verdict.matters),
        "runner_up": verdict.runner_up,
        "tied": list(verdict.tied),
        "inconclusive": list(verdict.inconclusive),
        "constraint": None if verdict.constraint is None else _constraint(verdict.constraint),
        "constraints": [_kept_json(each) for each in verdict.constraints],
        "rivals": [
            {"axis": each.axis, "arm": each.arm, "ratio": number(each.ratio)} for each in verdict.rivals
        ],
        "standings": [
            {
                "arm": each.arm,
                "place": each.place,
                "why": each.why,
                "figure": number(each.figure),
                "best_over_it": number(each.margin),
                "constraints": [_kept_json(kept) for kept in each.kept],
            }
            for each in verdict.standings
        ],
        "doubts": list(verdict.doubts),
        "flips": list(verdict.flips),
        "ruled_out": [{"arm": each.arm, "why": each.why} for each in verdict.ruled_out],
    }


def inference_json(ratio: Ratio) -> Json | None:
    """What is known of a ratio beside its value and interval; None where it is refused."""
    found = ratio.inference
    if found is None:
        return None
    return {
        "method": found.method,
        "confidence": _share(found.confidence),
        "boots": {"value": found.boots, "unit": "boots", "source": "computed"},
        "requests": {"value": found.requests, "unit": "requests", "source": "computed"},
        "p": _p(found.p, "no interval, so no p"),
        "holm_p": _p(found.holm, "not one of a family"),
        "family": {"value": found.family, "unit": "comparisons", "source": "computed"},
        "told_apart": found.side,
        "minimum_detectable_ratio": number(found.detectable),
        "with_published_boot_noise": number(found.with_prior),
        "noise": _noise(found),
        "shape": _shape(found),
        "by_boot": [
            {"block": block, "ratio": {"value": value, "unit": "ratio", "source": "computed"}}
            for block, value in ratio.boots
        ],
    }


def _noise(found: Inference) -> Json | None:
    split = found.split
    if split is None:
        return None
    untold = "prompts are not the same in every boot"
    return {
        "boot_sd": _sd(split.boot),
        "prompt_sd": {"missing": untold} if split.prompt is None else _sd(split.prompt),
        "repeat_sd": _sd(split.repeat),
        "words": split.words,
        "advice": split.advice,
    }


def _shape(found: Inference) -> Json | None:
    shape = found.shape
    if shape is None:
        return None
    return {
        "median": {"value": shape.median, "unit": "ratio", "source": "computed"},
        "modes": None if shape.modes is None else [_ratio(mode) for mode in shape.modes],
        "drift": None if shape.drift is None else _ratio(shape.drift),
        "outliers": {"value": shape.outliers, "unit": "requests", "source": "computed"},
        "words": list(shape.words),
    }


def _kept_json(kept: Kept) -> Json:
    return {
        "name": kept.name,
        "state": kept.state,
        "wanted": number(kept.wanted),
        "found": number(kept.found),
        "margin": number(kept.margin),
        "wanted_class": kept.wanted_class,
        "found_class": kept.found_class,
        "words": kept.words,
    }


def _constraint(constraint: Constraint) -> Json:
    return {
        "wanted_sessions": number(constraint.wanted),
        "session_tokens": number(constraint.session_tokens),
        "held_sessions": number(constraint.held),
        "quotient_sessions": number(constraint.quotient),
        "margin_sessions": number(constraint.margin),
        "spare_tokens": number(constraint.spare_tokens),
        "admission": constraint.admission,
    }


def _ratio(value: float) -> Json:
    return {"value": value, "unit": "ratio", "source": "computed"}


def _sd(value: float) -> Json:
    return {"value": value, "unit": "ln", "source": "computed"}


def _share(value: float) -> Json:
    return {"value": value, "unit": "ratio", "source": "config"}


def _p(value: float | None, otherwise: str) -> Json:
    return {"missing": otherwise} if value is None else number(Reading.of(value, "p", "computed"))
