"""Predicted beside measured: a plan held against a study's report.json, and the planner's own error.

The control's first clean short cell calibrates the plain step, each drafting arm's (with its acceptance
length) its rho; every other clean cell is a prediction at the acceptance length that was measured there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from kvantage.core import UsageError
from kvantage.planner.acceptance import Acceptance
from kvantage.planner.plan import ArmPlan, Asked, make_plan


@dataclass(frozen=True)
class Row:
    """One quantity of one arm. `calibrates` where the measured value was an input of the prediction."""

    arm: str
    quantity: str
    predicted: float
    measured: float
    unit: str
    calibrates: bool = False

    @property
    def error(self) -> float:
        """(predicted - measured) / measured."""
        return self.predicted / self.measured - 1


@dataclass(frozen=True)
class _Cell:
    phase: str
    workload: str
    concurrency: int
    tok_s: float
    acceptance: float | None
    length: int


def hold_against(asked: Asked, report: Mapping[str, Any]) -> list[Row]:
    """Every pool and clean cell that both have. Raises UsageError where the report is no report of arms."""
    arms = report.get("arms")
    if not isinstance(arms, Mapping) or not arms:
        raise UsageError("this is no report.json of a study: it has no arms")
    plan = make_plan(asked)
    rows = [row for arm in plan.arms if (row := _pool_row(arm, arms.get(arm.name)))]
    cells = {arm.name: list(_cells(arms.get(arm.name))) for arm in plan.arms}
    control = next((arm for arm in plan.arms if not arm.speculation.on and cells[arm.name]), None)
    if control is None:
        return rows
    first = {
        name: next((cell for cell in found if cell.phase == "short"), None) for name, found in cells.items()
    }
    speeds, lengths = {}, {}
    for arm in plan.arms:
        cell = first[arm.name]
        if cell and (not arm.speculation.on or cell.acceptance):
            speeds[arm.name] = cell.tok_s
            if cell.acceptance and arm.speculation.on:
                lengths[arm.name] = cell.acceptance
    if control.name not in speeds:
        return rows
    start = first[control.name]
    assert start is not None
    fitted = make_plan(
        replace(asked, measured=speeds, acceptance=lengths, measured_length=max(1, start.length))
    )
    for arm in fitted.arms:
        for cell in cells[arm.name]:
            if (row := _speed_row(arm, cell, cell is first[arm.name])) is not None:
                rows.append(row)
    return rows


def error_of(rows: Sequence[Row]) -> dict[str, float]:
    """The planner's own error: the median and the largest, of pools and of speeds that were predicted."""
    found = {}
    for name, chosen in (
        ("pool", [row for row in rows if row.unit == "tokens"]),
        ("speed", [row for row in rows if row.unit == "tok/s" and not row.calibrates]),
    ):
        if chosen:
            errors = [abs(row.error) for row in chosen]
            found[f"{name}_median"] = median(errors)
            found[f"{name}_largest"] = max(errors)
    return found


def rows_json(rows: Sequence[Row]) -> dict[str, Any]:
    """The rows and the error as plain data."""
    return {
        "rows": [
            {
                "arm": row.arm,
                "quantity": row.quantity,
                "predicted": {"value": row.predicted, "unit": row.unit, "source": "predicted"},
                "measured": {"value": row.measured, "unit": row.unit, "source": "computed"},
                "error": row.error,
                "calibrates": row.calibrates,
            }
            for row in rows
        ],
        "error": error_of(rows),
    }


def _pool_row(arm: ArmPlan, told: Any) -> Row | None:
    measured = _value(told, "kv_pool", "tokens")
    if arm.pool is None or not measured:
        return None
    return Row(arm.name, "KV pool", arm.pool.at.tokens, measured, "tokens")


def _speed_row(arm: ArmPlan, cell: _Cell, calibrates: bool) -> Row | None:
    if arm.steps is None or arm.refused:
        return None
    acceptance = None
    if arm.speculation.on:
        if cell.acceptance is None:
            return None
        most = (arm.speculation.drafts or 1) + 1
        acceptance = Acceptance.measured(min(max(cell.acceptance, 1.0), most), most - 1, "measured")
    rate = arm.steps.decode(acceptance, cell.concurrency, max(1, cell.length)).value or 0.0
    name = f"{cell.phase} {cell.workload} at {cell.concurrency}"
    return Row(arm.name, name, rate / cell.concurrency, cell.tok_s, "tok/s", calibrates)


def _cells(told: Any) -> Iterator[_Cell]:
    """The clean cells of an arm with a decode rate, a stream's own."""
    listed = told.get("cells") if isinstance(told, Mapping) else None
    for cell in listed if isinstance(listed, list) else ():
        rate = _value(cell, "decode_tok_s")
        if cell.get("status") != "ok" or not rate or cell.get("phase") not in ("short", "cold", "repeat"):
            continue
        if cell["phase"] == "cold" and cell.get("concurrency") != 1:
            continue  # a cold wave's decoding is broken by its neighbours' prefill: no step time says that
        requests = _value(cell, "requests") or 1
        prompt = (_value(cell, "prompt_tokens") or 0) / requests
        output = (_value(cell, "output_tokens") or 0) / requests
        yield _Cell(
            str(cell["phase"]),
            str(cell.get("workload", "")),
            int(cell.get("concurrency", 1)),
            rate,
            _value(cell, "acceptance_length"),
            round(prompt + output / 2),
        )


def _value(told: Any, *names: str) -> float | None:
    for name in names:
        told = told.get(name) if isinstance(told, Mapping) else None
    value = told.get("value") if isinstance(told, Mapping) else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
