"""A span of the server's log as readings."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping

from kvantage.core import LogReadings, Reading
from kvantage.engines.numbers import GIB
from kvantage.engines.vllm.boot import BootLog, boot_log
from kvantage.engines.vllm.death import LONGEST, MOST, causes
from kvantage.engines.vllm.facts import DERIVED
from kvantage.engines.vllm.lines import read_line
from kvantage.engines.vllm.windows import counted, windows

_NOTABLE = re.compile(
    r"(won't work with speculative decoding|[Dd]isabl\w+ prefix caching|prefix caching to be disabled"
    r"|overriding user-specified block_size|(?:is|was|been) preempted"
    r"|Failed to reset prefix cache|scaling factor of 1\.0|[Ss]peculative decoding is (?:disabled|off)"
    r"|Overriding draft model max model len|capped to)"
)

CEILING = 0.999
DEAD = 1.01
LEAST_READABLE = 1.05
"""Below this the two decimals of a printed length do not tell its steps."""


def read_log(raw: Iterable[str]) -> LogReadings:
    """Windows, boot figures, warnings and errors of any span of lines."""
    lines = list(raw)
    told = windows(lines)
    notable = [
        line.text.strip()
        for line in map(read_line, lines)
        if line.level in ("", "INFO", "WARNING") and _NOTABLE.search(line.text)
    ]
    return LogReadings(
        readings=boot_readings(boot_log(lines)) | pooled(told),
        windows=told,
        warnings=tuple(dict.fromkeys([*simulated(lines), *no_room(lines), *notable])) + suspicions(told),
        errors=tuple(text[:LONGEST] for text in causes(lines)[:MOST]),
    )


def boot_readings(log: BootLog) -> dict[str, Reading]:
    """Figures of the boot, where the span holds them."""
    readings: dict[str, Reading] = {}
    if log.pool_tokens is not None:
        note = DERIVED if log.tokens_agree is False else None
        readings["kv_pool_tokens"] = Reading.of(log.pool_tokens, "tokens", "config", note=note)
    elif (size := log.block_tokens_by_concurrency) is not None and log.pool_blocks:
        note = f"{log.pool_blocks} blocks of {size} tokens, which the printed concurrency tells"
        readings["kv_pool_tokens"] = Reading.of(log.pool_blocks * size, "tokens", "computed", note=note)
    if log.max_concurrency is not None:
        length = f"requests of {log.concurrency_length:,} tokens"
        readings["max_concurrency"] = Reading.of(log.max_concurrency, length, "config")
    if (binding := log.binding_kv_bytes) is not None:
        note = "the least of all ranks" if len(log.kv_bytes) > 1 else None
        readings["kv_available_bytes"] = Reading.of(binding, "bytes", "config", note=note)
    if log.concurrency_length or log.context_length:
        length_ = log.concurrency_length or log.context_length or 0
        readings["context_length"] = Reading.of(length_, "tokens", "config")
    return readings


def pooled(told: Iterable[Mapping[str, float]]) -> dict[str, Reading]:
    """Acceptance over all windows, by their counts, never by averaging lines.

    acceptance_length counts the bonus token and only steps that drafted; `low` and `high` are the
    lowest and the highest window's.
    """
    each = counted(told)
    drafted = sum(window["drafted_tokens"] for window in each)
    if not drafted:
        return pooled_by_rates(told)
    readings = {"drafted_tokens": Reading.of(drafted, "tokens", "log window")}
    lengths = [window["acceptance_length"] for window in each if "acceptance_length" in window]
    steps = [drafting_steps(window) for window in each]
    if len(lengths) == len(each) and all(steps):
        emitted = sum((n or 0) * length for n, length in zip(steps, lengths, strict=True))
        readings["acceptance_length"] = Reading.of(
            emitted / sum(n or 0 for n in steps),
            "tokens/step",
            "log window",
            low=min(lengths),
            high=max(lengths),
            note="incl. bonus, drafting steps",
        )
    accepted = [window["accepted_tokens"] for window in each if "accepted_tokens" in window]
    if len(accepted) == len(each):
        readings["accepted_tokens"] = Reading.of(sum(accepted), "tokens", "log window")
        readings["draft_acceptance_rate"] = Reading.of(sum(accepted) / drafted, "", "log window")
    return readings


def pooled_by_rates(told: Iterable[Mapping[str, float]]) -> dict[str, Reading]:
    """Acceptance of windows of which a post kept no counts: weighted by what they drafted a second.

    Several windows of which that is not known stay unread, since their weights are not.
    """
    each = [window for window in told if "acceptance_length" in window and "drafted_tokens" not in window]
    weights = [window.get("drafted_tok_s", 0.0) for window in each]
    if len(each) == 1:
        weights = [1.0]
    if not each or not all(weights):
        return {}
    lengths = [window["acceptance_length"] for window in each]
    length = sum(map(math.prod, zip(lengths, weights, strict=True))) / sum(weights)
    note = "incl. bonus, drafting steps; as printed, the line has no counts"
    readings = {
        "acceptance_length": Reading.of(
            length, "tokens/step", "log window", low=min(lengths), high=max(lengths), note=note
        )
    }
    rates = [window.get("draft_acceptance_rate") for window in each]
    if len(each) == 1 and rates[0] is not None:
        readings["draft_acceptance_rate"] = Reading.of(rates[0], "", "log window", note="as printed")
    return readings


def drafting_steps(window: Mapping[str, float]) -> float | None:
    """Steps that drafted: as counted, or (drafts of varying length) as accepted / (printed length - 1)."""
    if "drafts" in window:
        return window["drafts"]
    length, accepted = window.get("acceptance_length", 1.0), window.get("accepted_tokens", 0.0)
    return accepted / (length - 1) if length > LEAST_READABLE else None


def suspicions(told: Iterable[Mapping[str, float]]) -> tuple[str, ...]:
    """What the windows look like that no honest drafter does."""
    windows_told = list(told)
    each = counted(windows_told) or [
        window for window in windows_told if "acceptance_length" in window and "drafted_tokens" not in window
    ]
    found = []
    ceiling = sum(window.get("draft_acceptance_rate", 0.0) >= CEILING for window in each)
    if ceiling:
        found.append(
            f"every draft was accepted in {ceiling} of {len(each)} log windows: look for repeating output"
        )
    pool = pooled(each)
    length = pool["acceptance_length"].value if "acceptance_length" in pool else None
    if length is None and each:
        length = max(window.get("acceptance_length", 2.0) for window in each)
    if length is not None and length <= DEAD:
        found.append(
            f"dead drafter: acceptance length {length:.2f} over {len(each)} log windows with drafts"
            " proposed; it costs and buys nothing"
        )
    return tuple(found)


def no_room(lines: Iterable[str]) -> tuple[str, ...]:
    """That the weights left less than nothing for the pool, where the log says so."""
    least = min(boot_log(lines).kv_bytes.values(), default=0.0)
    if least >= 0:
        return ()
    return (
        f"no memory was left for the KV cache: {least / GIB:.2f} GiB after weights and activations, so there"
        " is no pool (--gpu-memory-utilization, a smaller model or KV type)",
    )


def simulated(lines: Iterable[str]) -> tuple[str, ...]:
    """That acceptance was faked, where the log's arguments say so."""
    how = boot_log(lines).simulated
    return () if how is None else (f"simulated acceptance: {how}: no acceptance was measured",)
