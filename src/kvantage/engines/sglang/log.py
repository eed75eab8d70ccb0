"""SGLang's log as readings."""

from __future__ import annotations

from collections.abc import Iterable

from kvantage.core import LogReadings, Reading
from kvantage.engines.numbers import GIB
from kvantage.engines.sglang.boot import Boot, read_boot
from kvantage.engines.sglang.death import death_lines
from kvantage.engines.sglang.finished import finished_of, request_readings
from kvantage.engines.sglang.lines import Report, logical_lines, plain, read_report
from kvantage.engines.sglang.pools import HALF_DIGIT_BYTES, Pools, pools_of
from kvantage.engines.sglang.warnings import boot_warnings, window_warnings
from kvantage.engines.sglang.windows import Acceptance, acceptance_of, bracket_pool, speed_of, windows_of


def read_log(lines: Iterable[str]) -> LogReadings:
    """Everything that a log of any version says. Never raises; what is not said is not a key."""
    physical = [text for line in lines for text in line.split("\n")]
    logical = list(logical_lines(physical))
    reports = [report for line in logical if (report := read_report(line)) is not None]
    boot = read_boot(logical)
    windows = windows_of(reports, from_start=boot.fired_up is not None)
    acceptance = acceptance_of(windows, boot.width)
    pools = pools_of(boot, speculating=acceptance is not None)
    readings = boot_readings(boot, pools)
    if acceptance is not None:
        readings |= acceptance_readings(acceptance)
    else:
        readings |= request_readings(finished_of(logical))
    if "kv_pool_tokens" not in readings and (bracket := bracket_pool(windows)) is not None:
        readings["kv_pool_tokens"] = Reading.of(
            bracket.estimate,
            "tokens",
            "computed",
            low=bracket.low,
            high=bracket.high,
            note="tokens in use / their rounded share: a bracket, not the pool as reported",
        )
    if (speed := speed_of(windows)) is not None:
        readings["decode_tok_s"] = Reading.of(speed.tok_s, "tok/s", "log window", note=speed.note)
    readings |= traffic_readings(reports)
    warnings = (*boot_warnings(boot, pools), *window_warnings(windows, acceptance))
    return LogReadings(
        readings, tuple(w.plain() for w in windows), warnings, death_lines(map(plain, physical))
    )


_STATE_WORDS = {
    "state_cache_bytes": "convolution and recurrent states of hybrid layers",
    "state_buffer_bytes": "states of drafts in flight",
}


def boot_readings(boot: Boot, pools: Pools | None) -> dict[str, Reading]:
    """Pools, state caches and limits, as granted."""
    found: dict[str, Reading] = {}
    totals, contexts = boot.limit("max_total_num_tokens"), boot.limit("context_len")
    if totals:
        note = (
            None if len(totals) == 1 else f"{len(totals)} data-parallel pools, the smallest {min(totals):g}"
        )
        found["kv_pool_tokens"] = Reading.of(sum(totals), "tokens", "config", note=note)
    if pools is not None:
        found |= pool_readings(pools, with_tokens="kv_pool_tokens" not in found)
    if boot.full_layer_tokens is not None:
        of_full_layers = Reading.of(boot.full_layer_tokens, "tokens", "config", note="of its full layers")
        found.setdefault("kv_pool_tokens", of_full_layers)
    if boot.sliding_layer_tokens is not None:
        of_sliding = Reading.of(boot.sliding_layer_tokens, "tokens", "config", note="of the sliding layers")
        found.setdefault("sliding_pool_tokens", of_sliding)
    if boot.both_pools_bytes is not None and pools is None:
        note = "the target's full and sliding pools, on one rank; rounded"
        found["kv_pool_bytes"] = rounded(boot.both_pools_bytes, note)
    if boot.bytes_per_token is not None:
        note = "of a token in every pool of its latents, as SGLang counts it"
        cost = Reading.of(boot.bytes_per_token, "bytes/token", "config", note=note)
        found.setdefault("kv_bytes_per_token", cost)
    for name, by_rank in (("state_cache_bytes", boot.state_bytes), ("state_buffer_bytes", boot.buffer_bytes)):
        if by_rank:
            note = f"{_STATE_WORDS[name]}, on one rank; rounded"
            found[name] = rounded(max(by_rank.values()), note)
    if left := boot.limit("available_gpu_mem"):
        found["memory_left_bytes"] = rounded(min(left) * GIB, "device memory that nothing holds; rounded")
    if contexts:
        found["context_length"] = Reading.of(max(contexts), "tokens", "config")
    if (asked := boot.requested_running) is not None:
        found["requested_max_running"] = Reading.of(asked, "requests", "config")
    if (granted := boot.effective_running) is not None:
        found["effective_max_running"] = Reading.of(granted, "requests", "config")
    if (page := boot.page) is not None:
        found["kv_block_tokens"] = Reading.of(page, "tokens", "config")
    if boot.weights:
        target, *draft = max(boot.weights.values(), key=lambda loads: loads[0][1])
        found["weights_bytes"] = rounded(target[1], f"{target[0]}, on one rank; rounded")
        if draft:
            found["draft_weights_bytes"] = rounded(draft[0][1], f"{draft[0][0]}, on one rank; rounded")
    if boot.boot_s is not None:
        found["boot_s"] = Reading.of(boot.boot_s, "s", "log window", note="first line to 'ready to roll'")
    return found


def rounded(size: float, note: str) -> Reading:
    """Bytes that the log prints as GiB with two digits."""
    low = max(0.0, size - HALF_DIGIT_BYTES)
    return Reading.of(size, "bytes", "config", low=low, high=size + HALF_DIGIT_BYTES, note=note)


def pool_readings(pools: Pools, *, with_tokens: bool) -> dict[str, Reading]:
    """The binding rank's pools in bytes and tokens."""
    found: dict[str, Reading] = {}
    tokens, held, slack = pools.full.tokens, pools.target_bytes, pools.rounding_bytes
    where = "on each rank" if pools.ranks == 1 else f"on the smallest of {pools.ranks} ranks"
    what = "the target's full and sliding pools" if pools.sliding else "the target's pool"
    if with_tokens and tokens is not None:
        found["kv_pool_tokens"] = Reading.of(tokens, "tokens", "config", note=f"{what}, {where}")
    found["kv_pool_bytes"] = Reading.of(
        held, "bytes", "config", low=max(held - slack, 0), high=held + slack, note=f"{what}, {where}; rounded"
    )
    if tokens:
        found["kv_bytes_per_token"] = Reading.of(
            held / tokens,
            "bytes/token",
            "computed",
            low=max(held - slack, 0) / tokens,
            high=(held + slack) / tokens,
            note=f"bytes of {what} / its tokens, {where}",
        )
    if pools.sliding and pools.sliding.tokens is not None:
        found["sliding_pool_tokens"] = Reading.of(pools.sliding.tokens, "tokens", "config", note=where)
    if pools.draft:
        slack = 2 * HALF_DIGIT_BYTES * len(pools.draft)
        drafted = pools.draft_bytes
        note = f"the drafter's own pool, told by {pools.by}; rounded"
        found["draft_kv_pool_bytes"] = Reading.of(
            drafted, "bytes", "config", low=max(drafted - slack, 0), high=drafted + slack, note=note
        )
    return found


def acceptance_readings(acceptance: Acceptance) -> dict[str, Reading]:
    """Acceptance over all reports of the log."""
    over = f"{acceptance.windows} decode reports, weighted by their running requests"
    found = {
        "acceptance_length": Reading.of(
            acceptance.length, "tokens/step", "log window", note=f"incl. bonus token; {over}"
        )
    }
    if acceptance.rate is not None:
        how = "(AL - 1)/(D - 1)" if acceptance.width else "as printed"
        found["draft_acceptance_rate"] = Reading.of(
            acceptance.rate, "accepted/drafted", "log window", note=f"{how}; {over}"
        )
    if acceptance.width is not None:
        found["draft_tokens_per_step"] = Reading.of(
            acceptance.width - 1, "tokens/step", "computed", note=f"k = D - 1, D = {acceptance.width}"
        )
    return found


def traffic_readings(reports: Iterable[Report]) -> dict[str, Reading]:
    """Queue, batch and prefix hits over the log."""
    seen = list(reports)
    found: dict[str, Reading] = {}
    queues = [report.queue for report in seen if report.queue is not None]
    running = [report.running for report in seen if report.running is not None and report.kind == "decode"]
    usages = [report.usage for report in seen if report.usage is not None]
    cached = [report.cached_tokens for report in seen if report.cached_tokens is not None]
    if queues:
        found["queue_depth"] = Reading.of(max(queues), "requests", "log window", note="most seen")
    if running:
        found["running_max"] = Reading.of(max(running), "requests", "log window", note="most seen")
    if usages:
        found["pool_usage_max"] = Reading.of(max(usages), "share", "log window", note="most seen")
    if cached:
        found["cached_tokens"] = Reading.of(
            sum(cached),
            "tokens",
            "log window",
            note=f"prefix hits, summed over {len(cached)} prefill reports",
        )
    return found
