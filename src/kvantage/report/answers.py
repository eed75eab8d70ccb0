"""Right answers: what the probes asked, and the secrets that documents gave back."""

from __future__ import annotations

from collections.abc import Iterable

from kvantage.analysis.findings import Findings
from kvantage.analysis.probes import ProbeResult
from kvantage.report.figures import DASH, Notes, figure
from kvantage.report.tables import Table, after


def probes(findings: Findings, brief: bool = False) -> Table:
    """Right answers by kind, alone and in a crowd, and agreement with the control; an arm a column."""
    notes = Notes()
    asked = dict.fromkeys((probe.kind, probe.concurrency) for arm in findings.arms for probe in arm.probes)
    order = list(dict.fromkeys(kind for kind, _ in asked))
    rows = []
    for kind, concurrency in sorted(asked, key=lambda each: (order.index(each[0]), each[1])):
        row = [kind, str(concurrency)]
        for arm in findings.arms:
            found = [each for each in arm.probes if (each.kind, each.concurrency) == (kind, concurrency)]
            row.append(" / ".join(_probe(each, brief) for each in found) or DASH)
        rows.append(tuple(row))
    said = "Passed of asked"
    said += "." if brief else "; then how many answers are the control's, word for word."
    failures = () if brief else tuple(dict.fromkeys(_failures(findings)))
    columns = ("Probe", "at once", *(arm.name for arm in findings.arms))
    return Table("Probes", columns, tuple(rows), after(1, columns), (said, *failures, *notes.lines()))


def recall(findings: Findings) -> Table:
    """Secrets given back from the documents; an arm a column."""
    asked = dict.fromkeys((each.phase, each.concurrency) for arm in findings.arms for each in arm.recall)
    rows = []
    for phase, concurrency in asked:
        row = [phase, str(concurrency)]
        for arm in findings.arms:
            found = [each for each in arm.recall if (each.phase, each.concurrency) == (phase, concurrency)]
            row.append(
                " / ".join(f"{figure(each.recalled)} of {figure(each.asked)}" for each in found) or DASH
            )
        rows.append(tuple(row))
    columns = ("Phase", "at once", *(arm.name for arm in findings.arms))
    return Table("Secrets recalled", columns, tuple(rows), after(1, columns))


def _probe(probe: ProbeResult, brief: bool) -> str:
    text = f"{figure(probe.passed)} of {figure(probe.asked)}"
    if probe.void.value:
        text += f" ({figure(probe.void)} void)"
    if brief or probe.agree.value is None:
        return text
    return f"{text}, {figure(probe.agree)} as control"


def _failures(findings: Findings) -> Iterable[str]:
    """Each failure once, with the arms and concurrencies that had it."""
    where: dict[str, list[str]] = {}
    for arm in findings.arms:
        for probe in arm.probes:
            for failure in probe.failures:
                where.setdefault(failure, []).append(f"{arm.name} at {probe.concurrency}")
    return (f"{failure} ({', '.join(places)})" for failure, places in where.items())
