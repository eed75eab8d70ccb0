"""report.json: everything that was found, in a stable and versioned form.

Within one major version of the schema fields are only added. Every quantity is `{value, unit, source}`,
with `low`, `high` and `note` where there are any, or `{missing: reason}`. Plain numbers are ids and keys
(block, concurrency), and what is quoted from the study file or from provenance.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import resources
from typing import Any

from kvantage.analysis.acceptance import Acceptance
from kvantage.analysis.capacity import Pool, Sessions
from kvantage.analysis.compare import Comparison, Ratio
from kvantage.analysis.drift import Drift
from kvantage.analysis.findings import ArmFindings, BootFindings, Findings
from kvantage.analysis.measure import CellFindings
from kvantage.analysis.probes import ProbeResult, Recall
from kvantage.analysis.trade import Trade
from kvantage.report.attribution import attribution_json
from kvantage.report.clocks import clocks_json
from kvantage.report.decision import inference_json, verdict_json
from kvantage.report.exactness_json import exactness_json
from kvantage.report.figures import number
from kvantage.report.foretold import foresight_json
from kvantage.report.ladder import ladder_json
from kvantage.report.memory import memory_json
from kvantage.report.sweep import sweep_json

SCHEMA_VERSION = "1.2"
SCHEMA_FILE = "report.schema.json"

Json = dict[str, Any]


def report_json(findings: Findings) -> str:
    """The text of report.json."""
    return json.dumps(report(findings), indent=2, ensure_ascii=False, allow_nan=False, default=str) + "\n"


def report_schema() -> Json:
    """The JSON Schema that report.json obeys."""
    text = resources.files("kvantage.report").joinpath(SCHEMA_FILE).read_text(encoding="utf-8")
    schema: Json = json.loads(text)
    return schema


def report(findings: Findings) -> Json:
    """report.json as plain data."""
    study = findings.study
    return {
        "schema_version": SCHEMA_VERSION,
        "kvantage_version": findings.kvantage_version,
        "notice": findings.notice,
        "simulated": findings.simulated,
        "study": {
            "model": study.model,
            "revision": study.revision,
            "engine": study.engine,
            "control": study.control,
            "arms": [arm.name for arm in findings.arms],
            "document_tokens": number(study.document_tokens),
            "concurrency": list(study.concurrency),
            "declared": _quoted(study.declared),
        },
        "verdict": verdict_json(findings.verdict),
        "trades": {trade.arm: _trade(trade) for trade in findings.trades},
        "arms": {arm.name: _arm(arm) for arm in findings.arms},
        "comparisons": [_comparison(comparison) for comparison in findings.comparisons],
        "ttft": [ladder_json(each) for each in findings.ladders],
        "sweep": [sweep_json(each) for each in findings.sweeps],
        "memory": [memory_json(each) for each in findings.memory],
        "pool_attribution": [attribution_json(each) for each in findings.attributions],
        "predicted": foresight_json(findings),
        "exactness": exactness_json(findings.exactness),
        "clocks": clocks_json(findings.clocks),
        "drift": [_drift(each) for each in findings.drift],
        "events": [
            {"at": event.at, "kind": event.kind, "arm": event.arm, "text": event.text}
            for event in findings.events
        ],
        "measured": _measured(findings),
        "method": list(findings.method),
        "limits": list(findings.limits),
    }


def _arm(arm: ArmFindings) -> Json:
    speculation = arm.speculation
    return {
        "status": arm.status,
        "reason": arm.reason,
        "log_lines": list(arm.log_lines),
        "control": arm.control,
        "engine_version": arm.engine_version,
        "speculation": {
            "method": speculation.method,
            "drafts": _declared(speculation.drafts, "tokens"),
            "draft": speculation.draft,
            "draft_kv_dtype": speculation.draft_kv_dtype,
            "as_served": _quoted(arm.as_served),
        },
        "kv_pool": _pool(arm.pool),
        "boots": [_boot(boot) for boot in arm.boots],
        "cells": [_cell(cell) for cell in arm.cells],
        "sessions": {session.name: _sessions(session) for session in arm.sessions},
        "probes": [_probe(probe) for probe in arm.probes],
        "recall": [_recall(recall) for recall in arm.recall],
        "acceptance": [_acceptance_row(cell) for cell in arm.cells if _accepts(cell)],
        "skipped": [
            {"block": skip.block, "phase": skip.phase, "workload": skip.workload, "reason": skip.reason}
            for skip in arm.skipped
        ],
    }


def _declared(value: int | None, unit: str) -> Json:
    if value is None:
        return {"missing": "not declared"}
    return {"value": value, "unit": unit, "source": "config"}


def _pool(pool: Pool) -> Json:
    return {
        "tokens": number(pool.tokens),
        "bytes": number(pool.bytes),
        "lost_tokens_percent": number(pool.lost_tokens),
        "lost_bytes_percent": number(pool.lost_bytes),
        "context_length": number(pool.context_length),
        "block_tokens": number(pool.block_tokens),
    }


def _boot(boot: BootFindings) -> Json:
    return {
        "block": boot.block,
        "status": boot.status,
        "started_at": boot.started_at,
        "ready_s": number(boot.ready_s),
        "kv_pool": {"tokens": number(boot.pool_tokens), "bytes": number(boot.pool_bytes)},
        "reason": boot.reason,
        "log_lines": list(boot.log_lines),
        "warnings": list(boot.warnings),
        "provenance": _quoted(boot.provenance or {}),
    }


def _cell(cell: CellFindings) -> Json:
    speed = cell.speed
    return {
        "block": cell.key.block,
        "phase": cell.key.phase,
        "workload": cell.key.workload,
        "concurrency": cell.key.concurrency,
        "status": cell.status.status,
        "reasons": list(cell.status.reasons),
        "finding": cell.status.finding,
        "queue": cell.queue,
        "measured_at": cell.measured_at,
        "requests": number(cell.requests),
        "warmups": number(cell.warmups),
        "decode_tok_s": number(speed.decode),
        "steady_tok_s": number(speed.steady),
        "e2e_tok_s": number(speed.end_to_end),
        "ttft_s": number(speed.ttft),
        "itl_chunk_s": number(speed.itl_chunk),
        "itl_token_s": number(speed.itl_token),
        "acceptance_length": number(cell.acceptance.length),
        "acceptance": _acceptance(cell.acceptance),
        "prompt_tokens": number(cell.prompt_tokens),
        "output_tokens": number(cell.output_tokens),
        "cached_tokens": number(cell.cached_tokens),
        "expected_cached_tokens": number(cell.expected_cached_tokens),
        "missed_requests": number(cell.missed_requests),
        "client_lag_s": number(cell.client_lag_s),
        "excluded": [
            {"prompt_id": gone.prompt_id, "repeat": gone.repeat, "stream": gone.stream, "why": gone.why}
            for gone in speed.excluded
        ],
        "notes": list(cell.notes),
    }


def _acceptance(acceptance: Acceptance) -> Json:
    return {
        "length_per_drafting_step": number(acceptance.per_drafting_step),
        "length_per_decode_step": number(acceptance.per_decode_step),
        "rate": number(acceptance.rate),
        "per_position": [number(share) for share in acceptance.per_position],
        "highest_length": number(acceptance.highest_length),
        "highest_rate": number(acceptance.highest_rate),
        "drafted_tokens": number(acceptance.drafted),
        "accepted_tokens": number(acceptance.accepted),
        "refused": list(acceptance.refused),
    }


def _accepts(cell: CellFindings) -> bool:
    return cell.acceptance.length.known


def _acceptance_row(cell: CellFindings) -> Json:
    return {
        "block": cell.key.block,
        "phase": cell.key.phase,
        "workload": cell.key.workload,
        "concurrency": cell.key.concurrency,
        "cell_status": cell.status.status,
        **_acceptance(cell.acceptance),
    }


def _sessions(sessions: Sessions) -> Json:
    return {
        "session_tokens": number(sessions.session_tokens),
        "sessions": number(sessions.sessions),
        "whole_sessions": number(sessions.whole),
        "headroom_tokens": number(sessions.headroom),
        "note": sessions.note,
    }


def _probe(probe: ProbeResult) -> Json:
    return {
        "kind": probe.kind,
        "block": probe.block,
        "concurrency": probe.concurrency,
        "asked": number(probe.asked),
        "passed": number(probe.passed),
        "failed": number(probe.failed),
        "void": number(probe.void),
        "agree_with_control": number(probe.agree),
        "failures": list(probe.failures),
    }


def _recall(recall: Recall) -> Json:
    return {
        "phase": recall.phase,
        "block": recall.block,
        "concurrency": recall.concurrency,
        "recalled": number(recall.recalled),
        "asked": number(recall.asked),
    }


def _comparison(comparison: Comparison) -> Json:
    crossover = comparison.crossover
    return {
        "arm": comparison.arm,
        "baseline": comparison.baseline,
        "against_control": comparison.against_control,
        "pool_tokens_ratio": number(comparison.pool_tokens),
        "pool_bytes_ratio": number(comparison.pool_bytes),
        "sentence": comparison.sentence,
        "ratios": [_ratio(ratio) for ratio in comparison.ratios],
        "crossover": None
        if crossover is None
        else {
            "phase": comparison.crossover_phase,
            "words": crossover.words,
            "after_concurrency": crossover.low,
            "by_concurrency": crossover.high,
        },
        "resolved_differences": [
            {"setting": each.setting, "arm": each.arm, "baseline": each.baseline}
            for each in comparison.differs
        ],
    }


def _ratio(ratio: Ratio) -> Json:
    return {
        "metric": ratio.metric,
        "phase": ratio.phase,
        "workload": ratio.workload,
        "concurrency": ratio.concurrency,
        "ratio": number(ratio.ratio),
        "value": number(ratio.value),
        "baseline_value": number(ratio.baseline),
        "replication": ratio.replication,
        "acceptance_length": number(ratio.acceptance_length),
        "rho": number(ratio.rho),
        "break_even_acceptance_length": number(ratio.rho),
        "inference": inference_json(ratio),
    }


def _trade(trade: Trade) -> Json:
    headline = trade.headline
    return {
        "baseline": trade.baseline,
        "sentence": trade.sentence,
        "effect": trade.effect,
        "pool_lost_percent": number(trade.pool_lost),
        "speed_ratio": {"missing": "no speed was measured in both arms"}
        if headline is None
        else number(headline.ratio),
    }


def _drift(drift: Drift) -> Json:
    return {
        "arm": drift.arm,
        "block": drift.block,
        "workload": drift.workload,
        "measured_at": drift.measured_at,
        "ratio": number(drift.ratio.ratio),
        "replication": drift.ratio.replication,
        "moved": drift.moved,
    }


def _measured(findings: Findings) -> list[Json]:
    """What was measured when: a row a boot, with the first and last of its cells."""
    rows = []
    for arm in findings.arms:
        for boot in arm.boots:
            stamps = sorted(
                cell.measured_at for cell in arm.cells if cell.key.block == boot.block and cell.measured_at
            )
            rows.append(
                {
                    "arm": arm.name,
                    "block": boot.block,
                    "status": boot.status,
                    "started_at": boot.started_at,
                    "first_cell_at": stamps[0] if stamps else None,
                    "last_cell_at": stamps[-1] if stamps else None,
                }
            )
    return rows


def _quoted(data: Mapping[str, Any]) -> Json:
    """Declared or recorded text, as it stands."""
    plain: Json = json.loads(json.dumps(dict(data), default=str))
    return plain
