"""`kvantage golden`: a server whose times, tokens and faults are known."""

from kvantage.golden.__main__ import command

__all__ = ["command"]
