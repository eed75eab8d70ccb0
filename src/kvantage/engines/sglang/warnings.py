"""What follows from SGLang's own lines, said to the person in whole sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kvantage.engines.acceptance import DEAD_LENGTH
from kvantage.engines.sglang.boot import Boot
from kvantage.engines.sglang.pools import Pools
from kvantage.engines.sglang.windows import CEILING_WINDOWS, FULL, Acceptance, Window


def boot_warnings(boot: Boot, pools: Pools | None) -> Iterator[str]:
    """What the server changed by itself, and what was asked and not granted."""
    if boot.reset_running is not None:
        yield f"SGLang set max_running_requests to {boot.reset_running} because speculation is on"
    for change in boot.changed:
        yield f"SGLang changed a setting by itself: {change[0].lower()}{change[1:]}"
    yield from _clamps(boot)
    if boot.ceiling is not None:
        asked, profiled = boot.ceiling
        yield (
            f"the pool's ceiling of {asked} tokens (max_total_tokens) is above what was profiled: "
            f"SGLang uses {profiled} tokens"
        )
    yield from _short_pool(boot, pools)
    yield from settings_warnings(boot.arguments)
    if boot.simulated is not None:
        yield (
            f"simulated acceptance ({boot.simulated}): no acceptance was measured, and outputs are not valid;"
            " usable for step cost only"
        )
    if boot.retracted:
        yield f"{boot.retracted} requests were retracted: the pool was full, which voids a speed"


def _clamps(boot: Boot) -> Iterator[str]:
    asked, granted = boot.requested_running, boot.effective_running
    for cap in boot.caps:
        slots = "" if cap.slots is None else f": {cap.slots} state slots, {cap.slots_per_request} a request"
        wanted = asked if asked and asked > cap.running else None
        need = ""
        if wanted and cap.slots_per_request:
            need = f"; {wanted} at once need {cap.slots_for(wanted)} slots"
        elif cap.slots_per_request:
            need = f"; N at once need {cap.slots_per_request} x N slots"
        yield (
            f"max_running_requests is capped to {cap.running} by the state cache{slots}{need}"
            " (--max-mamba-cache-size)"
        )
    if granted is not None:
        yield from clamped_running(asked, granted)
        if boot.caps and not (asked and asked > granted):
            yield f"rows at a concurrency above {granted} measured a queue: the server ran {granted}"


def clamped_running(asked: int | None, granted: int) -> Iterator[str]:
    """Fewer requests run at once than were asked for."""
    if asked is not None and asked > granted:
        yield (
            f"clamped: {asked} running requests were asked for and {granted} granted, so rows at concurrency"
            f" {asked} measured a queue: the server ran {granted} and {asked - granted} queued"
        )


def _short_pool(boot: Boot, pools: Pools | None) -> Iterator[str]:
    contexts, totals = boot.limit("context_len"), boot.limit("max_total_num_tokens")
    pool = min(totals) if totals else (pools.full.tokens if pools else None)
    if contexts and pool is not None:
        yield from short_pool(int(pool), int(max(contexts)))


def short_pool(pool_tokens: int, context_length: int) -> Iterator[str]:
    """One request of full length does not fit."""
    if pool_tokens < context_length:
        yield (
            f"the pool of {pool_tokens} tokens is smaller than the context length of {context_length}: "
            "a full-length request cannot fit"
        )


def settings_warnings(resolved: dict[str, object]) -> Iterator[str]:
    """Settings that make figures other than they seem."""
    for name in ("speculative_accept_threshold_single", "speculative_accept_threshold_acc"):
        value = resolved.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and value < 1:
            yield f"lossy acceptance: {name} is {value:g}, below 1, so the output is not the target's own"
    if (
        str(resolved.get("speculative_algorithm")).upper() == "DFLASH"
        and resolved.get("min_free_slots_delay") is None
    ):
        running = resolved.get("max_running_requests")
        if isinstance(running, int) and running >= 8:
            yield (
                "SGLang delays prefills while DFLASH is on (min_free_slots_delay was left to it); "
                "--min-free-slots-delay 1 turns that off"
            )


def window_warnings(windows: Sequence[Window], acceptance: Acceptance | None) -> Iterator[str]:
    """What the decode reports show."""
    full = [w.report for w in windows if (w.report.queue or 0) > 0 and (w.report.usage or 0) >= FULL]
    waiting = [w.report for w in windows if (w.report.queue or 0) > 0]
    if full:
        worst = max(full, key=lambda report: report.queue or 0)
        yield (
            f"KV-bound: {worst.queue} requests queued with {worst.usage or 0:.0%} of the pool in use"
            f" (queue > 0 and usage >= {FULL:g}): the pool limits how many run, {worst.running} here"
        )
    elif waiting:
        worst = max(waiting, key=lambda report: report.queue or 0)
        if worst.running:
            yield (
                f"rows at concurrency {worst.running + (worst.queue or 0)} measured a queue: the server ran "
                f"{worst.running} and {worst.queue} waited"
            )
    if acceptance is not None:
        yield from acceptance_warnings(acceptance, windows)
    timed = [w for w in windows if w.report.throughput is not None]
    if timed and all(w.steady is False for w in timed):
        yield (
            "no speed in this log: every decode report's throughput spans a prefill, an idle gap or a change"
            " of batch, and is excluded"
        )


def acceptance_warnings(acceptance: Acceptance, windows: Sequence[Window]) -> Iterator[str]:
    """A dead drafter, a suspicious ceiling, a rate of the older formula."""
    if round(acceptance.length, 2) <= DEAD_LENGTH:
        yield (
            f"dead drafter: acceptance length {acceptance.length:.2f} over {acceptance.windows} reports with"
            " drafts proposed; it costs and buys nothing"
        )
    if acceptance.at_ceiling >= CEILING_WINDOWS:
        tokens = [w.report.tokens for w in windows if w.report.tokens]
        grown = (
            f", {tokens[-1] - tokens[-2]} tokens a report"
            if len(tokens) > 1 and tokens[-1] > tokens[-2]
            else ""
        )
        yield (
            f"degenerate output suspected: {acceptance.at_ceiling} reports in a row accept every draft"
            f"{grown}. Repetition does that: look at the text before believing this speed"
        )
    if acceptance.formula == "(m+1)/D":
        yield (
            "accept rate is printed by SGLang's older formula, (accepted + 1)/D, biased up: compare"
            " acceptance lengths, or take (AL - 1)/(D - 1)"
        )
    elif acceptance.width is None and acceptance.length > DEAD_LENGTH:
        yield (
            "accept rate fits both of SGLang's formulas, m/(D-1) and the older (m+1)/D: it is shown as"
            " printed; compare acceptance lengths"
        )
