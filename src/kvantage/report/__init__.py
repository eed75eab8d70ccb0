"""Findings shown: report.html, report.md, report.json and the terminal. Nothing is computed here."""

from kvantage.report.files import write_html, write_json, write_markdown, write_reports
from kvantage.report.html import report_html
from kvantage.report.json import report, report_json, report_schema
from kvantage.report.markdown import report_markdown
from kvantage.report.terminal import show_terminal

__all__ = [
    "report",
    "report_html",
    "report_json",
    "report_markdown",
    "report_schema",
    "show_terminal",
    "write_html",
    "write_json",
    "write_markdown",
    "write_reports",
]
