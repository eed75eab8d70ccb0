"""What a booted llama-server says of itself: /props, /slots and its log, put side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kvantage.core import ArmSettings, Facts, Reading
from kvantage.engines.llamacpp.log import start_readings, warnings
from kvantage.engines.llamacpp.scan import Log
from kvantage.engines.numbers import count
from kvantage.engines.simulated import mark

_UNTOLD = Reading.absent("not told")


@dataclass(frozen=True)
class Told:
    """Everything that one server told, each part possibly missing."""

    arm: ArmSettings | None = None
    props: Mapping[str, Any] = field(default_factory=dict)
    slots: Sequence[Mapping[str, Any]] = ()
    log: Log = field(default_factory=Log)

    @property
    def speculating(self) -> bool | None:
        """Whether the slots draft: the only place where a running server says so. None: not told."""
        told = [slot.get("speculative") for slot in self.slots]
        known = [value for value in told if isinstance(value, bool)]
        return all(known) if known else self.log.speculating

    @property
    def defaults(self) -> Mapping[str, Any]:
        """Generation defaults of /props."""
        told = self.props.get("default_generation_settings")
        return told if isinstance(told, Mapping) else {}


def facts(told: Told) -> Facts:
    """The readings of `kvantage.core.Facts`. The pool in bytes stands in the log alone."""
    readings = start_readings(told.log)
    slots = count(told.props.get("total_slots")) or len(told.slots) or None
    length = count(told.defaults.get("n_ctx")) or next(
        (value for slot in told.slots if (value := count(slot.get("n_ctx")))), None
    )
    if slots:
        readings["effective_max_running"] = Reading.of(slots, "requests", "config", note="slots")
    if length:
        readings["context_length"] = Reading.of(length, "tokens", "config", note="of one slot")
    if "kv_pool_tokens" not in readings and slots and length:
        readings["kv_pool_tokens"] = (
            Reading.of(length, "tokens", "computed", note="the context of its only slot")
            if slots == 1
            else Reading.absent(
                f"{length:,} tokens where its slots share one buffer, {slots * length:,} where they do not:"
                " llama.cpp tells which only in its log, with -lv 4"
            )
        )
    for name in ("kv_pool_bytes", "draft_kv_pool_bytes"):
        if name not in readings:
            readings[name] = Reading.absent(f"llama.cpp tells {name} only in its log, with -lv 4")
    readings["kv_block_tokens"] = Reading.of(1, "tokens", "config", note="no pages: a cell a token")
    readings["dropped_blocks"] = Reading.of(0, "blocks", "config")
    if told.arm and (asked := told.arm.settings.max_running_requests):
        readings["requested_max_running"] = Reading.of(asked, "requests", "config")
    speculation = speculation_of(told)
    caching = told.arm.settings.prefix_caching if told.arm else None
    return Facts(
        engine="llamacpp",
        engine_version=str(told.props["build_info"]) if told.props.get("build_info") else told.log.version,
        readings=readings,
        resolved={**resolved(told), **mark(told.arm, speculation)},
        speculation=speculation,
        prefix_caching=True if caching is None and told.arm else caching,
        warnings=tuple(dict.fromkeys(_warnings(told, readings))),
    )


def resolved(told: Told) -> dict[str, Any]:
    """What /props says, without texts that are long and say nothing of speed."""
    left_out = ("chat_template", "default_generation_settings", "media_marker", "ui_settings")
    found = {name: value for name, value in told.props.items() if name not in left_out}
    params = told.defaults.get("params")
    return found | {"generation_defaults": dict(params) if isinstance(params, Mapping) else {}}


def speculation_of(told: Told) -> dict[str, Any]:
    """The drafter as it runs; empty where speculation is off. `simulated` says what makes acceptance up."""
    if not told.speculating:
        return {}
    found: dict[str, Any] = {"method": ",".join(told.log.implementations) or "on"}
    if told.log.most_drafts:
        found["num_speculative_tokens"] = told.log.most_drafts
    if told.log.synthetic:
        found["simulated"] = told.log.synthetic
    return found


def _warnings(told: Told, readings: Mapping[str, Reading]) -> Iterator[str]:
    yield from warnings(told.log)
    wanted = told.arm is not None and told.arm.speculation.on
    if wanted and told.speculating is False and told.arm is not None:
        yield f"speculation `{told.arm.speculation.method}` was asked for and is off"
    asked = readings.get("requested_max_running", _UNTOLD).value
    granted = readings.get("effective_max_running", _UNTOLD).value
    if asked is not None and granted is not None and granted < asked:
        yield f"rows at concurrency {asked:.0f} measured a queue: the server ran {granted:.0f}"
    length = told.arm.settings.context_length if told.arm else None
    context = readings.get("context_length", _UNTOLD).value
    if length and context is not None and context < length:
        yield f"a slot holds {context:.0f} tokens, not the {length} of context_length that were asked for"
