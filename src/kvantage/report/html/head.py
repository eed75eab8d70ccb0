"""The top of the page: the verdict, and the trade of each arm, to be read in ten seconds."""

from __future__ import annotations

from dataclasses import dataclass

from kvantage.analysis import wording
from kvantage.analysis.compare import Ratio
from kvantage.analysis.findings import ArmFindings, Findings
from kvantage.analysis.stats import judge
from kvantage.core.reading import Reading
from kvantage.report.charts.theme import colour_places
from kvantage.report.figures import DASH, figure
from kvantage.report.html.places import headline, levels, place, short_name

STATUS = {
    "recommended": ("Recommended", "sure"),
    "tie": ("A tie", "open"),
    "undecided": ("Not decided", "open"),
    "none": ("No arm can win", "none"),
    "no policy": ("No policy was stated", "open"),
}


@dataclass(frozen=True)
class Tile:
    """One large figure beside the verdict."""

    name: str
    value: str
    detail: str = ""


@dataclass(frozen=True)
class Badge:
    """A mark that leads to what it marks."""

    text: str
    target: str
    tone: str = ""


@dataclass(frozen=True)
class Mark:
    """One cell of the trades: a figure, and under it what it rests on."""

    value: str
    detail: str = ""
    tone: str = ""


@dataclass(frozen=True)
class TradeRow:
    """One arm in the table of trades."""

    name: str
    colour: int
    detail: str
    chosen: bool
    cells: tuple[Mark, ...]


@dataclass(frozen=True)
class Head:
    """Everything above the first section, as plain text."""

    title: str
    study: str
    notice: str | None
    version: str
    status: str
    tone: str
    headline: str
    tiles: tuple[Tile, ...]
    sentences: tuple[str, ...]
    badges: tuple[Badge, ...]
    control: str
    columns: tuple[str, ...]
    arms: tuple[TradeRow, ...]
    notes: tuple[str, ...]
    footer: str


def read_head(findings: Findings, sections: set[str]) -> Head:
    """The top of the page. `sections` are those that the page has, for the badges to lead to."""
    status, tone = STATUS[findings.verdict.status]
    study = findings.study
    columns, rows, notes = _trades(findings)
    name = str(study.declared.get("name") or "")
    return Head(
        title=f"{short_name(study.model) or 'a study'}: {_many(len(findings.arms), 'arm')} on {study.engine}",
        study=f"study {name}" if name else "",
        notice=findings.notice,
        version=findings.kvantage_version,
        status=status,
        tone=tone,
        headline=_headline(findings),
        tiles=_tiles(findings),
        sentences=tuple(findings.verdict.sentences),
        badges=_badges(findings, sections),
        control=study.control,
        columns=columns,
        arms=rows,
        notes=notes,
        footer=f"Measured by kvantage {findings.kvantage_version}. This file needs no network and holds all "
        "of its data. Words, gates and intervals: docs/report.md.",
    )


def _many(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _headline(findings: Findings) -> str:
    verdict = findings.verdict
    if verdict.arm is None:
        return "No arm is recommended"
    if verdict.status == "tie":
        control = findings.study.control
        tied = [f"{arm} (the control)" if arm == control else arm for arm in (verdict.arm, *verdict.tied)]
        return f"{wording.listed(tied)} tie"
    if verdict.status == "undecided":
        return f"{verdict.arm} is ahead, not for certain"
    return f"Serve with {verdict.arm}"


def _tiles(findings: Findings) -> tuple[Tile, ...]:
    verdict = findings.verdict
    if verdict.arm is None:
        return ()
    arm = findings.arm(verdict.arm)
    named = f" of {verdict.arm}" if verdict.status == "tie" else ""
    tiles = [Tile(f"Cost{named}", *_cost(findings, arm)), Tile(f"Speed{named}", *_bought(findings, arm))]
    tiles.append(Tile("Certainty", *_certainty(findings)))
    judged = findings.exactness.of(arm.name) if findings.exactness else None
    if judged is not None:
        tiles.append(Tile("Answers", judged.cls, judged.detail))
    return tuple(tiles)


def _cost(findings: Findings, arm: ArmFindings) -> tuple[str, str]:
    if arm.control:
        return "none", "it is the control: nothing drafts"
    value, detail = pool_words(findings, arm)
    return (f"{value} KV pool" if value not in (DASH, "0 %") else "no KV pool lost"), detail


def _bought(findings: Findings, arm: ArmFindings) -> tuple[str, str]:
    verdict = findings.verdict
    told = f"{figure(verdict.figure)} {verdict.figure.unit}, {verdict.objective}"
    ratio = headline(findings, arm.name)
    if arm.control or ratio is None or ratio.ratio.value is None:
        return f"{figure(verdict.figure)} {verdict.figure.unit}", verdict.objective
    return f"{wording.times(ratio.ratio.value)} the control", f"{span(ratio.ratio)}; {told}"


def _certainty(findings: Findings) -> tuple[str, str]:
    verdict = findings.verdict
    margin = verdict.margin
    if verdict.runner_up is None or margin.value is None:
        return "no rival", margin.missing or "no other arm can win"
    rests = margin.note or "no interval"
    times = wording.times(margin.value)
    told = f"{times} {verdict.runner_up}"
    told += f", {span(margin)}; {rests}" if margin.low is not None else f"; {rests}"
    if verdict.status == "tie":
        return f"not told apart from {wording.listed(list(verdict.tied))}", told
    if verdict.status == "undecided":
        return f"not certain that it beats {verdict.runner_up}", told
    return f"told apart from {verdict.runner_up}, the runner-up", told


def span(reading: Reading) -> str:
    """'0.82 to 1.58', or that there is no interval."""
    if reading.low is None or reading.high is None:
        return "no interval"
    return f"{reading.low:.2f} to {reading.high:.2f}"


def pool_words(findings: Findings, arm: ArmFindings) -> tuple[str, str]:
    """('-24.7 %', '2,944 of 11,904 tokens less') of an arm's pool against the control's."""
    pool, control = arm.pool, findings.arm(findings.study.control).pool
    for lost, mine, theirs, unit in (
        (pool.lost_tokens, pool.tokens, control.tokens, "tokens"),
        (pool.lost_bytes, pool.bytes, control.bytes, "bytes"),
    ):
        if lost.value is None or mine.value is None or theirs.value is None:
            continue
        gap = theirs.value - mine.value
        if not gap:
            return "0 %", f"{mine.value:,.0f} {unit}, as the control"
        word = "less" if gap > 0 else "more"
        return f"{-lost.value:+.1f} %", f"{mine.value:,.0f} {unit}: {abs(gap):,.0f} {word} than the control"
    return DASH, pool.tokens.missing or pool.lost_tokens.missing or "not known"


def _badges(findings: Findings, sections: set[str]) -> tuple[Badge, ...]:
    cells = [cell for arm in findings.arms for cell in arm.cells]
    void = sum(not cell.ok for cell in cells)
    badges = []
    if void:
        badges.append(Badge(f"{void} of {len(cells)} cells void, and averaged nowhere", "void", "warn"))
    elif cells:
        badges.append(Badge(f"none of {len(cells)} cells void", "void", "good"))
    bad = [arm.name for arm in findings.arms if arm.status != "measured"]
    if bad:
        badges.append(Badge(f"not measured whole: {', '.join(bad)}", "method", "warn"))
    boots = {len({boot.block for boot in arm.boots if boot.status != "failed"}) for arm in findings.arms}
    boots -= {0}
    if boots:
        least = min(boots)
        word = "boot" if max(boots) == 1 else "boots"
        many = f"{least}" if len(boots) == 1 else f"{least} to {max(boots)}"
        badges.append(Badge(f"{many} {word} an arm", "method", "warn" if least == 1 else ""))
    if findings.simulated:
        badges.append(Badge("simulated, not measured", "limits", "warn"))
    if findings.limits:
        badges.append(Badge(f"{_many(len(findings.limits), 'limit')} of this study", "limits"))
    return tuple(badge for badge in badges if badge.target in sections)


def _trades(findings: Findings) -> tuple[tuple[str, ...], tuple[TradeRow, ...], tuple[str, ...]]:
    places = colour_places(findings.study.control, [arm.name for arm in findings.arms])
    told = {arm.name: headline(findings, arm.name) for arm in findings.arms}
    some = next((ratio for ratio in told.values() if ratio is not None), None)
    where = f": {place(some.phase, some.workload, some.concurrency)}" if some is not None else ""
    columns = ["Arm", "KV pool lost or won", f"Speed{where}"]
    columns += ["Answers"] if findings.exactness else []
    columns.append("Void cells")
    rows = []
    for arm in findings.arms:
        ratio = told[arm.name]
        void = sum(not cell.ok for cell in arm.cells)
        cells = [_pool_mark(findings, arm), _speed_mark(arm, ratio, some)]
        cells += [_answers_mark(findings, arm)] if findings.exactness else []
        cells.append(Mark(f"{void} of {len(arm.cells)}", tone="warn" if void else ""))
        chosen = arm.name == findings.verdict.arm
        rows.append(TradeRow(arm.name, places[arm.name], _drafting(arm), chosen, tuple(cells)))
    rests = levels(ratio.replication for ratio in told.values() if ratio is not None and ratio.ratio.known)
    notes = (f"Intervals: {rests}.",) if rests else ()
    return tuple(columns), tuple(rows), notes


def _drafting(arm: ArmFindings) -> str:
    if arm.status not in ("measured", "partial"):
        return f"{arm.status}: {arm.reason or 'no reason told'}"
    if arm.control:
        return "the control"
    declared = arm.speculation
    drafter = f", {short_name(declared.draft)}" if declared.draft else ""
    drafts = f", {declared.drafts} drafts a step" if declared.drafts else ""
    return f"{declared.method}{drafts}{drafter}"


def _pool_mark(findings: Findings, arm: ArmFindings) -> Mark:
    if arm.control:
        tokens = arm.pool.tokens
        return Mark("control", f"{figure(tokens)} tokens" if tokens.known else tokens.missing or "")
    value, detail = pool_words(findings, arm)
    tone = "bad" if value.startswith("-") else "good" if value.startswith("+") else ""
    return Mark(value, detail, tone)


def _speed_mark(arm: ArmFindings, ratio: Ratio | None, some: Ratio | None) -> Mark:
    if arm.control:
        base = (
            f"{wording.speed(some.baseline.value)} {some.baseline.unit}"
            if some and some.baseline.value
            else ""
        )
        return Mark("1x", f"{base}, control" if base else "control")
    if ratio is None:
        return Mark(DASH, "not measured in both arms")
    if ratio.ratio.value is None:
        if ratio.void_arms:
            return Mark(DASH, f"no ratio: void in {wording.listed(ratio.void_arms)}", "warn")
        return Mark(DASH, ratio.ratio.missing or "no ratio")
    return Mark(wording.times(ratio.ratio.value), speed_words(ratio), side(ratio.ratio))


def _answers_mark(findings: Findings, arm: ArmFindings) -> Mark:
    """The arm's class of exactness, against how much the control differs from itself."""
    if arm.control:
        return Mark("control")
    judged = findings.exactness.of(arm.name) if findings.exactness else None
    if judged is None:
        return Mark(DASH, "not judged")
    tone = {"bit-identical": "good", "differs": "bad", "void": "warn"}.get(judged.cls, "")
    return Mark(judged.cls, judged.detail, tone)


def side(reading: Reading) -> str:
    """'good' above 1 for certain, 'bad' below it, nothing where the interval spans it or there is none."""
    if reading.low is None or reading.high is None:
        return ""
    return {"above": "good", "below": "bad"}.get(judge(reading.low, reading.high), "")


def speed_words(ratio: Ratio) -> str:
    """'0.82 to 1.58, not told apart from 1; 314 against 277 tok/s'."""
    told = span(ratio.ratio)
    if ratio.ratio.low is not None and not side(ratio.ratio):
        told += ", not told apart from 1"
    if ratio.value.value is not None and ratio.baseline.value is not None:
        told += f"; {wording.speed(ratio.value.value)} against {wording.speed(ratio.baseline.value)} "
        told += ratio.value.unit
    return told
