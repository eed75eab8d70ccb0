"""The report's files, written whole or not at all."""

from __future__ import annotations

from pathlib import Path

from kvantage.analysis.findings import Findings
from kvantage.core.errors import LedgerError
from kvantage.report.html import report_html
from kvantage.report.json import report_json
from kvantage.report.markdown import report_markdown


def write_reports(findings: Findings, folder: Path) -> tuple[Path, ...]:
    """Write report.json, report.md and, last since it needs the most, report.html into `folder`; returns
    their paths, the page's first. Raises LedgerError.
    """
    writers = {"report.json": write_json, "report.md": write_markdown, "report.html": write_html}
    for name, write in writers.items():
        write(findings, folder / name)
    return tuple(folder / name for name in reversed(writers))


def write_json(findings: Findings, path: Path) -> None:
    """Write report.json. Raises LedgerError when the disk will not have it."""
    _write(path, report_json(findings))


def write_markdown(findings: Findings, path: Path) -> None:
    """Write report.md. Raises LedgerError when the disk will not have it."""
    _write(path, report_markdown(findings))


def write_html(findings: Findings, path: Path) -> None:
    """Write report.html. Raises LedgerError when the disk will not have it."""
    _write(path, report_html(findings))


def _write(path: Path, text: str) -> None:
    partial = path.with_name(f".{path.name}.partial")
    try:
        partial.write_text(text, encoding="utf-8", errors="replace")
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise LedgerError(
            f"the report cannot be written: {error.strerror or error}",
            where=str(path),
            hint="what was measured is safe in the ledger: free some space, then `kvantage report` again",
        ) from error
