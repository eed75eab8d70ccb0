"""From columns to findings: the whole analysis of a study, pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from kvantage.analysis import asked
from kvantage.analysis.attribution import Attribution, attribute
from kvantage.analysis.capacity import Length, Pool, hold_sessions, session_lengths
from kvantage.analysis.cells import group_rechecks
from kvantage.analysis.clocks import Clocks, gather
from kvantage.analysis.compare import (
    Comparison,
    allow_for_arms,
    compare_cells,
    crossing,
    pool_ratio,
)
from kvantage.analysis.constraints import Evidence, keep
from kvantage.analysis.decide import Candidate, Verdict, decide
from kvantage.analysis.differences import resolved_differences
from kvantage.analysis.drift import Drift, find_drift
from kvantage.analysis.exactness.judge import Exactness
from kvantage.analysis.exactness.study import read_exactness
from kvantage.analysis.findings import (
    ArmFindings,
    ArmStatus,
    BootFindings,
    Event,
    Findings,
    SkippedFindings,
    StudyFindings,
)
from kvantage.analysis.foretold import hold
from kvantage.analysis.ladder import read_ladders
from kvantage.analysis.limits import limits_of, method_of
from kvantage.analysis.margin import margins_of
from kvantage.analysis.measure import MeasuredCell, drafts, measure_cell
from kvantage.analysis.memory import Memory, read_memory
from kvantage.analysis.objective import figure
from kvantage.analysis.probes import read_probes, read_recall
from kvantage.analysis.studied import Studied, measure_arms
from kvantage.analysis.sweep import read_sweeps
from kvantage.analysis.trade import pair_sentence, weigh
from kvantage.analysis.waves import read_waves
from kvantage.core.arm import ArmSettings
from kvantage.core.columns import BootRow, StudyData
from kvantage.core.facts import Facts
from kvantage.core.reading import Reading


def analyse(data: StudyData) -> Findings:
    """Everything that a study's ledger shows."""
    studied = measure_arms(data)
    settings, facts, booted = studied.settings, studied.facts, studied.booted
    measured, pools = studied.measured, studied.pools
    lengths = _lengths(data, measured)
    arms = tuple(_arm(data, arm, measured, pools[arm.name], lengths) for arm in data.arms)
    comparisons = _compare(data, studied)
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
    drafting = {arm.name: any(drafts(arm, each) for each in (*booted[arm.name], None)) for arm in data.arms}
    exactness = read_exactness(data, drafting)
    return Findings(
        study=_study(data),
        arms=arms,
        comparisons=comparisons,
        trades=trades,
        verdict=_verdict(data, arms, studied, drift, exactness),
        drift=drift,
        events=_events(data),
        notice=notice,
        simulated=data.simulated,
        limits=limits_of(arms, lengths, drift, data, ladders),
        method=method_of(data),
        kvantage_version=data.kvantage_version,
        ladders=ladders,
        sweeps=read_sweeps(data, measured, comparisons),
        attributions=_attributions(data, booted),
        foresight=hold(data, pools, measured),
        memory=_memory(data, booted),
        waves=tuple(wave for cells in measured.values() for wave in read_waves(data.requests, cells)),
        exactness=exactness,
        clocks=_clocks(data, measured),
    )


def _clocks(data: StudyData, measured: Mapping[str, Sequence[MeasuredCell]]) -> Clocks | None:
    """What was looked at under each cell, and the energy of the sound ones."""
    each = [one for cells in measured.values() for one in cells]
    cells = [(one.clocks, one.findings.sound) for one in each if one.clocks is not None]
    return gather(cells, data.watched, [arm.name for arm in data.arms], data.control)


def _memory(data: StudyData, booted: Mapping[str, Sequence[Facts]]) -> tuple[Memory, ...]:
    control = booted.get(data.control, ())
    found = (read_memory(arm.name, booted[arm.name], control) for arm in data.arms)
    return tuple(each for each in found if each is not None)


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
    answered = any(each.arm == arm.name for each in data.exactness.answers)
    status, reason, lines = _status(boots, mine, answered)
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
    boots: Sequence[BootRow], cells: Sequence[MeasuredCell], answered: bool = False
) -> tuple[ArmStatus, str | None, tuple[str, ...]]:
    """An arm is measured when its last boot of every block came up and it has a finished cell."""
    last = {boot.block: boot for boot in boots}
    failed = [boot for boot in last.values() if boot.status == "failed"]
    finished = answered or any(each.cell.windows for each in cells)
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


def _compare(data: StudyData, studied: Studied) -> tuple[Comparison, ...]:
    """Each arm against the control, then every other pair, the later arm against the earlier."""
    measured, pools, booted = studied.measured, studied.pools, studied.booted
    level = asked.level(data.study, studied.boots)
    names = [arm.name for arm in data.arms]
    others = [name for name in names if name != data.control]
    pairs = [(name, data.control) for name in others if data.control in names]
    pairs += [(late, early) for place, early in enumerate(others) for late in others[place + 1 :]]
    settings = {arm.name: arm for arm in data.arms}
    found = []
    for arm, baseline in pairs:
        drafting = drafts(settings[baseline], next(iter(booted[baseline]), None))
        ratios = compare_cells(data.requests, measured[arm], measured[baseline], drafting, level)
        crossover, phase = crossing(ratios)
        found.append(
            Comparison(
                arm,
                baseline,
                baseline == data.control,
                _pool_ratio(data, pools, arm, baseline, "tokens"),
                _pool_ratio(data, pools, arm, baseline, "bytes"),
                ratios,
                crossover,
                phase,
                resolved_differences(next(iter(booted[arm]), None), next(iter(booted[baseline]), None)),
            )
        )
    return tuple(replace(each, sentence=pair_sentence(each)) for each in allow_for_arms(found))


def _pool_ratio(
    data: StudyData, pools: Mapping[str, Pool], arm: str, baseline: str, size: Literal["tokens", "bytes"]
) -> Reading:
    """One pool over another, block by block where both were told."""
    told: dict[str, dict[int, float]] = {arm: {}, baseline: {}}
    for boot in data.boots:
        if boot.arm in told and boot.facts is not None:
            value = boot.facts.reading(f"kv_pool_{size}").value
            if value is not None:
                told[boot.arm][boot.block] = value
    pairs = [(value, told[baseline][block]) for block, value in told[arm].items() if block in told[baseline]]
    if size == "tokens":
        return pool_ratio(pools[arm].tokens, pools[baseline].tokens, pairs)
    return pool_ratio(pools[arm].bytes, pools[baseline].bytes, pairs)


def _attributions(data: StudyData, booted: Mapping[str, Sequence[Facts]]) -> tuple[Attribution, ...]:
    """What took each arm's pool, by the first boot of each, as in `resolved_differences`."""
    settings = {arm.name: arm for arm in data.arms}
    control, baseline = settings.get(data.control), next(iter(booted.get(data.control, ())), None)
    if control is None or baseline is None:
        return ()
    found = [
        attribute(arm, facts, control, baseline)
        for arm in data.arms
        if arm is not control and (facts := next(iter(booted[arm.name]), None)) is not None
    ]
    return tuple(each for each in found if each is not None)


def _verdict(
    data: StudyData,
    arms: Sequence[ArmFindings],
    studied: Studied,
    drift: Sequence[Drift],
    exactness: Exactness | None = None,
) -> Verdict:
    policy = asked.read_policy(data.study)
    if policy is None:
        return decide(None, (), {}, data.control)
    candidates = []
    for arm in arms:
        cells = studied.measured[arm.name]
        judged = exactness.of(arm.name) if exactness else None
        evidence = Evidence(
            arm.pool,
            cells,
            judged.cls if judged else None,
            arm.name == data.control,
            max(1, len(studied.booted[arm.name])),
        )
        failed = f"{arm.status}: {arm.reason}" if arm.status in ("failed", "not measured") else None
        candidates.append(
            Candidate(arm.name, figure(policy.objective, cells), arm.pool, failed, keep(policy, evidence))
        )
    margins = margins_of(
        data.requests, policy.objective, studied.measured, asked.level(data.study, studied.boots)
    )
    return decide(policy, candidates, margins, data.control, asked.margin(data.study), drift)


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
