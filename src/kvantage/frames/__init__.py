"""A study's measurements as tables: polars frames, files, and the dictionary of both."""

from kvantage.frames.build import frame, names
from kvantage.frames.dictionary import TABLES, dictionary_markdown
from kvantage.frames.export import FORMATS, export

__all__ = ["FORMATS", "TABLES", "dictionary_markdown", "export", "frame", "names"]
