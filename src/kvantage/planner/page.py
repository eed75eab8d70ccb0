"""A geometry and a plan as plain data, for `--json` and for a report."""

from __future__ import annotations

from typing import Any

from kvantage.core import Reading, UsageError
from kvantage.planner.drafts import Drafter
from kvantage.planner.dtypes import kv_dtype
from kvantage.planner.geometry import Geometry, describe
from kvantage.planner.machine import Machine
from kvantage.planner.plan import ArmPlan, Plan
from kvantage.planner.weights import weights_of

SCHEMA = "kvantage.plan/1"
DRAFT_DTYPES = ("bf16", "fp8_e4m3")


def geometry_json(geometry: Geometry, tp: int = 1) -> dict[str, Any]:
    """Bytes a token, a sequence and a state, an entry a KV dtype, the model's own first; MTP apart."""
    mtp = geometry.mtp
    heads = [
        {
            "kv_dtype": name,
            "mtp_kv_bytes_per_token": mtp.kv_bytes_per_token(dtype, tp, scaled=scaled),
        }
        for name, dtype, scaled in geometry.entries()
    ]
    return {
        "schema": SCHEMA,
        "model": {
            "name": geometry.name,
            "architecture": geometry.architecture,
            "family": geometry.family.name,
            "kv_layers": len(geometry.attention_layers),
            "layers": {"total": len(geometry.layers), **geometry.layer_counts()},
            "context_length": geometry.max_length,
            "dtype": geometry.dtype,
            "weights": _weights(geometry),
        },
        "tensor_parallel_size": tp,
        "kv": describe(geometry, tp),
        "state_bytes_missing": geometry.state_problem,
        "kv_hint": geometry.hint.name,
        "kv_hint_bytes": geometry.hint.bytes(geometry.dtype),
        "mtp": {
            "declared": mtp.declared > 0 and not mtp.implied,
            "implied": mtp.implied,
            "layers": mtp.declared,
            "weights_in_index": mtp.in_index,
            "verdict": mtp.verdict,
            "kv": heads if mtp.layers else [],
        },
        "notes": list(geometry.notes),
    }


def drafter_json(drafter: Drafter, tp: int = 1) -> dict[str, Any]:
    """A drafter's own cache, an entry a KV dtype."""
    names = [drafter.dtype, *(name for name in DRAFT_DTYPES if name != drafter.dtype)]
    return {
        "name": drafter.name,
        "kind": drafter.kind,
        "layers": len(drafter.layers),
        "block_size": drafter.block_size,
        "max_drafts": drafter.max_drafts,
        "max_accept_len": drafter.max_accept_len,
        "window": drafter.window,
        "kv": [
            {"kv_dtype": name, "draft_kv_bytes_per_token": drafter.kv_bytes_per_token(kv_dtype(name), tp)}
            for name in names
        ],
        "notes": list(drafter.notes),
    }


def drafter_alone_json(drafter: Drafter, tp: int = 1) -> dict[str, Any]:
    """A drafter planned by itself: the same names as a model's geometry, since it is the model here."""
    page = drafter_json(drafter, tp)
    kv = [
        {
            "kv_dtype": entry["kv_dtype"],
            "kv_bytes_per_token": entry["draft_kv_bytes_per_token"],
            "kv_bytes_per_sequence": 0,
            "state_bytes": drafter.state_bytes(tp),
        }
        for entry in page["kv"]
    ]
    return {"schema": SCHEMA, "tensor_parallel_size": tp, "kv": kv, "drafter": page, "notes": page["notes"]}


def plan_json(plan: Plan) -> dict[str, Any]:
    """Everything that `kvantage plan` predicts; every prediction a reading with its source."""
    asked = plan.asked
    tp = asked.arms[0].settings.tensor_parallel_size or 1 if asked.arms else 1
    drafters = {arm.drafter.name: arm.drafter for arm in asked.arms if arm.drafter}
    return {
        **geometry_json(asked.target, tp),
        "drafters": [drafter_json(drafter, tp) for drafter in drafters.values()],
        "engine": asked.engine,
        "hardware": machine_json(asked.machine) if asked.machine else None,
        "arms": {arm.name: arm_json(arm) for arm in plan.arms},
        "best": {"arm": plan.best.arm, "reason": plan.best.reason, "hinges": list(plan.best.hinges)},
        "notes": list(plan.notes),
    }


def machine_json(machine: Machine) -> dict[str, Any]:
    """The hardware file's figures with their sources."""
    return {
        "name": machine.name,
        "title": machine.title,
        "ranks": machine.ranks,
        "figures": {
            name: {"value": figure.value, "low": figure.low, "high": figure.high, "from": figure.source}
            for name, figure in machine.figures.items()
        },
    }


def arm_json(arm: ArmPlan) -> dict[str, Any]:
    """One arm's predictions."""
    if arm.refused:
        return {"method": arm.speculation.method, "refused": arm.refused}
    absent = Reading.absent(arm.no_pool or "not predicted").to_json()
    slow = Reading.absent(arm.no_speed or "not predicted").to_json()
    return {
        "method": arm.speculation.method,
        "drafts": arm.speculation.drafts,
        "target_kv_bytes_per_token": _bytes(arm.target_bytes),
        "draft_kv_bytes_per_token": _bytes(arm.draft_bytes),
        "kv_pool": _pool(arm) if arm.pool else {"tokens": absent, "bytes": absent},
        "sessions": {str(length): reading.to_json() for length, reading in arm.sessions.items()},
        "acceptance_length": _acceptance(arm),
        "break_even_acceptance_length": arm.break_even.to_json() if arm.break_even else slow,
        "decode_tok_s": {str(count): reading.to_json() for count, reading in arm.decode.items()} or slow,
        "prefill_tok_s": arm.prefill.to_json() if arm.prefill else slow,
        "drivers": {name: round(share, 4) for name, share in arm.drivers.items()},
        "notes": list(arm.notes),
    }


def _pool(arm: ArmPlan) -> dict[str, Any]:
    assert arm.pool is not None
    pool = arm.pool.at
    page: dict[str, Any] = {
        "tokens": arm.pool.tokens().to_json(),
        "bytes": arm.pool.bytes().to_json(),
        "ideal_tokens": Reading.of(pool.ideal_tokens, "tokens", "predicted").to_json(),
        "draft_bytes": _bytes(pool.draft_pool_bytes, "bytes"),
        "state_bytes": _bytes(pool.state_bytes, "bytes"),
        "available_bytes": Reading.of(
            arm.pool.left.bytes,
            "bytes",
            "config" if arm.pool.left.known else "predicted",
            low=float(arm.pool.left.low),
            high=float(arm.pool.left.high),
            note=arm.pool.left.note or None,
        ).to_json(),
        "block_tokens": pool.block_tokens,
        "capped_by": pool.capped_by,
    }
    if pool.max_running is not None:
        page["max_running_requests"] = Reading.of(pool.max_running, "requests", "predicted").to_json()
    return page


def _acceptance(arm: ArmPlan) -> dict[str, Any]:
    if arm.acceptance is None:
        return Reading.absent("nothing drafts").to_json()
    found = arm.acceptance
    return Reading.of(
        found.value, "tokens/step", "predicted", low=found.low, high=found.high, note=found.source
    ).to_json()


def _bytes(value: int, unit: str = "bytes/token") -> dict[str, Any]:
    return Reading.of(value, unit, "predicted").to_json()


def _weights(geometry: Geometry) -> dict[str, Any]:
    try:
        weights = weights_of(geometry)
    except UsageError as error:
        if geometry.weights_bytes:
            return {"bytes": Reading.of(geometry.weights_bytes, "bytes", "config").to_json()}
        return {"bytes": Reading.absent(error.message).to_json()}
    known = bool(weights.measured_bytes)
    return {
        "bytes": Reading.of(weights.bytes, "bytes", "config" if known else "computed").to_json(),
        "parameters": Reading.of(weights.total, "parameters", "computed").to_json(),
        "active_parameters": Reading.of(weights.active, "parameters", "computed").to_json(),
    }
