"""Logs of each engine as documents."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator, Mapping, Sequence

from kvantage.core import LogReadings, Reading
from kvantage.engines import engine_named
from kvantage.engines.llamacpp.scan import scan
from kvantage.engines.sglang.boot import read_boot
from kvantage.engines.sglang.lines import logical_lines
from kvantage.engines.vllm.boot import boot_log
from kvantage.engines.vllm.windows import counted
from kvantage.inspection.document import Document

_MAX_SEQS = re.compile(r"['\"]?max_num_seqs['\"]?[:=] ?(\d+)(?=[,}\s)])")
_POSITION = re.compile(r"(?:position_|acceptance_at_)(\d+)")


def read_log_file(name: str, text: str, engine: str) -> Document:
    """What one engine's lines of a log say."""
    lines = text.split("\n")
    log = engine_named(engine).read_log(lines)
    readings, warnings = dict(log.readings), list(log.warnings)
    positions = _positions(readings)
    version = None
    if engine == "vllm":
        readings |= vllm_readings(lines, log)
        warnings += vllm_warnings(log.windows)
        positions = positions or pooled_positions(log.windows)
        version = boot_log(lines).version
    elif engine == "sglang":
        version = read_boot(logical_lines(lines)).version
    else:
        version = scan(lines).version
    warnings += [f"the log says: {line}" for line in log.errors[:3]]
    details = {"windows": [dict(window) for window in log.windows]}
    return Document(
        name, "log", engine, version, readings, positions, tuple(dict.fromkeys(warnings)), details
    )


def _positions(readings: dict[str, Reading]) -> tuple[float, ...] | None:
    """Readings of single positions as one list; they are taken out of the readings."""
    found = {int(m[1]): name for name in readings if (m := _POSITION.fullmatch(name))}
    values = [readings.pop(found[place]).value for place in sorted(found)]
    whole = sorted(found) == list(range(len(found))) and None not in values
    return tuple(value for value in values if value is not None) if values and whole else None


def pooled_positions(windows: Sequence[Mapping[str, float]]) -> tuple[float, ...] | None:
    """Per-position rates over all windows, each weighted by its drafts."""
    told = [window for window in counted(windows) if window.get("drafts") and "position_0" in window]
    if not told:
        return None
    drafts = sum(window["drafts"] for window in told)
    depth = max(sum(name.startswith("position_") for name in window) for window in told)
    return tuple(
        sum(window.get(f"position_{place}", 0.0) * window["drafts"] for window in told) / drafts
        for place in range(depth)
    )


def vllm_readings(lines: Sequence[str], log: LogReadings) -> dict[str, Reading]:
    """What vLLM's log says beside `read_log`: bytes, slots, queue, steps and speed."""
    found: dict[str, Reading] = {}
    boot = boot_log(lines)
    pool = log.readings.get("kv_pool_tokens")
    granted = log.readings.get("kv_available_bytes")
    if granted is not None and granted.value is not None:
        note = "memory given to the pool on the rank that has least, the drafter's layers included"
        found["kv_pool_bytes"] = Reading.of(granted.value, "bytes", "config", note=note)
        if pool is not None and pool.value and boot.tokens_agree is not False:
            note = "pool bytes / pool tokens"
            tokens = min(boot.pools.values(), default=pool.value)
            if len(boot.pools) > 1:
                note += " of the smallest of the data-parallel engines"
            found["kv_bytes_per_token"] = Reading.of(
                granted.value / tokens, "bytes/token", "computed", note=note
            )
    asked = [int(number) for line in lines for number in _MAX_SEQS.findall(line)]
    if asked:
        found["requested_max_running"] = Reading.of(asked[-1], "requests", "config")
        found["effective_max_running"] = Reading.of(asked[-1], "requests", "config")
    waiting = [window["waiting"] for window in log.windows if "waiting" in window]
    if waiting:
        found["queue_depth"] = Reading.of(max(waiting), "requests", "log window", note="most seen")
    drafts = [window["drafts"] for window in counted(log.windows) if "drafts" in window]
    drafted = sum(window["drafted_tokens"] for window in counted(log.windows) if "drafts" in window)
    if sum(drafts):
        found["spec_steps"] = Reading.of(sum(drafts), "steps", "log window", note="steps that drafted")
        found["draft_tokens_per_step"] = Reading.of(drafted / sum(drafts), "tokens/step", "computed")
    speeds = [
        (window["generation_tok_s"], window["running"])
        for window in log.windows
        if window.get("running") and window.get("generation_tok_s")
    ]
    if speeds:
        note = f"median of {len(speeds)} windows, up to {max(r for _, r in speeds):.0f} running together"
        found["decode_tok_s"] = Reading.of(
            statistics.median(speed for speed, _ in speeds), "tok/s", "log window", note=note
        )
    return found


def vllm_warnings(windows: Sequence[Mapping[str, float]]) -> Iterator[str]:
    """A queue in the log's windows, and preemptions."""
    preempted = sum(window.get("preemptions", 0.0) for window in windows)
    if preempted:
        yield f"{preempted:.0f} preemptions: the pool was full, which voids a speed"
    queued = [window for window in windows if window.get("waiting") and "running" in window]
    if queued:
        worst = max(queued, key=lambda window: window["waiting"])
        ran, waited = worst["running"], worst["waiting"]
        yield (
            f"rows at concurrency {ran + waited:.0f} measured a queue: the server ran {ran:.0f} and"
            f" {waited:.0f} waited"
        )
