"""A run and a write-up as sheets: figures with their place and definition, protocol and configuration."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kvantage.analysis import asked
from kvantage.analysis.capacity import median_of
from kvantage.analysis.findings import ArmFindings, Findings
from kvantage.analysis.measure import CellFindings
from kvantage.analysis.sheet import NOT_SAID, RATES, Entry, Sheet, SheetArm
from kvantage.analysis.studied import most_boots
from kvantage.core.reading import Reading
from kvantage.study.posted import Figure, Posted, PostedArm


def sheet_of_posted(posted: Posted) -> Sheet:
    """A write-up's sheet."""
    said = posted.protocol
    protocol = {
        "rate": RATES[said.rate],
        "streamed": _text(said.streamed),
        "counted": _text(said.counted),
        "boots of each arm": _text(said.boots),
        "measured requests of a short prompt": _text(said.repeats),
        "warm-ups": _text(said.warmup),
        "published of the repeats": _text(said.summary),
        "temperature": _text(said.temperature),
        "cache hits checked for every request": _text(said.hits_checked),
        "queueing checked": _text(said.queueing_checked),
    }
    configuration = {
        "model": posted.model,
        "revision": _text(posted.revision),
        "engine": posted.engine,
        "engine version": _text(posted.engine_version),
        "hardware": posted.hardware,
        **{name: str(value) for name, value in posted.configuration.items()},
    }
    arms = tuple(_posted_arm(name, arm, posted) for name, arm in posted.arms.items())
    return Sheet(posted.title, True, posted.control, protocol, configuration, arms, posted.notes)


def sheet_of_run(findings: Findings, name: str) -> Sheet:
    """A run's sheet: both definitions of every speed, so that a write-up meets its own."""
    study = findings.study.declared
    short = asked.phase_settings(study, "short")
    control = findings.arm(findings.study.control)
    common = study.get("common") or {}
    samplers = common.get("samplers") or {}
    protocol = {
        "rate": f"both: {RATES['steady']}; {RATES['phase_wall']}",
        "streamed": "yes",
        "counted": "tokens",
        "boots of each arm": str(most_boots({control.name: [cell.key for cell in control.cells]})),
        "measured requests of a short prompt": _text(short.get("repeats")),
        "warm-ups": _text(short.get("warmup")),
        "published of the repeats": "median; ratios by geometric mean",
        "temperature": _text(samplers.get("temperature", 0)),
        "cache hits checked for every request": "yes",
        "queueing checked": "yes",
    }
    configuration = {
        "model": findings.study.model,
        "revision": _text(findings.study.revision),
        "engine": findings.study.engine,
        "engine version": _text(control.engine_version),
        "hardware": _hardware(findings),
        **{str(key): str(value) for key, value in common.items() if _plain(value)},
    }
    arms = tuple(_run_arm(arm, study) for arm in findings.arms)
    return Sheet(name, False, findings.study.control, protocol, configuration, arms)


def _posted_arm(name: str, arm: PostedArm, posted: Posted) -> SheetArm:
    drafts = (
        "" if arm.drafts is None else f"{arm.drafts} ({arm.drafts_mean or 'proposed or verified: not said'})"
    )
    settings = {"drafts": drafts, "draft": arm.draft or "", "draft KV": arm.draft_kv_dtype or ""}
    settings |= {key: str(value) for key, value in arm.configuration.items()}
    return SheetArm(
        name,
        arm.method,
        arm.draft_kv_dtype,
        tuple(_posted_entry(figure, posted) for figure in arm.figures),
        {key: value for key, value in settings.items() if value},
    )


def _posted_entry(figure: Figure, posted: Posted) -> Entry:
    units = {
        "tok_s": "tok/s",
        "ttft_s": "s",
        "kv_pool_tokens": "tokens",
        "kv_pool_bytes": "bytes",
        "acceptance_length": "tokens/step",
        "sessions": "sessions",
    }
    notes = [figure.note or "", "computed by its author" if figure.arithmetic else ""]
    definition = ""
    if figure.metric == "tok_s":
        definition = figure.rate or posted.protocol.rate or NOT_SAID
    if figure.metric == "acceptance_length":
        definition = {True: "incl. bonus", False: "bonus not counted", None: NOT_SAID}[figure.bonus]
    note = "; ".join(text for text in notes if text) or None
    reading = Reading.of(
        figure.value, units[figure.metric], "config", low=figure.low, high=figure.high, note="as published"
    )
    return Entry(
        figure.metric,
        figure.phase or "",
        figure.workload,
        figure.concurrency,
        reading,
        definition,
        figure.prompt_tokens,
        figure.output_tokens,
        figure.cached,
        bool(figure.aggregate),
        note,
    )


def _run_arm(arm: ArmFindings, study: Mapping[str, object]) -> SheetArm:
    speculation = arm.speculation
    entries = [Entry("kv_pool_tokens", "", None, None, arm.pool.tokens)] if arm.pool.tokens.known else []
    if arm.pool.bytes.known:
        entries.append(Entry("kv_pool_bytes", "", None, None, arm.pool.bytes))
    places = dict.fromkeys((cell.key.phase, cell.key.workload, cell.key.concurrency) for cell in arm.cells)
    for place in places:
        if place[0] != "probes":
            entries += _run_entries(arm.cell(*place), study)
    settings = {
        "drafts": "" if speculation.drafts is None else f"{speculation.drafts} (proposed)",
        "draft": speculation.draft or "",
        "draft KV": speculation.draft_kv_dtype or "",
    }
    return SheetArm(
        arm.name,
        speculation.method,
        speculation.draft_kv_dtype,
        tuple(entries),
        {key: value for key, value in settings.items() if value},
    )


def _run_entries(cells: tuple[CellFindings, ...], study: Mapping[str, object]) -> list[Entry]:
    """The figures of a place over its boots; a void place has none."""
    sound = [cell for cell in cells if cell.sound]
    if not sound:
        return []
    key = sound[0].key
    several = key.concurrency > 1
    prompts = [
        cell.prompt_tokens.value / cell.requests.value
        for cell in sound
        if cell.prompt_tokens.value and cell.requests.value
    ]
    length = round(float(np.mean(prompts))) if prompts else None
    output = asked.output_tokens(study, key.phase)
    cached = {"cold": False, "repeat": True}.get(key.phase)
    told = [
        ("tok_s", "steady", [cell.speed.steady if several else cell.speed.decode for cell in sound], several),
        ("tok_s", "phase_wall", [cell.speed.end_to_end for cell in sound], several),
        ("ttft_s", "", [cell.speed.ttft for cell in sound], False),
        ("acceptance_length", "incl. bonus", [cell.acceptance.length for cell in sound], False),
    ]
    entries = []
    for metric, definition, readings, aggregate in told:
        known = [reading for reading in readings if reading.value is not None]
        if not known:
            continue
        values = [reading.value for reading in known if reading.value is not None]
        first = known[0]
        reading = first if len(known) == 1 else median_of(values, first)
        entries.append(
            Entry(
                metric,
                key.phase,
                key.workload,
                key.concurrency,
                reading,
                definition,
                length,
                output,
                cached,
                aggregate,
            )
        )
    return entries


def _hardware(findings: Findings) -> str:
    """The devices where the machine tells them, then the machine, of the first boot that was recorded."""
    for arm in findings.arms:
        for boot in arm.boots:
            recorded = boot.provenance or {}
            machine, system = recorded.get("hardware"), recorded.get("system")
            if not isinstance(machine, Mapping):
                continue
            devices = system.get("devices") if isinstance(system, Mapping) else None
            names = [str(device.get("name")) for device in devices or () if isinstance(device, Mapping)]
            told = [f"{names.count(name)} x {name}" for name in dict.fromkeys(names)]
            told += [
                f"{name} {value}" for name, value in machine.items() if _plain(value) and value is not False
            ]
            return ", ".join(told)
    return NOT_SAID


def _plain(value: object) -> bool:
    return isinstance(value, str | int | float) and value is not None


def _text(value: object) -> str:
    if value is None:
        return NOT_SAID
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)
