"""A server whose truth is known: its times, its tokens and its faults are given, and it logs what it did."""

from kvantage.golden.log import Written
from kvantage.golden.options import Options
from kvantage.golden.process import GoldenProcess
from kvantage.golden.script import Script
from kvantage.golden.server import GoldenServer
from kvantage.golden.source import Ask, Page, Piece, Source

__all__ = ["Ask", "GoldenProcess", "GoldenServer", "Options", "Page", "Piece", "Script", "Source", "Written"]
