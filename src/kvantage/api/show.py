"""How a run and a plan look in a notebook: small tables, everything escaped, nothing fetched."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from kvantage.analysis import Findings
from kvantage.core import Reading
from kvantage.planner.plan import ArmPlan, Plan
from kvantage.report import tables
from kvantage.report.escape import plain


def run_html(findings: Findings, folder: str) -> str:
    """Notice, verdict, and the main tables; the whole is report.html in the folder."""
    study = findings.study
    parts = [_tag("h4", f"{study.model} on {study.engine}")]
    if findings.notice:
        parts.append(_tag("p", findings.notice, "b"))
    parts += [_tag("p", sentence) for sentence in findings.verdict.sentences]
    for table in (tables.results(findings), tables.sessions(findings, brief=True), tables.void(findings)):
        if table.rows:
            parts.append(_table(table.title, table.columns, table.rows, table.numeric))
            parts += [_tag("p", note, "small") for note in table.notes]
    parts.append(_tag("p", f"All of it: {folder}/report.html", "small"))
    return _div(parts)


def plan_html(plan: Plan) -> str:
    """An arm a row: pool, sessions, acceptance, break-even, speed; then which is best and why."""
    lengths, at = list(plan.asked.lengths), list(plan.asked.concurrency)
    columns = ["Arm", "KV pool (tokens)"]
    columns += [f"sessions of {length:,}" for length in lengths]
    columns += ["AL", "break-even AL"]
    columns += [f"tok/s at {count}" for count in at]
    rows = [
        [
            arm.name,
            _figure(arm.pool.tokens(), "{:,.0f}") if arm.pool else "–",
            *(_figure(arm.sessions.get(length), "{:,.1f}") for length in lengths),
            f"{arm.acceptance.value:.2f}" if arm.acceptance else "–",
            _figure(arm.break_even, "{:.2f}"),
            *(_figure(arm.decode.get(count), "{:.1f}") for count in at),
        ]
        for arm in plan.arms
    ]
    parts = [
        _tag("p", "Predicted; nothing of it is measured.", "b"),
        _table("Plan", columns, rows, range(1, len(columns))),
    ]
    parts += [_tag("p", why, "small") for arm in plan.arms for why in _why_not(arm)]
    parts += [_tag("p", f"Best: {plan.best.reason}" if plan.best.arm else plan.best.reason)]
    parts += [_tag("p", note, "small") for note in plan.notes]
    return _div(parts)


def _why_not(arm: ArmPlan) -> list[str]:
    return [f"{arm.name}: {why}" for why in (arm.refused, arm.no_pool, arm.no_speed) if why]


def _figure(reading: Reading | None, form: str) -> str:
    if reading is None or reading.value is None:
        return "–"
    text = form.format(reading.value)
    if reading.low is not None and reading.high is not None and reading.high > reading.low:
        text += f" ({form.format(reading.low)} to {form.format(reading.high)})"
    return text


def _table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], numeric: Iterable[int]) -> str:
    right = set(numeric)

    def line(cells: Sequence[str], kind: str) -> str:
        made = (
            f'<{kind} style="text-align:{"right" if place in right else "left"}">{_text(cell)}</{kind}>'
            for place, cell in enumerate(cells)
        )
        return f"<tr>{''.join(made)}</tr>"

    body = "".join(line(row, "td") for row in rows)
    caption = f'<caption style="text-align:left">{_text(title)}</caption>'
    return f"<table>{caption}<thead>{line(columns, 'th')}</thead><tbody>{body}</tbody></table>"


def _tag(name: str, text: str, inner: str = "") -> str:
    held = f"<{inner}>{_text(text)}</{inner}>" if inner else _text(text)
    return f"<{name}>{held}</{name}>"


def _div(parts: Iterable[str]) -> str:
    return f"<div>{''.join(parts)}</div>"


def _text(text: str) -> str:
    return escape(plain(text))
