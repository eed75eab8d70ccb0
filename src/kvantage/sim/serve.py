"""From one arm's settings to a simulated server: plan it, then put the engine behind HTTP."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any
from zlib import crc32

from tokenizers import Tokenizer

from kvantage.core import ArmSettings, Samplers, ServerSettings, Speculation, UsageError
from kvantage.planner.checkpoint import read_checkpoint
from kvantage.planner.drafts import drafter_of
from kvantage.planner.geometry import read_geometry
from kvantage.planner.machine import read_machine
from kvantage.planner.memory import GIB
from kvantage.planner.plan import ArmAsked, Asked, make_plan
from kvantage.sim.answers import Encode
from kvantage.sim.dialects import DIALECTS, dialect
from kvantage.sim.engine import Engine
from kvantage.sim.front import Front, Served
from kvantage.sim.plan import arm_of
from kvantage.sim.replay import boot

PLAIN = "(plain)"
LONGEST = 32768
"""The longest request where neither the arm nor the model's config says."""


def arm_from_json(text: str) -> ArmSettings:
    """The arm whose fields were written as JSON. Raises UsageError."""
    try:
        data = json.loads(text)
        return ArmSettings(
            **{
                **data,
                "settings": ServerSettings(**data.get("settings", {})),
                "speculation": Speculation(**data.get("speculation", {})),
                "samplers": Samplers(**data.get("samplers", {})),
            }
        )
    except (ValueError, TypeError, AttributeError) as error:
        names = ", ".join(field.name for field in fields(ArmSettings))
        raise UsageError(f"this is no arm ({error}); its fields are {names}") from None


def simulated(arm: ArmSettings, speed: float = 1.0) -> tuple[Engine, Front, int]:
    """(engine, front, context length) of an arm whose engine options say what to be like, and on what.

    Options: like, hardware or `available_gib`, pools, measured, acceptance (by arm), prefill_tok_s,
    draft_window and draft_windowed_layers.
    `speed` is virtual seconds a real one.
    Raises UsageError where the pool or the step times cannot be planned.
    """
    options = arm.engine_options
    like = str(options.get("like") or next(iter(DIALECTS)))
    kind = dialect(like)
    target = read_geometry(arm.model, arm.revision)
    drafter = (
        drafter_of(read_checkpoint(arm.speculation.draft, arm.speculation.draft_revision))
        if arm.speculation.draft
        else None
    )
    if drafter and (window := options.get("draft_window")):
        layers = options.get("draft_windowed_layers") or len(drafter.layers)
        drafter = replace(drafter, window=int(window), windowed_layers=int(layers))
    measured, lengths = _by_arm(options, "measured"), _lengths(options, arm.name)
    plain = measured.get("none")
    asked = ArmAsked(arm.name, arm.speculation, drafter, arm.settings, arm.flags)
    speeds: dict[str, float] = {}
    arms = [asked]
    if plain:
        arms = [ArmAsked(PLAIN, settings=arm.settings), asked] if arm.speculation.on else [asked]
        speeds[PLAIN if arm.speculation.on else arm.name] = plain
        if arm.speculation.on and arm.name in measured and lengths:
            speeds[arm.name] = measured[arm.name]
    pools = {name: int(tokens) for name, tokens in _by_arm(options, "pools").items() if name == arm.name}
    available = options.get("available_gib")
    plan = make_plan(
        Asked(
            target=target,
            engine=like,
            arms=arms,
            machine=read_machine(str(options.get("hardware", "cpu"))),
            available=int(float(available) * GIB) if available else None,
            acceptance={arm.name: next(iter(lengths.values()))} if lengths and arm.speculation.on else {},
            by_workload={arm.name: lengths} if lengths else {},
            measured=speeds,
            pools=pools,
            prefill_tok_s=float(options["prefill_tok_s"]) if options.get("prefill_tok_s") else None,
        )
    )
    planned = plan.arms[-1]
    made = arm_of(plan, planned)
    if isinstance(made, str):
        raise UsageError(f"{arm.name} cannot be simulated: {made}")
    engine = boot(made)
    context = min(arm.settings.context_length or target.max_length or LONGEST, made.pool_tokens)
    served = Served(arm.name, arm.model, planned, made.pool_tokens, context, target.dtype, speed)
    return engine, kind.front(served, made.rules), context


def encoder(model: str) -> Encode:
    """How the model counts tokens: its own tokenizer.json, else a token a word or mark."""
    file = Path(model) / "tokenizer.json"
    if file.is_file():
        tokenizer = Tokenizer.from_file(str(file))
        return lambda text: list(tokenizer.encode(text, add_special_tokens=False).ids)
    return lambda text: [crc32(part.encode()) >> 1 for part in re.findall(r"\w+|[^\w\s]", text)]


def _by_arm(options: Mapping[str, Any], name: str) -> dict[str, float]:
    value = options.get(name) or {}
    if not isinstance(value, Mapping):
        raise UsageError(f"`{name}` gives a number for each arm")
    try:
        return {str(arm): float(one) for arm, one in value.items()}
    except (TypeError, ValueError):
        raise UsageError(f"`{name}` gives a number for each arm") from None


def _lengths(options: Mapping[str, Any], arm: str) -> dict[str, float]:
    """This arm's acceptance lengths: by workload, or one for all of them."""
    value = (options.get("acceptance") or {}).get(arm)
    if value is None:
        return {}
    if isinstance(value, Mapping):
        lengths = {str(workload): float(length) for workload, length in value.items()}
        return {"": next(iter(lengths.values())), **lengths}
    return {"": float(value)}
