"""What a booted SGLang says of itself: /server_info, /metrics and its log, put side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kvantage.core import ArmSettings, Facts, Reading
from kvantage.engines.numbers import GIB, count, quantity
from kvantage.engines.sglang.boot import Boot
from kvantage.engines.sglang.log import boot_readings
from kvantage.engines.sglang.metrics import facts_of
from kvantage.engines.sglang.pools import HALF_DIGIT_BYTES, pools_of
from kvantage.engines.sglang.simulated import lossy_by_settings, simulated_by_environment
from kvantage.engines.sglang.warnings import boot_warnings, clamped_running, settings_warnings, short_pool
from kvantage.engines.simulated import mark

DROPS_A_PAGE = frozenset({"EAGLE", "EAGLE3", "NEXTN", "STANDALONE", "FROZEN_KV_MTP"})
"""Algorithms whose prefix keys are pairs of tokens: a hit is one token shorter, which can cost a page."""

_SECRET = ("api_key", "password", "secret", "hf_token", "ssl_keyfile")
_NOT_TOLD = ("internal_states", "launch_command")


@dataclass(frozen=True)
class Told:
    """Everything that one server told, each part possibly missing. `env` is what it was started with."""

    arm: ArmSettings | None = None
    info: Mapping[str, Any] = field(default_factory=dict)
    metrics: str = ""
    boot: Boot = field(default_factory=Boot)
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def states(self) -> Sequence[Mapping[str, Any]]:
        """The live state of each data-parallel replica."""
        told = self.info.get("internal_states")
        return [state for state in told if isinstance(state, Mapping)] if isinstance(told, list) else []

    @property
    def settings(self) -> dict[str, Any]:
        """Resolved settings without secrets; the log's echo where there is no /server_info."""
        told = self.info or self.boot.arguments
        return {
            name: value
            for name, value in told.items()
            if name not in _NOT_TOLD and not any(mark in name for mark in _SECRET)
        }


def facts(told: Told) -> Facts:
    """The readings of `kvantage.core.Facts`, with dropped_blocks beside them."""
    settings = told.settings
    readings = boot_readings(told.boot, pools_of(told.boot, speculating=False))
    readings |= metric_readings(facts_of(told.metrics))
    readings |= info_readings(told)
    readings |= asked_running(told, readings)
    speculation = speculation_of(told, settings)
    readings["dropped_blocks"] = dropped_blocks(str(speculation.get("method", "")))
    if "draft_kv_pool_bytes" not in readings:
        readings["draft_kv_pool_bytes"] = draft_pool_unknown(told, bool(speculation))
    radix_off = settings.get("disable_radix_cache")
    version = told.info.get("version") or told.boot.version
    return Facts(
        engine="sglang",
        engine_version=str(version) if version else None,
        readings=readings,
        resolved={**settings, **mark(told.arm, speculation)},
        speculation=speculation,
        prefix_caching=not radix_off if isinstance(radix_off, bool) else None,
        warnings=tuple(dict.fromkeys(warnings(told, readings, speculation))),
    )


def info_readings(told: Told) -> dict[str, Reading]:
    """What /server_info grants: the pool, how many run, the target's bytes and weights."""
    found: dict[str, Reading] = {}
    states = told.states
    memory = [usage for state in states if isinstance(usage := state.get("memory_usage"), Mapping)]
    tokens = [value for usage in memory if (value := count(usage.get("token_capacity")))]
    if not tokens and (total := count(told.info.get("max_total_num_tokens"))):
        tokens = [total]
    if tokens:
        note = None if len(tokens) == 1 else f"{len(tokens)} data-parallel pools, the smallest {min(tokens)}"
        found["kv_pool_tokens"] = Reading.of(sum(tokens), "tokens", "config", note=note)
    running = [
        value for state in states if (value := count(state.get("effective_max_running_requests_per_dp")))
    ]
    if running:
        found["effective_max_running"] = Reading.of(sum(running), "requests", "config")
    sizes = [size for usage in memory if (size := quantity(usage.get("kvcache")))]
    if sizes:
        found |= pool_bytes(sizes[0] * GIB, min(tokens, default=None))
    weights = [size for usage in memory if (size := quantity(usage.get("weight")))]
    if weights:
        note = "the target's, on one rank"
        found["weights_bytes"] = Reading.of(weights[0] * GIB, "bytes", "config", note=note)
    for name, word in (("context_length", "context_length"), ("page_size", "kv_block_tokens")):
        if value := count(told.info.get(name)):
            found[word] = Reading.of(value, "tokens", "config")
    return found


def pool_bytes(held: float, tokens: int | None) -> dict[str, Reading]:
    """The target's pool as /server_info tells it, in GiB with two or three digits."""
    note = "the target's pool, on one rank; rounded"
    found = {
        "kv_pool_bytes": Reading.of(
            held,
            "bytes",
            "config",
            low=max(0, held - HALF_DIGIT_BYTES),
            high=held + HALF_DIGIT_BYTES,
            note=note,
        )
    }
    if tokens:
        low, high = max(0, held - HALF_DIGIT_BYTES) / tokens, (held + HALF_DIGIT_BYTES) / tokens
        found["kv_bytes_per_token"] = Reading.of(
            held / tokens, "bytes/token", "computed", low=low, high=high, note="the target's, on one rank"
        )
    return found


def metric_readings(told: Mapping[str, float]) -> dict[str, Reading]:
    """What the gauges of /metrics say of the server."""
    found: dict[str, Reading] = {}
    for word in ("kv_pool_tokens", "context_length", "kv_block_tokens"):
        if told.get(word):
            found[word] = Reading.of(told[word], "tokens", "gauge")
    if told.get("kv_pool_gb"):
        found |= pool_bytes(told["kv_pool_gb"] * GIB, int(told.get("kv_pool_tokens", 0)) or None)
    if told.get("weights_gb"):
        note = "the target's, on one rank"
        found["weights_bytes"] = Reading.of(told["weights_gb"] * GIB, "bytes", "gauge", note=note)
    return found


def asked_running(told: Told, readings: Mapping[str, Reading]) -> dict[str, Reading]:
    """The wish: the arm's, or the resolved setting unless SGLang itself set it."""
    arm = told.arm
    asked = arm.settings.max_running_requests or count(arm.flags.get("max-running-requests")) if arm else None
    if asked is None and told.boot.reset_running is None:
        asked = count(told.info.get("max_running_requests"))
    if asked is None:
        asked = (
            int(before.value) if (before := readings.get("requested_max_running")) and before.value else None
        )
    return {"requested_max_running": Reading.of(asked, "requests", "config")} if asked else {}


def speculation_of(told: Told, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The drafter as resolved; empty where speculation is off. `simulated` says what fakes acceptance."""
    method = settings.get("speculative_algorithm") or told.boot.speculation
    if not method or str(method).upper() == "NONE":
        return {}
    found: dict[str, Any] = {"method": str(method)}
    for name in (
        "speculative_num_steps",
        "speculative_eagle_topk",
        "speculative_num_draft_tokens",
        "speculative_draft_model_path",
        "speculative_draft_kv_cache_dtype",
    ):
        if settings.get(name) is not None:
            found[name.removeprefix("speculative_")] = settings[name]
    width = count(found.get("num_draft_tokens"))
    if width and width > 1:
        found["num_speculative_tokens"] = width - 1
    exposed = [state.get("env_vars") for state in told.states]
    env = {name: value for one in exposed if isinstance(one, Mapping) for name, value in one.items()}
    faked = simulated_by_environment({**env, **told.env}) or told.boot.simulated
    if reason := faked or lossy_by_settings(settings):
        found["simulated"] = reason
    return found


def dropped_blocks(method: str) -> Reading:
    """Pages that a prefix hit may lose to the drafter."""
    drops = method.upper() in DROPS_A_PAGE
    note = f"{method} keys prefixes by pairs of tokens: a hit is a token shorter" if drops else None
    return Reading.of(1 if drops else 0, "blocks", "config", note=note)


def draft_pool_unknown(told: Told, speculating: bool) -> Reading:
    """Why there is no figure of the drafter's pool."""
    if not speculating:
        return Reading.absent("no speculation, so no drafter's pool")
    if not told.boot.pools:
        return Reading.absent("only SGLang's log tells the drafter's pool, and it was not at hand")
    return Reading.absent(
        "the log has no second allocation: this drafter keeps no KV of its own, or it is cut"
    )


def warnings(told: Told, readings: Mapping[str, Reading], speculation: Mapping[str, Any]) -> Iterator[str]:
    """What makes this server another than the one that was asked for."""
    yield from boot_warnings(told.boot, pools_of(told.boot, speculating=bool(speculation)))
    if told.info:
        yield from settings_warnings(dict(told.settings))
    command = told.info.get("launch_command")
    resolved = count(told.info.get("max_running_requests"))
    named = isinstance(command, str) and "max-running-requests" in command
    if speculation and isinstance(command, str) and not named and resolved == 48:
        yield "SGLang set max_running_requests to 48 because speculation is on"
    asked, granted = readings.get("requested_max_running"), readings.get("effective_max_running")
    if granted is not None and granted.value is not None:
        wish = int(asked.value) if asked is not None and asked.value is not None else None
        yield from clamped_running(wish, int(granted.value))
    pool, context = readings.get("kv_pool_tokens"), readings.get("context_length")
    if pool is not None and context is not None and pool.value is not None and context.value is not None:
        yield from short_pool(int(pool.value), int(context.value))
    if "simulated" in speculation:
        yield f"simulated or lossy acceptance ({speculation['simulated']}): acceptance was not measured"
    if (
        told.arm is not None
        and told.arm.speculation.on
        and (told.info or told.boot.arguments)
        and not speculation
    ):
        yield f"speculation `{told.arm.speculation.method}` was asked for and is off"
    ceiling = told.arm.settings.pool_tokens if told.arm else None
    if ceiling and pool is not None and pool.value is not None and pool.value < ceiling:
        yield f"the pool's ceiling of {ceiling} tokens is above what fits: SGLang granted {pool.value:.0f}"


def accept_length_of(states: Sequence[Mapping[str, Any]], speculation: bool) -> Reading:
    """The lifetime acceptance length of /server_info, where it can be told.

    It is advanced only when a decode report is due and zeroed by a cache flush, and replicas cannot be
    averaged without their steps.
    """
    lengths = [quantity(state.get("avg_spec_accept_length")) for state in states]
    known = [length for length in lengths if length is not None]
    if not known:
        why = "not yet counted, or zeroed by a cache flush" if speculation else "speculation is off"
        return Reading.absent(f"/server_info tells no acceptance length: {why}")
    if len(lengths) > 1:
        return Reading.absent(
            f"unknown: {len(known)} of {len(lengths)} data-parallel replicas tell a length, and without their"
            " steps they cannot be put together"
        )
    return Reading.of(known[0], "tokens/step", "gauge", note="incl. bonus; since the last cache flush")
