"""A plan and a geometry as plain tables for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kvantage.core import Reading
from kvantage.planner.against import Row, error_of
from kvantage.planner.plan import ArmPlan, Plan

GIB = 2**30


def geometry_table(page: dict[str, Any]) -> str:
    """What a token, a sequence and a state cost, a line a KV dtype."""
    model = page["model"]
    layers = ", ".join(
        f"{count} {kind}" for kind, count in model["layers"].items() if count and kind != "total"
    )
    lines = [f"{model['name']}: {model['architecture']}, {model['layers']['total']} layers ({layers})"]
    if page["tensor_parallel_size"] > 1:
        lines.append(f"bytes of one of {page['tensor_parallel_size']} ranks")
    rows = [
        [
            entry["kv_dtype"],
            f"{entry['kv_bytes_per_token']:,}",
            f"{entry['kv_bytes_per_sequence']:,}",
            "not known" if entry["state_bytes"] is None else f"{entry['state_bytes']:,}",
        ]
        for entry in page["kv"]
    ]
    lines += ["", *_table(["KV dtype", "bytes a token", "fixed a sequence", "state a sequence"], rows)]
    if page["state_bytes_missing"]:
        lines.append(f"state: {page['state_bytes_missing']}")
    mtp = page["mtp"]
    if mtp["layers"] or mtp["weights_in_index"]:
        own = mtp["kv"][0] if mtp["kv"] else None
        cost = f", {own['mtp_kv_bytes_per_token']:,} bytes a token in {own['kv_dtype']}" if own else ""
        count = f"{mtp['layers']} layer(s), " if mtp["layers"] else ""
        lines += ["", f"MTP: {count}{mtp['verdict']}{cost}"]
    for drafter in page.get("drafters", []):
        lines += ["", drafter_table(drafter)]
    weights = model["weights"]
    if "parameters" in weights:
        lines += [
            "",
            f"weights: {_count(weights['parameters']['value'])} parameters, "
            f"{_count(weights['active_parameters']['value'])} a token, "
            f"{weights['bytes']['value'] / GIB:,.3g} GiB ({weights['bytes']['source']})",
        ]
    lines += [f"note: {note}" for note in page["notes"]]
    return "\n".join(lines)


def drafter_table(page: dict[str, Any]) -> str:
    """A drafter's cache in a few lines."""
    block = (
        f", block {page['block_size']} (at most {page['max_drafts']} drafts)" if page["block_size"] else ""
    )
    rows = [[entry["kv_dtype"], f"{entry['draft_kv_bytes_per_token']:,}"] for entry in page["kv"]]
    lines = [f"drafter {page['name']}: {page['kind']}, {page['layers']} layers{block}"]
    return "\n".join([*lines, *_table(["KV dtype", "bytes a token"], rows)])


def plan_tables(plan: Plan) -> str:
    """Every arm: bytes a token, pool, sessions, break-even, speed; then the best and what it hinges on."""
    asked = plan.asked
    where = asked.machine.title if asked.machine else "no hardware given"
    lines = [f"{asked.target.name} on {asked.engine}, {where}: predicted, nothing was measured here"]
    able = [arm for arm in plan.arms if not arm.refused]
    rows = [
        [
            arm.name,
            f"{arm.target_bytes:,}",
            f"{arm.draft_bytes:,}",
            _reading(arm.pool.tokens(), "{:,.0f}") if arm.pool else "-",
            f"{arm.pool.at.kv_bytes / GIB:,.2f}" if arm.pool else "-",
            *(_reading(arm.sessions.get(length), "{:.1f}", spread=False) for length in asked.lengths),
        ]
        for arm in able
    ]
    head = ["arm", "target B/token", "draft B/token", "pool, tokens", "GiB"]
    lines += ["", "What a rank keeps", *_table([*head, *(f"x {length:,}" for length in asked.lengths)], rows)]
    lines += _missing((arm.name, arm.no_pool) for arm in able if not arm.pool)
    timed = [arm for arm in able if arm.decode]
    if timed:
        rows = [[arm.name, *_speeds(arm, asked.concurrency)] for arm in timed]
        head = ["arm", "AL", "break-even AL", *(f"tok/s at {count}" for count in asked.concurrency)]
        lines += ["", "How fast it decodes", *_table(head, rows)]
        shares = ", ".join(f"{name} {share:.0%}" for name, share in timed[0].drivers.items())
        lines.append(f"a plain step is {shares}")
    lines += _missing((arm.name, arm.no_speed) for arm in able if not arm.decode)
    lines += [f"{arm.name} cannot be planned: {arm.refused}" for arm in plan.arms if arm.refused]
    lines += ["", f"Best: {plan.best.reason}" if plan.best.arm else f"No arm is best: {plan.best.reason}"]
    lines += [f"  {hinge}" for hinge in plan.best.hinges]
    for arm in able:
        lines += [f"note ({arm.name}): {note}" for note in arm.notes]
    lines += [f"note: {note}" for note in plan.notes]
    return "\n".join(lines)


def against_table(rows: Sequence[Row]) -> str:
    """Predicted beside measured, and the planner's own error."""
    lines = ["Predicted beside measured"]
    shown = [
        [
            row.arm,
            row.quantity,
            f"{row.predicted:,.0f}" if row.unit == "tokens" else f"{row.predicted:,.2f}",
            f"{row.measured:,.0f}" if row.unit == "tokens" else f"{row.measured:,.2f}",
            row.unit,
            "calibrates" if row.calibrates else f"{row.error:+.1%}",
        ]
        for row in rows
    ]
    if not shown:
        return "Predicted beside measured: the report holds no pool and no clean cell of these arms"
    lines += _table(["arm", "of", "predicted", "measured", "", "error"], shown)
    found = error_of(rows)
    for name in ("pool", "speed"):
        if f"{name}_median" in found:
            lines.append(
                f"the planner's error, {name}: median {found[f'{name}_median']:.1%}, "
                f"largest {found[f'{name}_largest']:.1%}"
            )
    return "\n".join(lines)


def _count(number: float) -> str:
    return f"{number / 1e9:,.1f} billion" if number >= 1e9 else f"{number / 1e6:,.1f} million"


def _speeds(arm: ArmPlan, concurrency: Sequence[int]) -> list[str]:
    length = f"{arm.acceptance.value:.2f}" if arm.acceptance else "1.00"
    broken = _reading(arm.break_even, "{:.2f}") if arm.acceptance else "-"
    return [length, broken, *(_reading(arm.decode.get(count), "{:.1f}") for count in concurrency)]


def _reading(reading: Reading | None, form: str, *, spread: bool = True) -> str:
    if reading is None or reading.value is None:
        return "-"
    text = form.format(reading.value)
    if spread and reading.low is not None and reading.high is not None and reading.high > reading.low:
        text += f" ({form.format(reading.low)} to {form.format(reading.high)})"
    return text


def _missing(reasons: Any) -> list[str]:
    found: dict[str, list[str]] = {}
    for name, reason in reasons:
        found.setdefault(str(reason), []).append(name)
    return [f"{', '.join(names)}: {reason}" for reason, names in found.items()]


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    lines = []
    for row in (head, *rows):
        cells = [
            row[0].ljust(widths[0]),
            *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)),
        ]
        lines.append("  " + "  ".join(cells).rstrip())
    return lines
