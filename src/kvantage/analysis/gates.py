"""What voids a cell: named checks, each with its reason in figures.

A void cell is shown with its reasons and is averaged nowhere. Some failures are findings as well: an
eviction says what the pool cannot hold.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from kvantage.analysis.acceptance import dead
from kvantage.analysis.clocks import step_in
from kvantage.analysis.evidence import Evidence
from kvantage.analysis.queueing import Failure, no_queue, no_queue_cold, too_small
from kvantage.core.cell import CellStatus, Gate

CACHED_SHARE = 0.01
LAG_SHARE = 0.05
LAG_SECONDS = 0.002
FOREIGN_SHARE = 0.01
FOREIGN_TOKENS = 64


Check = Callable[[Evidence], Failure | None]


def requests_ok(evidence: Evidence) -> Failure | None:
    """Every measured request of a finished attempt succeeded, and there is at least one."""
    cell = evidence.cell
    if not cell.windows:
        told = "; ".join(note for window in cell.broken for note in window.notes)
        return Failure(f"broken off before it finished{': ' + told if told else ''}")
    if not evidence.number:
        return Failure("no measured request")
    failed = cell.rows[~evidence.requests.ok[cell.rows]]
    if not len(failed):
        return None
    words = str(evidence.requests.error[failed[0]]) or "no reason told"
    return Failure(f"{len(failed)} of {evidence.number} requests failed: {words}")


def drafts_moved(evidence: Evidence) -> Failure | None:
    """Speculation that is on drafts, and is accepted now and then; speculation that is off does not draft."""
    drafted = evidence.acceptance.drafted.value
    if drafted is None:
        drafted = evidence.moved("drafts")
    if not evidence.drafting:
        off = evidence.moved("drafts") or float(np.nansum(evidence.column("drafted_tokens")))
        return Failure(f"speculation is off, yet {off:,.0f} drafts were counted") if off else None
    if drafted is None:
        steps = evidence.column("spec_steps")
        if np.isfinite(steps).any():
            drafted = float(np.nansum(steps))
    if drafted is None and not evidence.acceptance.per_drafting_step.known:
        return Failure("speculation is on, and nothing that the server reports shows a draft")
    if drafted == 0:
        return Failure("speculation is on, and no draft was counted")
    words = dead(evidence.acceptance)
    return Failure(words) if words else None


def cache_cold(evidence: Evidence) -> Failure | None:
    """A cold cell finds no more in the cache than expected, within 1 % of its prompt tokens."""
    prompt, cached = evidence.column("prompt_tokens"), evidence.column("cached_tokens")
    allowed = np.nan_to_num(evidence.column("expected_high"))
    total = float(np.nansum(prompt))
    if np.isnan(cached).all():
        hits, queries = evidence.moved("prefix_hits"), evidence.moved("prefix_queries")
        if hits is None or not queries:
            return None
        beyond, total = hits - float(allowed.sum()), queries
        found = hits
    else:
        beyond = float(np.nansum(np.maximum(cached - allowed, 0)))
        found = float(np.nansum(cached))
    if total <= 0 or beyond / total <= CACHED_SHARE:
        return None
    return Failure(
        f"{found:,.0f} of {total:,.0f} prompt tokens came from the cache ({found / total:.1%}), "
        f"{beyond:,.0f} more than expected on a cold cell"
    )


def cache_warm(evidence: Evidence) -> Failure | None:
    """A repeat finds its documents in the cache, as far as a sound cache can serve them."""
    cached, low = evidence.column("cached_tokens"), evidence.column("expected_low")
    number = evidence.number
    if np.isnan(cached).any():
        untold = int(np.isnan(cached).sum())
        return Failure(f"the server did not report cached tokens for {untold} of {number} requests")
    if np.isnan(low).any():
        return Failure("no expected hit was recorded, so a hit cannot be told from a miss")
    missed = cached < low
    if not missed.any():
        return None
    gone = int(missed.sum())
    short = float((low - cached)[missed].sum())
    reason = (
        f"{gone} of {number} requests missed the cache: {float(cached.sum()):,.0f} tokens served, "
        f"at least {float(low.sum()):,.0f} expected, {short:,.0f} short"
    )
    return Failure(reason, _why_missed(evidence, gone, number, float(cached.sum())))


def no_retraction(evidence: Evidence) -> Failure | None:
    """No request was thrown out and run again."""
    preempted = evidence.moved("preemptions")
    if preempted:
        return Failure(f"{preempted:,.0f} preemptions", too_small(evidence))
    retracted = float(np.nansum(evidence.column("retractions")))
    if retracted:
        return Failure(f"{retracted:,.0f} retractions", too_small(evidence))
    beyond = evidence.column("cached_tokens") > evidence.column("prompt_tokens")
    if beyond.any():
        return Failure(
            f"{int(beyond.sum())} requests have more cached than prompt tokens: they were retracted",
            too_small(evidence),
        )
    return None


def effective_concurrency(evidence: Evidence) -> Failure | None:
    """The server runs as many requests at once as the cell offers."""
    effective = evidence.fact("effective_max_running")
    offered = evidence.cell.key.concurrency
    if effective is None or effective >= offered:
        return None
    return Failure(
        f"offered concurrency {offered} > effective {effective:.0f}: the rest measured a queue",
        f"the server runs {effective:.0f} requests at once",
    )


def client_on_time(evidence: Evidence) -> Failure | None:
    """The client's own p99 lag is at most 2 ms, or 5 % of the cell's inter-token latency."""
    lag = evidence.client_lag_s()
    if lag is None:
        return None
    gaps = evidence.timing.gap[np.isfinite(evidence.timing.gap)]
    allowed = max(LAG_SECONDS, LAG_SHARE * float(np.median(gaps)) if gaps.size else 0.0)
    if lag <= allowed:
        return None
    return Failure(f"the client was late by {lag * 1e3:.1f} ms at p99, {allowed * 1e3:.1f} ms allowed")


def foreign_traffic(evidence: Evidence) -> Failure | None:
    """The server's counters moved by our own requests and by nobody else's."""
    rows = np.concatenate((evidence.cell.rows, evidence.cell.warmups))
    finished = evidence.moved("requests_finished")
    if finished is not None and finished > len(rows):
        return Failure(f"the server finished {finished:,.0f} requests, {len(rows)} of them ours")
    told = [window.own_prompt_tokens for window in evidence.cell.windows]
    known = [number for number in told if number is not None]
    own = float(sum(known)) if len(known) == len(told) else float(evidence.requests.prompt_tokens[rows].sum())
    for name, ours in (
        ("prompt_tokens", own),
        ("generation_tokens", float(evidence.requests.output_tokens[rows].sum())),
    ):
        moved = evidence.moved(name)
        if moved is None or not np.isfinite(ours):
            continue
        if moved > ours * (1 + FOREIGN_SHARE) + FOREIGN_TOKENS:
            words = name.replace("_", " ")
            return Failure(f"the server counted {moved:,.0f} {words}, {ours:,.0f} of them ours")
    return None


def nonempty_output(evidence: Evidence) -> Failure | None:
    """Every answer has content or reasoning."""
    requests, rows = evidence.requests, evidence.cell.rows
    empty = rows[requests.ok[rows] & ~requests.answered(rows)]
    if not len(empty):
        return None
    why = str(requests.finish_reason[empty[0]]) or "not told"
    return Failure(f"{len(empty)} of {evidence.number} answers were empty (finish reason {why})")


def counted_tokens(evidence: Evidence) -> Failure | None:
    """The server counts the output tokens, and they are as many as were asked for."""
    output = evidence.column("output_tokens")
    untold = int(np.isnan(output).sum())
    if untold:
        return Failure(f"output tokens not reported for {untold} of {evidence.number} requests")
    if evidence.asked is None:
        return None
    off = output != evidence.asked
    if not off.any():
        return None
    return Failure(
        f"{int(off.sum())} of {evidence.number} answers have another length than asked: "
        f"{float(output[off][0]):,.0f} instead of {evidence.asked:,} tokens"
    )


def first_token_seen(evidence: Evidence) -> Failure | None:
    """Every answer began: of a few tokens, blanks are an answer too."""
    silent = int((evidence.timing.first_ns < 0).sum())
    return Failure(f"{silent} of {evidence.number} answers never began") if silent else None


def uncached_first(evidence: Evidence) -> Failure | None:
    """Of a ladder, what was sent for the first time finds no more in the cache than expected.

    Where the server counts hits only in all, the repeats' are allowed for.
    """
    if np.isnan(evidence.column("cached_tokens")).all():
        return cache_cold(evidence)
    first = evidence.cell.rows[evidence.requests.repeat[evidence.cell.rows] == 0]
    return cache_cold(replace(evidence, cell=replace(evidence.cell, rows=first)))


def no_retraction_in_room(evidence: Evidence) -> Failure | None:
    """Retractions void a loop that fits in the pool; in one that does not they are part of its queue."""
    return None if too_small(evidence) else no_retraction(evidence)


def clock_steady(evidence: Evidence) -> Failure | None:
    """No clock under the server changes its level while requests are at work."""
    if evidence.looks is None:
        return None
    clock, words = step_in(evidence.looks)
    return Failure(words or "a clock changed") if clock == "stepped" else None


def not_simulated(evidence: Evidence) -> Failure | None:
    """The server does not make its acceptance up. Where simulation was asked for, figures are marked."""
    words = evidence.facts.speculation.get("simulated") if evidence.facts else None
    if not words:
        return None
    return Failure(f"acceptance is simulated{'' if words is True else f': {words}'}")


_EVERY: dict[Gate, Check] = {
    "requests_ok": requests_ok,
    "nonempty_output": nonempty_output,
    "drafts_moved": drafts_moved,
    "not_simulated": not_simulated,
    "counted_tokens": counted_tokens,
    "effective_concurrency": effective_concurrency,
    "no_queue": no_queue,
    "no_retraction": no_retraction,
    "client_on_time": client_on_time,
    "clock_steady": clock_steady,
    "foreign_traffic": foreign_traffic,
}

PHASE_GATES: dict[str, dict[Gate, Check]] = {
    "probes": {
        "requests_ok": requests_ok,
        "not_simulated": not_simulated,
        "effective_concurrency": effective_concurrency,
    },
    "short": {**_EVERY, "cache_cold": cache_cold},
    "cold": {**_EVERY, "cache_cold": cache_cold, "no_queue": no_queue_cold},
    "recheck": _EVERY,
    "ttft": {
        **{name: check for name, check in _EVERY.items() if name != "drafts_moved"},
        "nonempty_output": first_token_seen,
        "cache_cold": uncached_first,
    },
    "sweep": {
        **{
            name: check for name, check in _EVERY.items() if name not in ("effective_concurrency", "no_queue")
        },
        "no_retraction": no_retraction_in_room,
        "cache_cold": cache_cold,
    },
    "repeat": {**_EVERY, "cache_warm": cache_warm},
}


def judge_cell(evidence: Evidence, simulation_allowed: bool = False) -> CellStatus:
    """Run the gates of the cell's phase. A cell without requests fails `requests_ok` and no other."""
    gates = PHASE_GATES.get(evidence.cell.key.phase, _EVERY)
    reasons: list[str] = []
    findings: list[str] = []
    for name, check in gates.items():
        if name == "not_simulated" and simulation_allowed:
            continue
        if reasons and not evidence.number:
            break
        failure = check(evidence)
        if failure is not None:
            reasons.append(f"{name}: {failure.reason}")
            if failure.finding and failure.finding not in findings:
                findings.append(failure.finding)
    if not reasons:
        return CellStatus("ok")
    told = [each for each in findings if not any(each in other and each != other for other in findings)]
    return CellStatus("void", tuple(reasons), "; ".join(told) or None)


def _why_missed(evidence: Evidence, gone: int, number: int, served: float) -> str:
    small = too_small(evidence)
    if small:
        return f"evicted: {gone} of {number} documents no longer resident; {small}"
    if served == 0:
        asked = float(np.nansum(evidence.column("prompt_tokens")))
        return f"no prefix reuse: 0 of {asked:,.0f} prompt tokens served from the cache{_roomy(evidence)}"
    return f"{gone} of {number} documents not served from the cache{_roomy(evidence)}"


def _roomy(evidence: Evidence) -> str:
    needed, pool = evidence.needed_tokens(), evidence.fact("kv_pool_tokens")
    if needed is None or pool is None:
        return ""
    return f", although the pool of {pool:,.0f} tokens holds the {needed:,.0f} needed"
