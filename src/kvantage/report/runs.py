"""Two runs, or a run and a write-up, beside each other: tables for the terminal, and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from kvantage.analysis import wording
from kvantage.analysis.posted import Beside, SheetComparison, Unlike
from kvantage.analysis.runs import Change, RunComparison
from kvantage.report.escape import plain
from kvantage.report.figures import Notes, figure, interval, number, times
from kvantage.report.tables import Table, named
from kvantage.report.terminal import show_table

Json = dict[str, Any]

METRICS = {
    "decode_tok_s": "tok/s a user",
    "steady_tok_s": "tok/s in all",
    "ttft_s": "TTFT (s)",
    "kv_pool_tokens": "tokens",
    "tok_per_joule": "tok/J",
}
SHOWN = 40
"""Differences of configuration that a terminal shows; all of them are in the JSON."""


def show_runs(found: RunComparison, console: Console | None = None) -> None:
    """Print what changed between two runs, and what differs in how they were run."""
    out = console or Console()
    show_table(out, changes(found))
    show_table(out, classes(found))
    show_table(out, differences(found))
    for name, arms in ((found.before, found.only_before), (found.after, found.only_after)):
        if arms:
            out.print(Text(f"Only in {plain(name)}: {plain(', '.join(arms))}", style="dim"))
    out.print(Text(plain(conclusion(found)), style="bold red" if found.regressed else "bold"))


def conclusion(found: RunComparison) -> str:
    """All of it in a sentence or two."""
    judged = [each for each in found.changes if each.ratio.known]
    margin = wording.percent(found.margin * 100)
    if not judged:
        return "Nothing could be compared."
    better = [each for each in judged if each.kind == "improved"]
    worse = [each for each in judged if each.kind == "worse"]
    if found.regressions:
        parts = [f"Regressed past {margin}: {_listed(found.regressions)}"]
    else:
        parts = [f"No regression past {margin} in {len(judged)} figures"]
    fallen = [each for each in found.classes if each.kind == "regressed"]
    parts += [
        f"answers of {wording.named(each.arm)} fell from '{each.before}' to '{each.after}'" for each in fallen
    ]
    parts += [f"better: {_listed(better)}"] if better else []
    parts += [f"worse within it: {_listed(worse)}"] if worse else []
    if not (found.regressions or better or worse or fallen):
        widest = max(judged, key=lambda each: (each.ratio.high or 1) / (each.ratio.low or 1))
        parts.append(f"no change seen; the widest interval is {_what(widest)}, {interval(widest.ratio)}")
    said = "; ".join(parts) + "."
    if found.single:
        whose = "All" if len(found.single) == len(judged) else f"{len(found.single)} of the {len(judged)}"
        said += (
            f" {whose} have one sound boot in each run, so that only what is beyond the widest published "
            "boot noise is told of them: start each arm three times (`boots: 3`) to see less."
        )
    return said


def _listed(changes: Sequence[Change]) -> str:
    return wording.listed(
        [
            f"{_what(each)} {(each.gain.value or 0.0) * 100:+.1f} % (ratio {interval(each.ratio)})"
            for each in changes
        ]
    )


def _what(change: Change) -> str:
    return f"{wording.named(change.arm)} {_place(change)} {METRICS[change.metric]}"


def _place(change: Change) -> str:
    """`short code`, `repeat @4`, `pool`."""
    if not change.phase:
        return "pool"
    text = named(change.phase, change.workload)
    return text if change.phase in ("short", "ttft") else f"{text} @{change.concurrency}"


def changes(found: RunComparison) -> Table:
    """A figure a row: both runs, the ratio with its interval, and what it means; what is refused below."""
    notes = Notes()
    rows, refused = [], dict[str, list[str]]()
    for each in found.changes:
        if each.ratio.value is None:
            refused.setdefault(each.ratio.missing or "", []).append(_what(each))
            continue
        digits = 3 if each.metric == "ttft_s" else None
        rows.append(
            (
                each.arm,
                f"{_place(each)} {METRICS[each.metric]}",
                figure(each.before, digits),
                figure(each.after, digits),
                f"{each.ratio.value:.3f}",
                f"{interval(each.ratio)} [{notes.number(each.level)}]",
                each.kind,
            )
        )
    said = (
        f"Ratio: {found.after} over {found.before}. Regressed: worse for certain, with Holm's p over all "
        f"figures below 0.05, and by more than {wording.percent(found.margin * 100)}."
    )
    gone = [f"Not compared, {reason}: {', '.join(places)}." for reason, places in refused.items()]
    columns = ("Arm", "what", "before", "after", "ratio", "interval", "")
    title = f"{found.after} against {found.before}"
    return Table(title, columns, tuple(rows), (2, 3, 4, 5), (said, *notes.lines(), *gone))


def classes(found: RunComparison) -> Table:
    """The class of each arm's answers in both runs."""
    rows = tuple((each.arm, each.before, each.after, each.kind) for each in found.classes)
    return Table("Exactness", ("Arm", "before", "after", ""), rows)


def differences(found: RunComparison) -> Table:
    """What the two runs differ in, the work first."""
    told = [*found.asked, *found.configured]
    rows = tuple((each.where, each.what, each.before, each.after) for each in told[:SHOWN])
    more = len(told) - len(rows)
    notes = (f"{more} more: see --json.",) if more > 0 else ()
    return Table("What differs in how they were run", ("where", "what", "before", "after"), rows, notes=notes)


def show_sheets(found: SheetComparison, console: Console | None = None) -> None:
    """Print what differs between a run and a write-up, or two write-ups, and what can be compared."""
    out = console or Console()
    show_table(out, unlike(found))
    show_table(out, beside(found))
    if found.unmatched:
        out.print(Text(f"Without a like: {plain('; '.join(found.unmatched))}", style="dim"))
    for note in found.notes:
        out.print(Padding(Text(plain(note), style="dim"), (0, 0, 0, 2)))
    out.print(Text(plain(sheet_conclusion(found)), style="bold"))


def sheet_conclusion(found: SheetComparison) -> str:
    """How much could be compared."""
    compared = sum(each.ratio.known for each in found.figures)
    if not found.figures:
        return "They have no figure of the same place and metric."
    return (
        f"{compared} of {len(found.figures)} figures can be compared; none has an interval that holds what "
        "varies between two places, so a difference here is a lead and no finding."
    )


def unlike(found: SheetComparison) -> Table:
    """Definitions, protocol and configuration, where the two say otherwise or one does not say."""
    groups = (
        ("definition", found.definitions),
        ("protocol", found.protocol),
        ("configuration", found.configuration),
    )
    rows = [(group, each.name, each.first, each.second) for group, told in groups for each in told]
    columns = ("", "what", found.first, found.second)
    return Table("What differs", columns, tuple(rows))


def beside(found: SheetComparison) -> Table:
    """A figure a row, with the ratio or the reason why there is none."""
    notes = Notes()
    rows = []
    for each in found.figures:
        marks = "".join(f" [{notes.number(caveat)}]" for caveat in each.caveats) if each.ratio.known else ""
        arms = each.arm if each.arm == each.other_arm else f"{each.arm} / {each.other_arm}"
        unit = "x its control" if each.kind == "over control" else each.first.unit
        rows.append(
            (
                arms,
                f"{each.what}{', over its control' if each.kind == 'over control' else ''}",
                f"{figure(each.first)} {unit}",
                f"{figure(each.second)} {unit}",
                notes.mark(times(each.ratio), each.ratio) + marks,
            )
        )
    said = f"Ratio: {found.second} over {found.first}, of single figures."
    columns = ("Arm", "what", "first", "second", "ratio")
    return Table("Beside each other", columns, tuple(rows), (2, 3, 4), (said, *notes.lines()))


def runs_json(found: RunComparison) -> Json:
    """The comparison of two runs as plain data."""
    return {
        "kind": "runs",
        "before": found.before,
        "after": found.after,
        "margin": {"value": found.margin, "unit": "ratio", "source": "config"},
        "conclusion": conclusion(found),
        "changes": [
            {
                "arm": each.arm,
                "metric": each.metric,
                "phase": each.phase or None,
                "workload": each.workload or None,
                "concurrency": each.concurrency or None,
                "before": number(each.before),
                "after": number(each.after),
                "ratio": number(each.ratio),
                "gain": number(each.gain),
                "holm_p": {"missing": "not compared"}
                if each.holm is None
                else {"value": each.holm, "unit": "p", "source": "computed"},
                "kind": each.kind,
                "replication": each.level,
            }
            for each in found.changes
        ],
        "asked_otherwise": [_changed(each) for each in found.asked],
        "configured_otherwise": [_changed(each) for each in found.configured],
        "exactness": [
            {"arm": each.arm, "before": each.before, "after": each.after, "kind": each.kind}
            for each in found.classes
        ],
        "only_before": list(found.only_before),
        "only_after": list(found.only_after),
    }


def sheets_json(found: SheetComparison) -> Json:
    """The comparison with a write-up as plain data."""
    return {
        "kind": "posted",
        "first": found.first,
        "second": found.second,
        "conclusion": sheet_conclusion(found),
        "definitions": [_unlike(each) for each in found.definitions],
        "protocol": [_unlike(each) for each in found.protocol],
        "configuration": [_unlike(each) for each in found.configuration],
        "arms": [list(pair) for pair in found.arms],
        "unmatched": list(found.unmatched),
        "figures": [_beside(each) for each in found.figures],
        "notes": list(found.notes),
    }


def _changed(each: Any) -> Json:
    return {"where": each.where, "what": each.what, "before": each.before, "after": each.after}


def _unlike(each: Unlike) -> Json:
    return {"what": each.name, "first": each.first, "second": each.second}


def _beside(each: Beside) -> Json:
    return {
        "arm": each.arm,
        "other_arm": each.other_arm,
        "what": each.what,
        "kind": each.kind,
        "first": number(each.first),
        "second": number(each.second),
        "ratio": number(each.ratio),
        "caveats": list(each.caveats),
    }
