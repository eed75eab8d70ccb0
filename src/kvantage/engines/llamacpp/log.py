"""llama-server's log as readings, and what follows from it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from kvantage.core import LogReadings, Reading
from kvantage.engines.acceptance import DEAD_LENGTH
from kvantage.engines.llamacpp.scan import Log, RequestTimings, scan

_KEPT = 8
MANY_DRAFTS = 100
"""From so many drafts on, that every one was accepted is remarkable."""


def read_log(lines: Iterable[str]) -> LogReadings:
    """A log's readings, one window a request that drafted, and what follows from them."""
    log = scan(lines)
    readings = start_readings(log) | request_readings(log)
    windows = tuple(_window(request) for request in log.drafted)
    errors = tuple(dict.fromkeys(log.errors))[:_KEPT]
    return LogReadings(readings, windows, tuple(warnings(log)), errors)


def start_readings(log: Log) -> dict[str, Reading]:
    """Pools of target and drafter, slots and context."""
    found: dict[str, Reading] = {}
    full = [pool for pool in log.target if not pool.sliding]
    sliding = [pool for pool in log.target if pool.sliding]
    held = sum(pool.size_bytes for pool in log.target)
    if log.target:
        what = "the target's full and sliding caches" if sliding else "the target's cache"
        found["kv_pool_bytes"] = Reading.of(held, "bytes", "config", note=what)
    if full and full[0].tokens:
        note = "cells, allocated at the start"
        found["kv_pool_tokens"] = Reading.of(full[0].tokens, "tokens", "config", note=note)
        growing = sum(pool.size_bytes for pool in full)
        which = "of the full cache; the sliding one is of fixed size" if sliding else None
        found["kv_bytes_per_token"] = Reading.of(
            growing / full[0].tokens, "bytes/token", "computed", note=which
        )
    if sliding and sliding[0].tokens:
        found["sliding_pool_tokens"] = Reading.of(sliding[0].tokens, "tokens", "config")
    if log.draft:
        drafted = sum(pool.size_bytes for pool in log.draft)
        found["draft_kv_pool_bytes"] = Reading.of(drafted, "bytes", "config", note="the drafter's own caches")
    if log.state_bytes is not None:
        found["state_cache_bytes"] = Reading.of(log.state_bytes, "bytes", "config", note="recurrent states")
    if log.slots is not None:
        found["effective_max_running"] = Reading.of(log.slots, "requests", "config", note="slots")
    context = log.slot_context or (log.contexts[0] if log.contexts and log.slots in (None, 1) else None)
    if context:
        found["context_length"] = Reading.of(context, "tokens", "config", note="of one slot")
    if log.target_weights:
        note = "buffers of the target's weights, copies repacked for the processor included"
        found["weights_bytes"] = Reading.of(log.target_weights, "bytes", "config", note=note)
    if log.draft_weights:
        found["draft_weights_bytes"] = Reading.of(log.draft_weights, "bytes", "config")
    if log.target:
        found["kv_block_tokens"] = Reading.of(1, "tokens", "config", note="no pages: a cell a token")
    if log.ready_s is not None:
        found["boot_s"] = Reading.of(log.ready_s, "s", "log window", note="first line to listening")
    return found


def request_readings(log: Log) -> dict[str, Reading]:
    """Acceptance, speed and prefix hits over all requests of the log."""
    found: dict[str, Reading] = {}
    timed = [request for request in log.requests if request.output_tokens and request.output_ms]
    if timed:
        tokens = sum(request.output_tokens or 0 for request in timed)
        note = f"of {len(timed)} requests"
        found["completion_tokens"] = Reading.of(tokens, "tokens", "log window", note=note)
    speeds = [(r.tok_s, r.output_ms) for r in timed if r.tok_s is not None and r.output_ms]
    if speeds:
        pooled = sum(speed * ms for speed, ms in speeds) / sum(ms for _, ms in speeds)
        note = f"of {len(speeds)} requests, as printed, weighted by their time"
        found["decode_tok_s"] = Reading.of(pooled, "tok/s", "log window", note=note)
    drafted = log.drafted
    accepted, generated = sum(r.accepted or 0 for r in drafted), sum(r.drafted or 0 for r in drafted)
    if drafted:
        note = f"of {len(drafted)} requests"
        found["accepted_tokens"] = Reading.of(accepted, "tokens", "log window", note=note)
        found["drafted_tokens"] = Reading.of(generated, "tokens", "log window", note=note)
        if generated and accepted <= generated:
            rate = accepted / generated
            found["draft_acceptance_rate"] = Reading.of(rate, "accepted/drafted", "log window", note=note)
    found |= step_readings(log, accepted, generated)
    if log.cached:
        note = f"prefix hits, summed over {len(log.cached)} requests; a cold prompt has 1, its BOS"
        found["cached_tokens"] = Reading.of(sum(log.cached.values()), "tokens", "log window", note=note)
    if log.prompts:
        note = f"of {len(log.prompts)} requests"
        found["prompt_tokens"] = Reading.of(sum(log.prompts.values()), "tokens", "log window", note=note)
    return found


@dataclass(frozen=True, slots=True)
class Steps:
    """Steps that drafted, and what they did. `drafted` is None where the lines count it wrongly."""

    steps: float
    accepted: int
    drafted: int | None
    per_position: tuple[float, ...]
    note: str


def steps_of(log: Log, accepted: int, generated: int) -> Steps | None:
    """The number of steps: from the statistics, where they count the same requests as the requests' lines.

    Without them, from each request's printed mean length (steps = accepted / (length - 1)); without those,
    from the lines of single rounds, of which older builds print the drafts as 0.
    """
    told = list(log.statistics.values())
    if told and all(one.gen_drafts and one.acc_tokens is not None and one.gen_tokens for one in told):
        steps = sum(one.gen_drafts or 0 for one in told)
        counts = sum(one.acc_tokens or 0 for one in told), sum(one.gen_tokens or 0 for one in told)
        alone = not log.drafted and all(one.whole for one in told)
        if alone or counts == (accepted, generated):
            positions = told[0].per_position if len(told) == 1 else ()
            return Steps(steps, *counts, positions, f"of {steps} steps that drafted")
    lengths = [one for one in log.drafted if one.length and one.length > 1]
    if lengths and len(lengths) == len(log.drafted):
        each = [(one.accepted or 0) / ((one.length or 2.0) - 1) for one in lengths]
        positions = _pooled([one.per_position for one in lengths], each)
        return Steps(
            sum(each), accepted, generated, positions, f"of {len(lengths)} requests' printed lengths"
        )
    if log.rounds and not log.drafted:
        taken, drafts = sum(one for one, _ in log.rounds), sum(of for _, of in log.rounds)
        whole = all(one <= of for one, of in log.rounds)
        note = f"of {len(log.rounds)} single rounds"
        return Steps(len(log.rounds), taken, drafts if whole else None, (), note)
    return None


def _pooled(rates: Sequence[tuple[float, ...]], weights: Sequence[float]) -> tuple[float, ...]:
    """Rates of each position over requests, weighted by their steps; none where a request has none."""
    if not all(rates) or not sum(weights):
        return ()
    depth = max(map(len, rates))
    return tuple(
        sum((one[place] if place < len(one) else 0.0) * w for one, w in zip(rates, weights, strict=True))
        / sum(weights)
        for place in range(depth)
    )


def step_readings(log: Log, accepted: int, generated: int) -> dict[str, Reading]:
    """What needs the number of steps."""
    told = steps_of(log, accepted, generated)
    if told is None or not told.steps:
        if generated and not accepted:
            note = "incl. bonus token: no draft was accepted"
            return {"acceptance_length": Reading.of(1.0, "tokens/step", "log window", note=note)}
        return {}
    found: dict[str, Reading] = {}
    if float(told.steps).is_integer():
        found["spec_steps"] = Reading.of(told.steps, "steps", "log window", note="steps that drafted")
    if not log.drafted:
        found["accepted_tokens"] = Reading.of(told.accepted, "tokens", "log window", note=told.note)
        if told.drafted:
            found["drafted_tokens"] = Reading.of(told.drafted, "tokens", "log window", note=told.note)
            rate = told.accepted / told.drafted
            found["draft_acceptance_rate"] = Reading.of(
                rate, "accepted/drafted", "log window", note=told.note
            )
    length = 1 + told.accepted / told.steps
    note = f"incl. bonus token, {told.note}"
    found["acceptance_length"] = Reading.of(length, "tokens/step", "log window", note=note)
    if told.drafted:
        most = f"; at most {log.most_drafts}" if log.most_drafts else ""
        note = f"drafted / steps that drafted{most}"
        found["draft_tokens_per_step"] = Reading.of(
            told.drafted / told.steps, "tokens/step", "computed", note=note
        )
    # A list has no place in a Reading: each position is one.
    for place, rate in enumerate(told.per_position):
        found[f"acceptance_at_{place}"] = Reading.of(rate, "share of steps", "log window")
    return found


def _window(request: RequestTimings) -> dict[str, float]:
    rate = request.accepted / request.drafted if request.accepted is not None and request.drafted else None
    told = {
        "acceptance_length": request.length,
        "accepted_tokens": request.accepted,
        "drafted_tokens": request.drafted,
        "draft_acceptance_rate": rate,
        "generation_tok_s": request.tok_s,
    }
    return {name: float(value) for name, value in told.items() if value is not None}


def warnings(log: Log) -> Iterator[str]:
    """Speculation that is silently off, acceptance that is made up, a drafter that is dead."""
    if log.failed is not None:
        yield f"speculation is off, and the server serves all the same: {log.failed}"
    elif log.off and log.drafter_loaded:
        yield (
            "speculation is off, and the server serves all the same: a draft model is loaded, but no"
            " --spec-type says to draft with it"
        )
    if log.synthetic is not None:
        yield f"simulated acceptance: {log.synthetic}: no acceptance was measured, and outputs are not valid"
    if log.broken:
        yield f"speculation counts contradict each other and are refused: {log.broken[0]}"
    drafted = sum(request.drafted or 0 for request in log.drafted)
    accepted = sum(request.accepted or 0 for request in log.drafted)
    if drafted and 1 + accepted / drafted <= DEAD_LENGTH:
        yield f"dead drafter: {accepted} of {drafted} drafts accepted; it costs and buys nothing"
    if drafted >= MANY_DRAFTS and accepted == drafted:
        yield (
            f"every one of {drafted} drafts was accepted: the drafter is the target itself, or the output"
            " repeats; look at the text"
        )
