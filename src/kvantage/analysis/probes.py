"""Right answers counted: the probes, their agreement with the control, and the secrets recalled."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kvantage.analysis.cells import Cell
from kvantage.core.columns import RequestColumns
from kvantage.core.reading import Reading

REFUSED = "the server answered 4"
"""How a request's error begins when the server would not take the question at all."""


@dataclass(frozen=True)
class ProbeResult:
    """One kind of probe in one arm at one concurrency. `failures` name the probes and say why."""

    kind: str
    block: int
    concurrency: int
    asked: Reading
    passed: Reading
    failed: Reading
    void: Reading
    agree: Reading
    failures: tuple[str, ...]


@dataclass(frozen=True)
class Recall:
    """Secrets given back in one cell, of those asked for."""

    phase: str
    block: int
    concurrency: int
    recalled: Reading
    asked: Reading


def read_probes(
    requests: RequestColumns, cells: Sequence[Cell], control: Sequence[Cell]
) -> tuple[ProbeResult, ...]:
    """The probe cells of one arm, each beside the control's cell of the same kind and concurrency."""
    beside = {(cell.key.block, cell.key.workload, cell.key.concurrency): cell for cell in control}
    return tuple(
        _probe(requests, cell, beside.get((cell.key.block, cell.key.workload, cell.key.concurrency)))
        for cell in cells
        if cell.key.phase == "probes"
    )


def read_recall(requests: RequestColumns, cells: Sequence[Cell]) -> tuple[Recall, ...]:
    """What each cold and repeat cell recalled; cells whose requests asked for no secret are left out."""
    found = []
    for cell in cells:
        told = [requests.checks[row].get("recall") for row in cell.rows.tolist()]
        marks = [bool(mark) for each in told if isinstance(each, Mapping) for mark in each.values()]
        if marks:
            found.append(
                Recall(
                    cell.key.phase,
                    cell.key.block,
                    cell.key.concurrency,
                    Reading.of(sum(marks), "secrets", "request"),
                    Reading.of(len(marks), "secrets", "request"),
                )
            )
    return tuple(found)


def _probe(requests: RequestColumns, cell: Cell, control: Cell | None) -> ProbeResult:
    verdicts = {"pass": 0, "fail": 0, "void": 0}
    failures = []
    for row in cell.rows.tolist():
        status, why = _verdict(requests, row)
        verdicts[status] += 1
        if status != "pass":
            failures.append(f"{requests.prompt_id[row]}: {status}, {why}")
    return ProbeResult(
        cell.key.workload,
        cell.key.block,
        cell.key.concurrency,
        Reading.of(len(cell.rows), "probes", "request"),
        Reading.of(verdicts["pass"], "probes", "request"),
        Reading.of(verdicts["fail"], "probes", "request"),
        Reading.of(verdicts["void"], "probes", "request"),
        _agreement(requests, cell, control),
        tuple(failures),
    )


def _verdict(requests: RequestColumns, row: int) -> tuple[str, str]:
    if not requests.ok[row]:
        error = str(requests.error[row])
        return ("void" if error.startswith(REFUSED) else "fail"), f"the request failed: {error}"
    checks = requests.checks[row]
    status = checks.get("status")
    if status not in ("pass", "fail", "void"):
        return "void", "not judged"
    return str(status), str(checks.get("why", ""))


def _agreement(requests: RequestColumns, cell: Cell, control: Cell | None) -> Reading:
    if control is None:
        return Reading.absent("the control did not answer this probe")
    if control.key == cell.key:
        return Reading.absent("this is the control")
    theirs = _answers(requests, control)
    mine = _answers(requests, cell)
    both = [prompt for prompt in mine if prompt in theirs]
    if not both:
        return Reading.absent("no answer to compare")
    same = sum(mine[prompt] == theirs[prompt] for prompt in both)
    return Reading.of(same, "answers", "request", note=f"of {len(both)} the same as the control's")


def _answers(requests: RequestColumns, cell: Cell) -> dict[str, str]:
    answers = {}
    for row in cell.rows.tolist():
        checks = requests.checks[row]
        answer = checks["answer"] if "answer" in checks else requests.content[row]
        text = _plain(answer)
        if requests.ok[row] and text:
            answers[str(requests.prompt_id[row])] = text
    return answers


def _plain(answer: Any) -> str:
    """An answer as text; of tool calls only name and arguments, since their ids differ by nature."""
    if isinstance(answer, str):
        return answer.strip()
    if not isinstance(answer, Sequence):
        return json.dumps(answer, sort_keys=True, default=str) if answer else ""
    calls = [call.get("function", call) if isinstance(call, Mapping) else call for call in answer]
    kept = [
        {"name": call.get("name"), "arguments": call.get("arguments")} if isinstance(call, Mapping) else call
        for call in calls
    ]
    return json.dumps(kept, sort_keys=True, default=str) if kept else ""
