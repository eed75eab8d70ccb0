"""A simulated study as plain data and as text; everything in it is marked simulated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kvantage.core import Reading
from kvantage.planner.work import Work
from kvantage.sim.plan import DRAWS, Candidate, Played
from kvantage.sim.replay import DOCUMENTS, SimCell


def simulation_json(
    played: Sequence[Played],
    control: str | None,
    lengths: Sequence[int],
    found: Sequence[Candidate] = (),
    draws: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """Arms with their cells and sessions, each against the control, and candidate causes of misses."""
    return {
        "source": "simulated",
        "arms": {arm.name: _arm(arm, lengths) for arm in played},
        "trades": trades(played, control),
        "candidates": [
            {
                "arm": one.arm,
                "change": one.change,
                "misses": one.misses,
                "queued": one.queued,
                "retractions": one.retractions,
            }
            for one in found
        ],
        "unclean_draws": {arm: {"of": DRAWS, "draws": count} for arm, count in (draws or {}).items()},
    }


def trades(played: Sequence[Played], control: str | None) -> list[dict[str, Any]]:
    """Each pair of arms: what the first gains or loses in pool and in the widest clean cached wave's speed.

    A wave is clean where no arm of the pair missed, queued or was put back in it.
    """
    able = [arm for arm in played if arm.cells and arm.pool_tokens]
    found = []
    for arm in able:
        for base in able:
            if arm is base or (control and control in (one.name for one in able) and arm.name == control):
                continue
            cells = [
                (cell, other)
                for cell in arm.cells
                if cell.phase == "repeat" and (other := base.cell("repeat", cell.concurrency)) is not None
                if clean(cell) and clean(other)
            ]
            if not cells or not arm.pool_tokens or not base.pool_tokens:
                continue
            cell, other = max(
                (pair for pair in cells if pair[0].concurrency <= 2),
                key=lambda pair: pair[0].concurrency,
                default=cells[-1],
            )
            speed = (cell.e2e_tok_s.value or 0) / (other.e2e_tok_s.value or 1) - 1
            pool = arm.pool_tokens / base.pool_tokens - 1
            found.append(
                {
                    "arm": arm.name,
                    "baseline": base.name,
                    "concurrency": cell.concurrency,
                    "speed": Reading.of(speed, "ratio - 1", "simulated").to_json(),
                    "pool": Reading.of(
                        pool, "ratio - 1", "config" if arm.pool_given else "simulated"
                    ).to_json(),
                }
            )
    return found


def clean(cell: SimCell) -> bool:
    """No miss, nobody waited, nothing was put back."""
    return not (cell.misses or cell.queued or cell.retractions or cell.refused)


def simulation_text(
    played: Sequence[Played],
    work: Work,
    lengths: Sequence[int],
    found: Sequence[Candidate] = (),
    draws: Mapping[str, int] | None = None,
) -> str:
    """The write-up's tables for a simulated study, and the candidates."""
    lines = ["", "Simulated in virtual time: nothing of this was measured"]
    rows = [["arm", "pool, tokens", *(f"x {length:,}" for length in lengths)]]
    for arm in played:
        if arm.pool_tokens:
            given = " (given)" if arm.pool_given else ""
            rows.append(
                [
                    arm.name,
                    f"{arm.pool_tokens:,}{given}",
                    *(f"{arm.pool_tokens / one:.1f}" for one in lengths),
                ]
            )
    lines += ["", *_table(rows)]
    heads = [("short", 1, name) for name in work.short]
    heads += [(phase, streams, "documents") for streams in work.concurrency for phase in ("cold", "repeat")]
    rows = [["tok/s, end to end", *(f"{w if p == 'short' else p} {c}" for p, c, w in heads), "hours"]]
    for arm in played:
        if arm.cells:
            speeds = [
                f"{cell.e2e_tok_s.value:.2f}" + ("" if clean(cell) else " *")
                if (cell := arm.cell(*head))
                else "-"
                for head in heads
            ]
            rows.append([arm.name, *speeds, f"{arm.wall_s / 3600:.2f}"])
    lines += ["", *_table(rows)]
    lines += ["", *_table(_waves(played))]
    for arm in played:
        if arm.problem:
            lines.append(f"{arm.name} is not simulated: {arm.problem}")
        for cell in arm.cells:
            if not clean(cell):
                lines.append(
                    f"* {arm.name}, {cell.phase} at {cell.concurrency}: {cell.misses} missed, "
                    f"{cell.queued} waited, {cell.retractions} put back, {cell.refused} refused"
                )
    for trade in trades(played, None):
        speed, pool = trade["speed"]["value"], trade["pool"]["value"]
        if speed < 0 < pool:
            lines.append(
                f"{trade['arm']} against {trade['baseline']}: {speed:+.0%} speed at {trade['concurrency']}, "
                f"{pool:+.0%} pool"
            )
    moved = [one for one in found if one.misses or one.queued or one.retractions]
    if found:
        lines += ["", "Candidates, not findings: what changes the widest cached wave"]
        rows = [["change", "arm", "misses", "waited", "put back"]]
        rows += [
            [one.change, one.arm, str(one.misses), str(one.queued), str(one.retractions)] for one in moved
        ]
        lines += _table(rows) if moved else ["  none of the rules tried changes it"]
    for name, count in (draws or {}).items():
        if count:
            lines.append(
                f"  {name}: nothing changed, in {count} of {DRAWS} draws of its acceptance a request misses, "
                "waits or is put back"
            )
    return "\n".join(lines)


def _waves(played: Sequence[Played]) -> list[list[str]]:
    """A wave of documents a row: how long it takes, waits, and what it finds in the cache."""
    rows = [["wave", "arm", "wall s", "TTFT s", "queue s", "found whole", "put back"]]
    for arm in played:
        for cell in arm.cells:
            if cell.workload != DOCUMENTS:
                continue
            whole = f"{cell.requests - cell.misses} of {cell.requests}" if cell.expected_tokens else "-"
            rows.append(
                [
                    f"{cell.phase} at {cell.concurrency}",
                    arm.name,
                    f"{cell.wall_s:,.1f}",
                    f"{cell.ttft_s:,.2f}",
                    f"{cell.queued_s:,.2f}",
                    whole,
                    str(cell.retractions),
                ]
            )
    return rows


def _arm(arm: Played, lengths: Sequence[int]) -> dict[str, Any]:
    if arm.problem or not arm.pool_tokens:
        return {"missing": arm.problem or "no pool"}
    pool = Reading.of(arm.pool_tokens, "tokens", "config" if arm.pool_given else "predicted")
    return {
        "kv_pool_tokens": pool.to_json(),
        "sessions": {
            str(length): Reading.of(arm.pool_tokens / length, "sessions", "computed").to_json()
            for length in lengths
        },
        "wall_s": Reading.of(arm.wall_s, "s", "simulated").to_json(),
        "cells": [_cell(cell) for cell in arm.cells],
    }


def _cell(cell: SimCell) -> dict[str, Any]:
    return {
        "phase": cell.phase,
        "workload": cell.workload,
        "concurrency": cell.concurrency,
        "requests": cell.requests,
        "wall_s": Reading.of(cell.wall_s, "s", "simulated").to_json(),
        "e2e_tok_s": cell.e2e_tok_s.to_json(),
        "acceptance_length": cell.acceptance_length.to_json(),
        "ttft_s": Reading.of(cell.ttft_s, "s", "simulated").to_json(),
        "queue_s": Reading.of(cell.queued_s, "s", "simulated").to_json(),
        "cached_tokens": Reading.of(cell.cached_tokens, "tokens", "simulated").to_json(),
        "expected_cached_tokens": Reading.of(cell.expected_tokens, "tokens", "simulated").to_json(),
        "misses": cell.misses,
        "waited": cell.queued,
        "retractions": cell.retractions,
        "refused": cell.refused,
    }


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  "
        + "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
