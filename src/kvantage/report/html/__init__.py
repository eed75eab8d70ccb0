"""report.html: a frame, and a file a section."""

from kvantage.report.html.page import read_sections, report_html

__all__ = ["read_sections", "report_html"]
