"""From columns to findings: the whole analysis of a study, pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from kvantage.analysis import asked
from kvantage.analysis.capacity import Length, Pool, hold_sessions, read_pool, session_lengths
from kvantage.analysis.cells import Cell, group_cells, group_rechecks
from kvantage.analysis.compare import Comparison, Ratio, compare_cells, crossing, pool_ratio
from kvantage.analysis.decide import Candidate, Verdict, decide
from kvantage.analysis.differences import resolved_differences
from kvantage.analysis.drift import find_drift
from kvantage.analysis.findings import (
    ArmFindings,
    ArmStatus,
    BootFindings,
    Event,
    Findings,
    SkippedFindings,
    StudyFindings,
)
from kvantage.analysis.ladder import read_ladders
from kvantage.analysis.limits import limits_of, method_of
from kvantage.analysis.measure import MeasuredCell, drafts, measure_cell
from kvantage.analysis.probes import read_probes, read_recall
from kvantage.analysis.sweep import read_sweeps
from kvantage.analysis.trade import pair_sentence, weigh
from kvantage.core.arm import ArmSettings
from kvantage.core.columns import BootRow, StudyData
from kvantage.core.facts import Facts
from kvantage.core.reading import Reading


def analyse(data: StudyData) -> Findings:
    """Everything that a study's ledger shows."""
    facts = {(boot.arm, boot.block): boot.facts for boot in data.boots if boot.facts is not None}
    settings = {arm.name: arm for arm in data.arms}
    measured = {
        arm.name: tuple(
            measure_cell(data, cell, settings[arm.name], facts.get((arm.name, cell.key.block)))
            for cell in cells
        )
        for arm, cells in _cells_by_arm(data)
    }
    booted = {
        arm.name: [boot.facts for boot in data.boots if boot.arm == arm.name and boot.facts is not None]
        for arm in data.arms
    }
    pools = {
        arm.name: read_pool(booted[arm.name], booted.get(data.control, ()), arm.name == data.control)
        for arm in data.arms
    }
    lengths = _lengths(data, measured)
    arms = tuple(_arm(data, arm, measured, pools[arm.name], lengths) for arm in data.arms)
    comparisons = _compare(data, measured, pools, booted)
    trades = tuple(
        weigh(comparison, pools[comparison.arm], pools[comparison.baseline])
        for comparison in comparisons
        if comparison.against_control
    )
    rechecks = [
        measure_cell(data, cell, settings[data.control], facts.get((data.control, cell.key.block)))
        for cell in group_rechecks(data)
        if cell.key.arm == data.control
    ]
    drift = find_drift(data.requests, rechecks, measured.get(data.control, ()))
    notice = _notice(data)
    ladders = read_ladders(data, measured, facts)
    return Findings(
        study=_study(data),
        arms=arms,
        comparisons=comparisons,
        trades=trades,
        verdict=_verdict(data, arms, measured, pools, comparisons),
        drift=drift,
        events=_events(data),
        notice=notice,
        simulated=data.simulated,
        limits=limits_of(arms, lengths, drift, data, ladders),
        method=method_of(data),
        kvantage_version=data.kvantage_version,
        ladders=ladders,
        sweeps=read_sweeps(data, measured, comparisons),
    )


def _cells_by_arm(data: StudyData) -> list[tuple[ArmSettings, list[Cell]]]:
    cells = group_cells(data)
    return [(arm, [cell for cell in cells if cell.key.arm == arm.name]) for arm in data.arms]


def _lengths(data: StudyData, measured: dict[str, tuple[MeasuredCell, ...]]) -> tuple[Length, ...]:
    document, answer = asked.document_tokens(data.study), asked.answer_tokens(data.study)
    if document is None or answer is None:
        return ()
    counted = [
        data.requests.prompt_tokens[each.cell.rows]
        for cells in measured.values()
        for each in cells
        if each.cell.key.phase in ("cold", "repeat")
    ]
    prompts = np.concatenate(counted) if counted else np.empty(0)
    prompts = prompts[np.isfinite(prompts)]
    typical = round(float(np.median(prompts))) if prompts.size else None
    return session_lengths(document, answer, typical)


def _arm(
    data: StudyData,
    arm: ArmSettings,
    measured: dict[str, tuple[MeasuredCell, ...]],
    pool: Pool,
    lengths: Sequence[Length],
) -> ArmFindings:
    boots = [boot for boot in data.boots if boot.arm == arm.name]
    mine = measured[arm.name]
    cells = [each.cell for each in mine]
    control = [each.cell for each in measured.get(data.control, ())]
    status, reason, lines = _status(boots, mine)
    return ArmFindings(
        name=arm.name,
        control=arm.name == data.control,
        speculation=arm.speculation,
        status=status,
        reason=reason,
        log_lines=lines,
        pool=pool,
        boots=tuple(_boot(boot) for boot in boots),
        cells=tuple(each.findings for each in mine),
        sessions=hold_sessions(pool, lengths),
        probes=read_probes(data.requests, cells, control),
        recall=read_recall(data.requests, cells),
        skipped=tuple(
            SkippedFindings(skip.block, skip.phase, skip.workload, skip.reason)
            for skip in data.skipped
            if skip.arm == arm.name
        ),
        as_served=next((boot.facts.speculation for boot in boots if boot.facts), {}),
        engine_version=next((boot.facts.engine_version for boot in boots if boot.facts), None),
    )


def _status(
    boots: Sequence[BootRow], cells: Sequence[MeasuredCell]
) -> tuple[ArmStatus, str | None, tuple[str, ...]]:
    """An arm is measured when its last boot of every block came up and it has a finished cell."""
    last = {boot.block: boot for boot in boots}
    failed = [boot for boot in last.values() if boot.status == "failed"]
    finished = any(each.cell.windows for each in cells)
    reason = "; ".join(dict.fromkeys(boot.reason or "no reason told" for boot in failed)) or None
    lines = tuple(line for boot in failed for line in boot.log_lines)
    if not boots:
        return "not measured", "it was never started", ()
    if failed:
        return ("partial" if finished else "failed"), reason, lines
    if not finished:
        return "not measured", "no cell was finished", ()
    if any(not each.cell.windows for each in cells):
        return "partial", "some cells were broken off", ()
    return "measured", None, ()


def _boot(boot: BootRow) -> BootFindings:
    untold = Reading.absent(boot.reason or "the server told no facts")
    ready = boot.ready_s
    return BootFindings(
        block=boot.block,
        status=boot.status,
        started_at=boot.started_at,
        ready_s=untold if ready is None else Reading.of(ready, "s", "client"),
        pool_tokens=boot.facts.reading("kv_pool_tokens") if boot.facts else untold,
        pool_bytes=boot.facts.reading("kv_pool_bytes") if boot.facts else untold,
        reason=boot.reason,
        log_lines=boot.log_lines,
        warnings=boot.facts.warnings if boot.facts else (),
        provenance=boot.provenance,
    )


def _compare(
    data: StudyData,
    measured: dict[str, tuple[MeasuredCell, ...]],
    pools: dict[str, Pool],
    booted: dict[str, list[Facts]],
) -> tuple[Comparison, ...]:
    """Each arm against the control, then every other pair, the later arm against the earlier."""
    names = [arm.name for arm in data.arms]
    others = [name for name in names if name != data.control]
    pairs = [(name, data.control) for name in others if data.control in names]
    pairs += [(late, early) for place, early in enumerate(others) for late in others[place + 1 :]]
    settings = {arm.name: arm for arm in data.arms}
    found = []
    for arm, baseline in pairs:
        drafting = drafts(settings[baseline], next(iter(booted[baseline]), None))
        ratios = compare_cells(data.requests, measured[arm], measured[baseline], drafting)
        crossover, phase = crossing(ratios)
        found.append(
            Comparison(
                arm,
                baseline,
                baseline == data.control,
                pool_ratio(pools[arm].tokens, pools[baseline].tokens),
                pool_ratio(pools[arm].bytes, pools[baseline].bytes),
                ratios,
                crossover,
                phase,
                resolved_differences(next(iter(booted[arm]), None), next(iter(booted[baseline]), None)),
            )
        )
    return tuple(replace(each, sentence=pair_sentence(each)) for each in found)


def _verdict(
    data: StudyData,
    arms: Sequence[ArmFindings],
    measured: dict[str, tuple[MeasuredCell, ...]],
    pools: dict[str, Pool],
    comparisons: Sequence[Comparison],
) -> Verdict:
    policy = asked.read_policy(data.study)
    if policy is None:
        return decide(None, (), {}, data.control)
    goal = asked.settle(policy.objective, data.study)
    policy = asked.Policy(goal, policy.sessions, policy.session_tokens)
    candidates = [
        Candidate(
            arm.name,
            _figure(goal, measured[arm.name]),
            pools[arm.name],
            f"{arm.status}: {arm.reason}" if arm.status in ("failed", "not measured") else None,
        )
        for arm in arms
    ]
    margins: dict[tuple[str, str], Ratio] = {}
    for comparison in comparisons:
        for ratio in comparison.ratios:
            if (
                ratio.metric == goal.metric
                and ratio.phase == goal.phase
                and goal.workload in (None, ratio.workload)
                and ratio.concurrency == goal.concurrency
            ):
                margins[comparison.arm, comparison.baseline] = ratio
    return decide(policy, candidates, margins, data.control)


def _figure(goal: asked.Objective, cells: Sequence[MeasuredCell]) -> Reading:
    """What is maximised, of one arm: the geometric mean over the requests, or of the boots' figures."""
    chosen = [
        each
        for each in cells
        if each.cell.key.phase == goal.phase
        and goal.workload in (None, each.cell.key.workload)
        and each.cell.key.concurrency == goal.concurrency
    ]
    if not chosen:
        return Reading.absent("its cell was not measured")
    sound = [each for each in chosen if each.findings.ok]
    if not sound:
        reasons = "; ".join(dict.fromkeys(r for each in chosen for r in each.findings.status.reasons))
        return Reading.absent(f"its cell is void ({reasons})")
    if goal.metric == "e2e_tok_s":
        values = [each.findings.speed.end_to_end.value for each in sound]
        known = np.array([value for value in values if value is not None])
    else:
        known = np.concatenate([each.timing.rate[each.kept] for each in sound])
        known = known[np.isfinite(known)]
    if not known.size:
        return Reading.absent("its cell told no rate")
    value = math.exp(float(np.log(known).mean()))
    return Reading.of(value, "tok/s", "client", note=f"geometric mean of {known.size}")


def _study(data: StudyData) -> StudyFindings:
    document = asked.document_tokens(data.study)
    model = data.study.get("model")
    return StudyFindings(
        model=asked.model_name(data.study),
        revision=model.get("revision") if isinstance(model, dict) else None,
        engine=asked.engine_name(data.study),
        control=data.control,
        document_tokens=(
            Reading.absent("the study asks for no documents")
            if document is None
            else Reading.of(document, "tokens", "config")
        ),
        concurrency=asked.concurrencies(data.study),
        declared=data.study,
    )


def _events(data: StudyData) -> tuple[Event, ...]:
    """The events that say something in words, each once for an arm."""
    found: dict[tuple[str, str | None, str], Event] = {}
    for event in data.events:
        text = event.get("text") or event.get("words")
        if text:
            arm = str(event["arm"]) if event.get("arm") else None
            kind = str(event.get("kind", ""))
            made = Event(str(event.get("at", "")), kind, arm, str(text))
            found.setdefault((kind, arm, made.text), made)
    return tuple(found.values())


def _notice(data: StudyData) -> str | None:
    said = str(data.study.get("notice") or "").strip()
    simulated = (
        "SIMULATED: figures come from a simulator or from simulated acceptance." if data.simulated else ""
    )
    return " ".join(text for text in (simulated, said) if text) or None
