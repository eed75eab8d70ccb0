"""SGLang's counts of one response: OpenAI usage, `sglext`, and /generate's `meta_info`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvantage.core import Usage
from kvantage.engines.acceptance import SpeculationCounts
from kvantage.engines.numbers import count, counts, quantity

_ACCEPTED = ("spec_num_correct_drafts", "spec_accept_token_num", "spec_accepted_drafts")
_PROPOSED = ("spec_num_proposed_drafts", "spec_draft_token_num", "spec_proposed_drafts")
_HISTOGRAMS = ("spec_correct_drafts_histogram", "spec_accept_histogram", "spec_acceptance_histogram")
"""Names of the same counts in different versions. Neither includes the bonus token."""


def read_usage(final: Mapping[str, Any], *, reports_cache: bool = False) -> Usage:
    """Counts from the merged last chunks of a stream, or from a whole response.

    `cached_tokens` is in `usage` only with `--enable-cache-report`, and there only where it is not 0: with
    `reports_cache` (the server runs with that flag) an answer with usage and without it had none. Else null
    and absent are 'not reported'; `meta_info` always has it. Speculation counts whose identities break are
    refused as a whole.
    """
    usage, meta, extension = usage_of(final), meta_info(final), sglext(final)
    output = _first(usage, meta, name="completion_tokens")
    details = _mapping(usage.get("completion_tokens_details"))
    spec = speculation_counts(final).believed()
    prompt, cached = _first(usage, meta, name="prompt_tokens"), _cached(usage, meta, extension)
    return Usage(
        prompt_tokens=prompt,
        output_tokens=output,
        reasoning_tokens=_first(details, usage, meta, name="reasoning_tokens"),
        cached_tokens=0 if cached is None and reports_cache and prompt is not None else cached,
        accepted_tokens=spec.accepted,
        drafted_tokens=spec.drafted,
        spec_steps=spec.steps,
        acceptance_histogram=spec.histogram,
        queue_s=quantity(meta.get("queue_time")),
        retractions=_named(meta, ("num_retractions", "total_retractions")),
    )


def speculation_counts(final: Mapping[str, Any]) -> SpeculationCounts:
    """Steps, accepted and proposed drafts and the histogram, as told, under newer and older names.

    Several choices of one request are summed.
    """
    told = _spec_details(final)
    if not told:
        return SpeculationCounts()
    each = [
        SpeculationCounts(
            count(one.get("spec_verify_ct")),
            _named(one, _ACCEPTED),
            _named(one, _PROPOSED),
            next((counts(one[name]) for name in _HISTOGRAMS if name in one), None),
        )
        for one in told
    ]
    return each[0] if len(each) == 1 else _summed(each)


def _summed(each: list[SpeculationCounts]) -> SpeculationCounts:
    def total(values: list[int | None]) -> int | None:
        return None if None in values else sum(value for value in values if value is not None)

    histograms = [one.histogram for one in each]
    longest = max((len(histogram) for histogram in histograms if histogram), default=0)
    together = None
    if all(histograms):
        together = tuple(sum(h[i] for h in histograms if h and i < len(h)) for i in range(longest))
    return SpeculationCounts(
        total([one.steps for one in each]),
        total([one.accepted for one in each]),
        total([one.drafted for one in each]),
        together,
    )


def _spec_details(final: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    extension = sglext(final)
    inner = extension.get("spec_tokens_details")
    if isinstance(inner, list):
        return [one for one in inner if isinstance(one, Mapping)]
    candidates = (_mapping(inner), extension, meta_info(final), final)
    return next(([one] for one in candidates if "spec_verify_ct" in one), [])


def usage_of(final: Mapping[str, Any]) -> Mapping[str, Any]:
    """The OpenAI usage; the answer itself where it carries the counts."""
    usage = _mapping(final.get("usage"))
    return usage or (final if "completion_tokens" in final else usage)


def meta_info(final: Mapping[str, Any]) -> Mapping[str, Any]:
    """`meta_info` of /generate, or of the first choice."""
    return _mapping(final.get("meta_info")) or _mapping(_first_choice(final).get("meta_info"))


def sglext(final: Mapping[str, Any]) -> Mapping[str, Any]:
    """SGLang's own part of an OpenAI answer, wherever a version puts it."""
    return _mapping(final.get("sglext")) or _mapping(_first_choice(final).get("sglext"))


def _first_choice(final: Mapping[str, Any]) -> Mapping[str, Any]:
    choices = final.get("choices")
    return _mapping(choices[0]) if isinstance(choices, list) and choices else {}


def _cached(usage: Mapping[str, Any], meta: Mapping[str, Any], extension: Mapping[str, Any]) -> int | None:
    reported = count(_mapping(usage.get("prompt_tokens_details")).get("cached_tokens"))
    if reported is not None:
        return reported
    told = count(meta.get("cached_tokens"))
    if told is not None:
        return told
    parts = _mapping(extension.get("cached_tokens_details"))
    levels = [
        count(parts.get(level)) for level in ("device", "host", "storage") if parts.get(level) is not None
    ]
    return None if not levels or None in levels else sum(level for level in levels if level is not None)


def _first(*places: Mapping[str, Any], name: str) -> int | None:
    return next((value for place in places if (value := count(place.get(name))) is not None), None)


def _named(told: Mapping[str, Any], names: tuple[str, ...]) -> int | None:
    return next((count(told[name]) for name in names if name in told), None)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
